/** Exit codes of the verbs that talk to a server. */
export const EXIT = {
  /** The server answered with an error, or a tool did. */
  failed: 1,
  /** The command line or the environment is not right; nothing was sent. */
  usage: 2,
  /** No answer, or none of this product. */
  unreachable: 3,
  /** Not signed in, or not allowed. */
  refused: 4,
} as const;

/** Ends a verb; the message is the whole explanation. */
export class CommandFailure extends Error {
  override name = 'CommandFailure';
  readonly exitCode: number;
  /** Of the server's answer. */
  readonly status: number | undefined;

  constructor(message: string, exitCode: number, status?: number) {
    super(message);
    this.exitCode = exitCode;
    this.status = status;
  }
}
