import { BROKEN_JSON, INVALID_ARGUMENT, WRONG_SHAPE } from '../errors.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../json.ts';

/** Octets of a request body that are read; more is a 413. */
export const BODY_LIMIT = 10 * 1024 * 1024;
const MAXIMUM_DEPTH = 1000;

/**
 * The JSON value of a request body; `undefined` when there are no octets. No part of the body appears in an error.
 * @throws BROKEN_JSON when it is not UTF-8 or not JSON, INVALID_ARGUMENT when it is nested too deeply or names
 * `__proto__`.
 */
export function parseJsonBody(octets: Uint8Array): JsonValue | undefined {
  if (octets.length === 0) return undefined;
  const text = decode(octets);
  if (depthOf(text) > MAXIMUM_DEPTH) {
    throw new INVALID_ARGUMENT(`Request body is nested too deeply: at most ${MAXIMUM_DEPTH} levels are read`);
  }
  const value = parse(text);
  if (/__proto__|\\u005f/i.test(text)) refusePrototype(value);
  return value;
}

/** @throws WRONG_SHAPE when the body is JSON, but not an object. */
export function expectObject(value: JsonValue): JsonObject {
  if (isJsonObject(value)) return value;
  throw new WRONG_SHAPE(
    `Failed to parse request body: expecting token of type [START_OBJECT] but found [${token(value)}]`,
  );
}

function decode(octets: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(octets);
  } catch {
    throw new BROKEN_JSON('Request body is not valid UTF-8');
  }
}

function parse(text: string): JsonValue {
  try {
    return JSON.parse(text) as JsonValue;
  } catch (error) {
    // The engine's own message quotes the text, which may hold a credential.
    const position = /at position (\d+)/.exec((error as Error).message)?.[1];
    const early = /end of JSON input/.test((error as Error).message) ? ': it ends too early' : '';
    throw new BROKEN_JSON(`Request body is not valid JSON${position ? ` at character ${position}` : early}`);
  }
}

function depthOf(text: string): number {
  let depth = 0;
  let deepest = 0;
  let inString = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (inString) {
      if (code === 0x5c) at++;
      else if (code === 0x22) inString = false;
    } else if (code === 0x22) inString = true;
    else if (code === 0x5b || code === 0x7b) deepest = Math.max(deepest, ++depth);
    else if (code === 0x5d || code === 0x7d) depth--;
  }
  return deepest;
}

function refusePrototype(root: JsonValue): void {
  const pending: JsonValue[] = [root];
  for (let value = pending.pop(); value !== undefined; value = pending.pop()) {
    if (value === null || typeof value !== 'object') continue;
    if (Object.hasOwn(value, '__proto__')) throw new INVALID_ARGUMENT('[__proto__] is not allowed as a member name');
    for (const member of Object.values(value)) pending.push(member);
  }
}

function token(value: JsonValue): string {
  if (value === null) return 'VALUE_NULL';
  if (Array.isArray(value)) return 'START_ARRAY';
  return { string: 'VALUE_STRING', number: 'VALUE_NUMBER', boolean: 'VALUE_BOOLEAN' }[typeof value as 'string'];
}
