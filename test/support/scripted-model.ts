import { INVALID_ARGUMENT } from '../../src/errors.ts';
import type { ModelAnswer, ModelClient, ModelEvent, ModelRequest, ToolCall } from '../../src/llm/types.ts';

/** A plain text, tool calls, a whole answer, a failure, or a function of the request. */
export type ScriptedAnswer =
  | string
  | { readonly calls: readonly ToolCall[]; readonly text?: string; readonly stopReason?: ModelAnswer['stopReason'] }
  | { readonly answer: ModelAnswer }
  | { readonly error: Error };

export interface ScriptedModel extends ModelClient {
  /** What the loop asked, in order. */
  readonly requests: readonly (ModelRequest & { modelId: string; llmInterface: string | undefined })[];
}

/** A model in memory that gives the answers in turn; the last one repeats. */
export function scriptedModel(
  ...answers: (ScriptedAnswer | ((request: ModelRequest, signal: AbortSignal | undefined) => Promise<ScriptedAnswer>))[]
): ScriptedModel {
  const queue = [...answers];
  const requests: (ModelRequest & { modelId: string; llmInterface: string | undefined })[] = [];
  return {
    requests,
    async stream(modelId, llmInterface, request, signal) {
      requests.push({ ...request, modelId, llmInterface });
      const next = queue.length > 1 ? queue.shift() : queue[0];
      if (next === undefined) throw new INVALID_ARGUMENT('the scripted model has no answers');
      return play(typeof next === 'function' ? () => next(request, signal) : async () => next);
    },
  };
}

async function* play(give: () => Promise<ScriptedAnswer>): AsyncGenerator<ModelEvent> {
  let scripted: ScriptedAnswer;
  try {
    scripted = await give();
  } catch (error) {
    yield { type: 'error', error: error instanceof Error ? error : new Error(String(error)) };
    return;
  }
  if (typeof scripted === 'object' && 'error' in scripted) {
    yield { type: 'error', error: scripted.error };
    return;
  }
  const answer = answerOf(scripted);
  if (answer.text !== '') yield { type: 'text', delta: answer.text };
  yield { type: 'done', answer };
}

function answerOf(scripted: Exclude<ScriptedAnswer, { readonly error: Error }>): ModelAnswer {
  if (typeof scripted === 'string') {
    return { text: scripted, toolCalls: [], stopReason: 'stop', wireStopReason: 'stop' };
  }
  if ('answer' in scripted) return scripted.answer;
  const stopReason = scripted.stopReason ?? 'tool_calls';
  return { text: scripted.text ?? '', toolCalls: scripted.calls, stopReason, wireStopReason: stopReason };
}
