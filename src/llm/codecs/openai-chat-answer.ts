import { createHash } from 'node:crypto';
import { isJsonObject, type JsonObject, type JsonValue } from '../../json.ts';
import type { ModelAnswer, StopReason, ToolCall, Usage } from '../types.ts';
import { ModelAnswerError } from './answer-error.ts';

/** First line of a server-sent event stream. */
const EVENT_STREAM = /^\uFEFF?\s*(?:data|event|id|retry)?:/;

/**
 * Reads one whole answer; a body that is not JSON is handed in as its text.
 * @throws ModelAnswerError
 */
export function decodeAnswer(response: JsonValue): ModelAnswer {
  if (typeof response === 'string') {
    throw new ModelAnswerError(
      EVENT_STREAM.test(response)
        ? 'the answer is an event stream although none was asked for; set "stream" to false in the request body'
        : 'the answer is not JSON',
    );
  }
  if (!isJsonObject(response)) throw new ModelAnswerError('the answer is not a JSON object');
  const { choices } = response;
  if (!Array.isArray(choices) || choices.length === 0) {
    const reported = reportedError(response.error);
    if (reported !== undefined) throw new ModelAnswerError(`the answer reports an error: ${reported}`);
    throw new ModelAnswerError(Array.isArray(choices) ? 'the answer has empty choices' : 'the answer has no choices');
  }
  const [choice] = choices;
  if (!isJsonObject(choice)) throw new ModelAnswerError('the first choice of the answer is not an object');
  return readChoice(choice, response);
}

function readChoice(choice: JsonObject, response: JsonObject): ModelAnswer {
  const finish = typeof choice.finish_reason === 'string' ? choice.finish_reason : undefined;
  const named = `(finish_reason: ${finish ?? 'none'})`;
  const { message } = choice;
  if (!isJsonObject(message)) {
    const reported = reportedError(choice.error ?? response.error);
    const cause = reported === undefined ? '' : `: ${reported}`;
    throw new ModelAnswerError(`the first choice of the answer has no message ${named}${cause}`);
  }
  const text = readText(message.content);
  const refusal = readText(message.refusal);
  const toolCalls = readToolCalls(message.tool_calls, response);
  if (toolCalls.length === 0 && text.trim() === '') throw new ModelAnswerError(emptyAnswer(finish, refusal, named));
  const usage = mapUsage(response.usage);
  return {
    text,
    toolCalls,
    stopReason: refusal.trim() === '' ? mapStopReason(finish, toolCalls.length > 0) : 'refusal',
    wireStopReason: finish,
    ...(usage === undefined ? {} : { usage }),
  };
}

function emptyAnswer(finish: string | undefined, refusal: string, named: string): string {
  if (refusal.trim() !== '') return `the model gave a refusal in place of an answer: ${refusal} ${named}`;
  if (finish === 'content_filter') return `the answer was removed by the content filter of the provider ${named}`;
  if (finish === 'length') return `the token limit was spent before any text was written ${named}; raise max_tokens`;
  return `the answer holds neither text nor tool calls ${named}`;
}

/** Text, or the text parts of a list of parts; anything else is no text. */
function readText(content: JsonValue | undefined): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part) => (isJsonObject(part) && typeof part.text === 'string' ? part.text : '')).join('');
}

function readToolCalls(calls: JsonValue | undefined, response: JsonObject): ToolCall[] {
  if (!Array.isArray(calls)) return [];
  const taken = new Set<string>();
  return calls.map((call, index) => {
    const definition = isJsonObject(call) ? call.function : undefined;
    const name = isJsonObject(definition) ? definition.name : undefined;
    if (!isJsonObject(call) || !isJsonObject(definition) || typeof name !== 'string' || name.trim() === '') {
      throw new ModelAnswerError(`tool call ${index + 1} of the answer names no function`);
    }
    const text = argumentsText(definition.arguments);
    const own = typeof call.id === 'string' ? call.id : '';
    const id = own === '' || taken.has(own) ? generatedId([response.id ?? null, index, name, text]) : own;
    taken.add(id);
    return { id, name, arguments: text };
  });
}

/** Raw text; blank and null mean that there are none. Some vendors send the object itself. */
function argumentsText(value: JsonValue | undefined): string {
  if (value === undefined || value === null) return '';
  if (typeof value !== 'string') return JSON.stringify(value);
  return value.trim() === '' ? '' : value;
}

/** The same answer always gives the same id. */
function generatedId(parts: JsonValue[]): string {
  return `call_${createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 24)}`;
}

/** Several vendors say `stop` or nothing beside tool calls. */
function mapStopReason(finish: string | undefined, hasToolCalls: boolean): StopReason {
  if (finish === 'length' || finish === 'content_filter') return finish;
  if (hasToolCalls) return 'tool_calls';
  return finish === 'stop' || finish === 'tool_calls' || finish === 'function_call' ? 'stop' : 'other';
}

function mapUsage(usage: JsonValue | undefined): Usage | undefined {
  if (!isJsonObject(usage)) return undefined;
  const inputTokens = count(usage.prompt_tokens);
  const outputTokens = count(usage.completion_tokens);
  if (inputTokens === undefined && outputTokens === undefined) return undefined;
  const sum = (inputTokens ?? 0) + (outputTokens ?? 0);
  return {
    inputTokens: inputTokens ?? 0,
    outputTokens: outputTokens ?? 0,
    totalTokens: count(usage.total_tokens) ?? sum,
  };
}

function count(value: JsonValue | undefined): number | undefined {
  return typeof value === 'number' ? value : undefined;
}

/** `{"error":{"message":"…"}}` or `{"error":"…"}`; an empty or absent error is none. */
function reportedError(error: JsonValue | undefined): string | undefined {
  if (typeof error === 'string') return error === '' ? undefined : error;
  if (!isJsonObject(error)) return undefined;
  return typeof error.message === 'string' && error.message !== '' ? error.message : JSON.stringify(error);
}
