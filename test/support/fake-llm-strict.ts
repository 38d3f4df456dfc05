import { isJsonObject, type JsonObject, type JsonValue } from '../../src/json.ts';

const LEGAL_NAME = /^[a-zA-Z0-9_-]{1,64}$/;
const LONE_SURROGATE = /\p{Surrogate}/u;
const MAX_TOOLS = 128;
const MAX_DESCRIPTION = 1024;

/** The text a picky provider answers 400 with, or `undefined` when the request is acceptable. */
export function strictFault(text: string, body: JsonObject): string | undefined {
  if (LONE_SURROGATE.test(text) || holdsLoneSurrogate(body)) return 'body holds a lone surrogate';
  return toolsFault(body.tools) ?? messagesFault(body.messages);
}

function holdsLoneSurrogate(value: JsonValue): boolean {
  if (typeof value === 'string') return LONE_SURROGATE.test(value);
  if (Array.isArray(value)) return value.some(holdsLoneSurrogate);
  if (!isJsonObject(value)) return false;
  return Object.entries(value).some(([name, member]) => LONE_SURROGATE.test(name) || holdsLoneSurrogate(member));
}

function toolsFault(tools: JsonValue | undefined): string | undefined {
  if (tools === undefined) return undefined;
  if (!Array.isArray(tools) || tools.length === 0) return "Invalid 'tools': expected a non-empty array";
  if (tools.length > MAX_TOOLS) return `Invalid 'tools': array too long, ${tools.length} > ${MAX_TOOLS}`;
  const names = new Set<string>();
  for (const [index, tool] of tools.entries()) {
    const definition = isJsonObject(tool) && isJsonObject(tool.function) ? tool.function : {};
    const name = definition.name;
    const where = `'tools[${index}].function`;
    if (typeof name !== 'string' || !LEGAL_NAME.test(name)) return `Invalid ${where}.name': ${JSON.stringify(name)}`;
    if (names.has(name)) return `Invalid ${where}.name': ${name} is repeated`;
    names.add(name);
    if (typeof definition.description === 'string' && definition.description.length > MAX_DESCRIPTION) {
      return `Invalid ${where}.description': longer than ${MAX_DESCRIPTION}`;
    }
    const schema = definition.parameters;
    if (schema === undefined) continue;
    if (!isJsonObject(schema) || schema.type !== 'object') return `Invalid ${where}.parameters': root is not an object`;
    const combined = ['anyOf', 'oneOf', 'allOf'].find((keyword) => keyword in schema);
    if (combined !== undefined) return `Invalid ${where}.parameters': root has ${combined}`;
  }
  return undefined;
}

function messagesFault(messages: JsonValue | undefined): string | undefined {
  if (!Array.isArray(messages) || messages.length === 0) return "Invalid 'messages': expected a non-empty array";
  let open = new Set<string>();
  for (const [index, message] of messages.entries()) {
    if (!isJsonObject(message)) return `Invalid 'messages[${index}]': expected an object`;
    if (message.role === 'tool') {
      const id = String(message.tool_call_id);
      if (!open.delete(id)) return `Invalid 'messages[${index}]': tool_call_id ${id} answers no open tool call`;
      continue;
    }
    if (open.size > 0) return `messages[${index}]: tool_call_ids without an answer: ${[...open].join(', ')}`;
    const calls = Array.isArray(message.tool_calls) ? message.tool_calls.filter(isJsonObject) : [];
    if (calls.length === 0 && typeof message.content !== 'string' && !Array.isArray(message.content)) {
      return `Invalid 'messages[${index}].content': expected a string`;
    }
    const ids = calls.map((call) => String(call.id));
    open = new Set(ids);
    if (open.size !== ids.length) return `Invalid 'messages[${index}].tool_calls': an id is repeated`;
  }
  if (open.size > 0) return `tool_call_ids without an answer: ${[...open].join(', ')}`;
  return undefined;
}
