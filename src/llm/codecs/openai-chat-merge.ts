import { isJsonObject, type JsonObject, type JsonValue } from '../../json.ts';
import type { TemplateParameter } from '../types.ts';

export interface RequestParts {
  readonly system: string | undefined;
  readonly history: readonly JsonObject[];
  readonly prompt: { readonly role: string; readonly content: string };
  readonly interactions: readonly JsonObject[];
  readonly tools: readonly JsonObject[];
  readonly parallelToolCalls: boolean | undefined;
}

/**
 * Completes a rendered body with the parts its template has no place for; `placed` names those it has. Every other member
 * stays as it is. The question is never doubled: it is the template's where the template holds it.
 */
export function mergeRequest(
  body: JsonObject,
  placed: ReadonlySet<TemplateParameter>,
  parts: RequestParts,
): JsonObject {
  const merged: JsonObject = { ...body };
  if (!placed.has('messages')) merged.messages = mergeMessages(body.messages, placed, parts);
  if (!placed.has('tool_configs') && parts.tools.length > 0) {
    merged.tools = [...parts.tools];
    if (parts.parallelToolCalls !== undefined) merged.parallel_tool_calls = parts.parallelToolCalls;
  }
  return merged;
}

function mergeMessages(
  rendered: JsonValue | undefined,
  placed: ReadonlySet<TemplateParameter>,
  parts: RequestParts,
): JsonValue[] {
  const messages = Array.isArray(rendered) ? [...rendered] : [];
  if (!placed.has('prompt') && !placed.has('question')) messages.push({ ...parts.prompt });
  const history = placed.has('_chat_history') ? [] : parts.history;
  messages.splice(questionIndex(messages, parts.prompt.content), 0, ...history);
  if (!placed.has('_interactions')) messages.push(...parts.interactions);
  if (!placed.has('system_prompt') && parts.system !== undefined) putSystem(messages, parts.system);
  return messages;
}

/** The last message of the user that holds the question; the last of the user when the template reworded it. */
function questionIndex(messages: readonly JsonValue[], question: string): number {
  const exact = messages.findLastIndex((message) => hasRole(message, 'user') && holds(message.content, question));
  if (exact !== -1) return exact;
  const last = messages.findLastIndex((message) => hasRole(message, 'user'));
  return last === -1 ? messages.length : last;
}

function holds(content: JsonValue | undefined, question: string): boolean {
  if (typeof content === 'string') return content.includes(question);
  return Array.isArray(content) && content.some((part) => isJsonObject(part) && holds(part.text, question));
}

/** Many servers take one system message only, and only in front: a fixed one of the template is kept and continued. */
function putSystem(messages: JsonValue[], system: string): void {
  const index = messages.findIndex((message) => hasRole(message, 'system') || hasRole(message, 'developer'));
  const message = messages[index];
  if (isJsonObject(message) && typeof message.content === 'string') {
    messages[index] = { ...message, content: `${message.content}\n\n${system}` };
  } else {
    messages.unshift({ role: 'system', content: system });
  }
}

function hasRole(message: JsonValue, role: string): message is JsonObject {
  return isJsonObject(message) && message.role === role;
}
