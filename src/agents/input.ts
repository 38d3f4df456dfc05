import { INVALID_ARGUMENT, PARSE_FAILED } from '../errors.ts';
import { isJsonObject, type JsonObject, type JsonValue, parameterTexts, parseJson } from '../json.ts';
import type { Message } from '../llm/types.ts';
import type { Settings } from '../settings/types.ts';

/** What a caller asks of an agent. */
export interface AgentInput {
  /** `undefined` only when an earlier question is to be answered again. */
  readonly question: string | undefined;
  /** Messages before the question that came with the request. */
  readonly earlier: readonly Message[];
  /** The caller's `parameters` as texts. */
  readonly parameters: Readonly<Record<string, string>>;
  readonly memoryId?: string;
  readonly parentInteractionId?: string;
  readonly regenerateInteractionId?: string;
}

const UNIFIED = 'plugins.ml_commons.unified_agent_api_enabled';

/** Reads the body of `_execute`. @throws INVALID_ARGUMENT, PARSE_FAILED */
export function readInput(body: JsonObject, settings: Pick<Settings, 'flag'>): AgentInput {
  const given = body.parameters ?? undefined;
  if (given !== undefined && !isJsonObject(given)) throw new PARSE_FAILED('parameters must be an object');
  const input = body.input ?? undefined;
  const members = Object.entries(given ?? {}).filter(([, value]) => value !== null);
  if (input === undefined && members.length === 0) {
    throw new INVALID_ARGUMENT('Agent input data can not be empty.');
  }
  if (input !== undefined && !settings.flag(UNIFIED)) {
    throw new PARSE_FAILED(
      `Standardized input cannot be used if unified agent API is not enabled. To enable, please update the setting ${UNIFIED}`,
    );
  }
  const parameters = parameterTexts(Object.fromEntries(members) as JsonObject);
  const spoken = input === undefined ? { question: parameters.question, earlier: [] } : standardInput(input);
  const memoryId = filled(parameters.memory_id);
  const parentInteractionId = filled(parameters.parent_interaction_id);
  const regenerateInteractionId = filled(parameters.regenerate_interaction_id);
  if (parentInteractionId !== undefined && regenerateInteractionId !== undefined) {
    throw new INVALID_ARGUMENT('Provide either parent_interaction_id or regenerate_interaction_id, not both.');
  }
  if (regenerateInteractionId !== undefined && memoryId === undefined) {
    throw new INVALID_ARGUMENT('A memory ID must be provided to regenerate.');
  }
  if (parentInteractionId !== undefined && memoryId === undefined) {
    throw new INVALID_ARGUMENT('parent_interaction_id needs memory_id: name the memory the message is in.');
  }
  if ((spoken.question ?? '').trim() === '' && regenerateInteractionId === undefined) {
    throw new INVALID_ARGUMENT('The question is missing: give it as parameters.question or as input.');
  }
  return {
    question: filled(spoken.question),
    earlier: spoken.earlier,
    parameters,
    ...(memoryId === undefined ? {} : { memoryId }),
    ...(parentInteractionId === undefined ? {} : { parentInteractionId }),
    ...(regenerateInteractionId === undefined ? {} : { regenerateInteractionId }),
  };
}

function filled(text: string | undefined): string | undefined {
  return text === undefined || text.trim() === '' ? undefined : text;
}

interface Spoken {
  readonly question: string | undefined;
  readonly earlier: readonly Message[];
}

/** A text, content blocks, or messages that end with the user's. */
function standardInput(input: JsonValue): Spoken {
  if (typeof input === 'string') return { question: input, earlier: [] };
  if (!Array.isArray(input) || input.length === 0 || !input.every(isJsonObject)) {
    throw new INVALID_ARGUMENT('input must be a text, an array of content blocks or an array of messages');
  }
  if (!input.every((item) => 'role' in item)) return { question: blockText(input, 'input'), earlier: [] };
  const last = input.length - 1;
  const messages = input.map((item, index) => readMessage(item, `input[${index}]`));
  const question = messages[last];
  if (question?.role !== 'user') {
    throw new INVALID_ARGUMENT(`input[${last}].role must be user: the last message is the question`);
  }
  return { question: question.text, earlier: messages.slice(0, last) };
}

function readMessage(item: JsonObject, where: string): Message & { readonly text: string } {
  const { role, content } = item;
  if (role !== 'user' && role !== 'assistant') {
    throw new INVALID_ARGUMENT(
      `${where}.role ${JSON.stringify(role)} is not served yet; send messages of user and assistant`,
    );
  }
  if (Array.isArray(item.toolCalls) && item.toolCalls.length > 0) {
    throw new INVALID_ARGUMENT(`${where}.toolCalls is not served yet; send messages without tool calls`);
  }
  const blocks = Array.isArray(content) ? content : [];
  const text = typeof content === 'string' ? content : blockText(blocks.filter(isJsonObject), `${where}.content`);
  return role === 'user' ? { role, text } : { role, text, toolCalls: [] };
}

function blockText(blocks: readonly JsonObject[], where: string): string {
  const texts = blocks.map(({ type, text }, index) => {
    if (type === 'text' && typeof text === 'string') return text;
    throw new INVALID_ARGUMENT(
      `${where}[${index}] of type ${JSON.stringify(type ?? null)} is not served yet; send blocks {"type":"text","text":"…"}`,
    );
  });
  if (texts.length === 0) throw new INVALID_ARGUMENT(`${where} holds no content block`);
  return texts.join('\n');
}

/** A whole number among parameters that are texts. @throws INVALID_ARGUMENT naming it */
export function countParameter(name: string, text: string | undefined, fallback: number, least: number): number {
  if (text === undefined || text.trim() === '') return fallback;
  const value = /^\s*\d{1,9}\s*$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least) return value;
  throw new INVALID_ARGUMENT(`${name} must be a whole number of at least ${least}, not ${JSON.stringify(text)}`);
}

/** A switch among parameters that are texts: only `true` in any case switches it on. */
export function flagParameter(text: string | undefined): boolean {
  return text?.trim().toLowerCase() === 'true';
}

/** `selected_tools`: a JSON array of names. @throws INVALID_ARGUMENT */
export function namesParameter(name: string, text: string | undefined): string[] | undefined {
  if (text === undefined || text.trim() === '') return undefined;
  const names = parseJson(text);
  if (Array.isArray(names) && names.every((item) => typeof item === 'string')) return names as string[];
  throw new INVALID_ARGUMENT(`${name} must be a JSON array of tool names`);
}
