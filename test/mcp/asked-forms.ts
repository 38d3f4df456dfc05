import type { JsonObject, JsonValue } from '../../src/json.ts';

/** What a server of the session era asks with. */
const FORM: JsonObject = {
  type: 'object',
  properties: { city: { type: 'string', default: 'Bergen' }, seats: { type: 'integer' } },
  required: ['city'],
};

/** The reply that ends a call. */
export const done = (id: JsonValue | undefined): string =>
  JSON.stringify({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: 'done' }] } });

export const question = (id: string, params: JsonObject): string =>
  JSON.stringify({ jsonrpc: '2.0', id, method: 'elicitation/create', params });

export const form = (schema: JsonObject = FORM, message = 'Where to?'): JsonObject => ({
  message,
  requestedSchema: schema,
});
