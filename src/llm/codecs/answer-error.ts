/** The provider answered, but with nothing an agent can use. The message is a full sentence that names what came instead. */
export class ModelAnswerError extends Error {
  override name = 'ModelAnswerError';
}
