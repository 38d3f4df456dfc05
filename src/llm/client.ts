import type { Connector, Connectors } from '../connectors/types.ts';
import { exceedsDepth, MAX_REMOTE_DEPTH, parseJson } from '../json.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Redactor } from '../telemetry/redactor.ts';
import { codecNamed, codecOf } from './codec.ts';
import { ModelAnswerError } from './codecs/answer-error.ts';
import { emptyBodyError, providerError, tooDeepError, unusableAnswerError } from './provider-error.ts';
import type { LlmCodec, ModelAnswer, ModelClient, ModelEvent, ModelRequest, TemplateParameter } from './types.ts';

/** A model that may be asked now. */
export interface OpenModel {
  readonly id: string;
  readonly name: string;
  readonly connector: Connector;
}

/** Where the client finds models: the models room. */
export interface ModelSource {
  /** Deploys the model when that is allowed. @throws MODEL_NOT_FOUND, FORBIDDEN, INVALID_ARGUMENT, MODEL_THROTTLED */
  open(modelId: string): Promise<OpenModel>;
}

export interface ModelClientDeps {
  readonly models: ModelSource;
  readonly connectors: Pick<Connectors, 'execute' | 'hasPlaceholder'>;
  readonly redactor: Redactor;
  readonly log: Logger;
  readonly now: () => number;
}

const TEMPLATE_PARAMETERS: readonly TemplateParameter[] = [
  'messages',
  'prompt',
  'question',
  'system_prompt',
  '_chat_history',
  '_interactions',
  'tool_configs',
];

/**
 * Asks models over their connectors. The provider is called without streaming; its answer comes as one `text` event, when
 * it holds text, and `done`.
 */
export function createModelClient({ models, connectors, redactor, log, now }: ModelClientDeps): ModelClient {
  async function ask(model: OpenModel, codec: LlmCodec, request: ModelRequest, signal: AbortSignal | undefined) {
    const destination = `model ${model.name}`;
    const { fragments, parameters, merge } = codec.encode(request);
    const placed = new Set(
      TEMPLATE_PARAMETERS.filter((name) => connectors.hasPlaceholder(model.connector, 'predict', name)),
    );
    const started = now();
    const response = await connectors.execute(model.connector, {
      actionType: 'predict',
      parameters,
      fragments,
      ...(isComplete(placed, request) ? {} : { merge: (body) => merge(body, placed) }),
      ...(signal === undefined ? {} : { signal }),
    });
    const { status, body } = response;
    log.debug({ modelId: model.id, status, durationMs: now() - started }, `model ${model.name} answered`);
    if (status < 200 || status > 299) throw providerError(response, destination, redactor, now());
    if (body.trim() === '') throw emptyBodyError(destination, status);
    const parsed = parseJson(body) ?? body;
    if (exceedsDepth(parsed, MAX_REMOTE_DEPTH)) throw tooDeepError(destination, status);
    try {
      return codec.decode(redactor.cleanContent(parsed));
    } catch (error) {
      if (!(error instanceof ModelAnswerError)) throw error;
      throw unusableAnswerError(redactor.clean(error.message), destination, status);
    }
  }

  return {
    async stream(modelId, llmInterface, request, signal) {
      const model = await models.open(modelId);
      const codec = llmInterface === undefined ? codecOf(model.connector, model.name) : codecNamed(llmInterface);
      const logged = (error: unknown): never => {
        logModelFailure(model, error, { log, redactor });
        throw error;
      };
      return events(() => ask(model, codec, request, signal).catch(logged), signal);
    },
  };
}

/** One line for a model call that failed, whoever made it: which model, why, and nothing secret. */
export function logModelFailure(
  { id: modelId, name }: Pick<OpenModel, 'id' | 'name'>,
  error: unknown,
  { log, redactor }: Pick<ModelClientDeps, 'log' | 'redactor'>,
): void {
  const { code, statusCode: status, message } = error as { code?: string; statusCode?: number; message?: string };
  log.warn({ modelId, code, status }, `model ${name} failed: ${redactor.clean(String(message))}`);
}

/** Nothing is missing in the template, so the rendered text goes out as it is. */
function isComplete(placed: ReadonlySet<TemplateParameter>, request: ModelRequest): boolean {
  const tools = placed.has('tool_configs') || request.tools.length === 0;
  if (placed.has('messages')) return tools;
  const turn = (placed.has('prompt') || placed.has('question')) && placed.has('_interactions');
  const system = placed.has('system_prompt') || request.system === undefined;
  return tools && turn && system && placed.has('_chat_history');
}

async function* events(
  ask: () => Promise<ModelAnswer>,
  signal: AbortSignal | undefined,
): AsyncGenerator<ModelEvent, void, undefined> {
  let answer: ModelAnswer;
  try {
    signal?.throwIfAborted();
    answer = await ask();
  } catch (error) {
    const cause = signal?.aborted ? signal.reason : error;
    yield { type: 'error', error: cause instanceof Error ? cause : new Error(String(cause)) };
    return;
  }
  if (answer.text !== '') yield { type: 'text', delta: answer.text };
  yield { type: 'done', answer };
}
