import { isJsonObject, type JsonObject, type JsonValue } from '../../json.ts';

/** Half of a surrogate pair without its other half; with the `u` flag a whole pair is another code point. */
const LONE_SURROGATE = /\p{Surrogate}/gu;

/** The text with each lone surrogate replaced by U+FFFD: providers refuse a body that holds one. */
export function wellFormed(text: string): string {
  return text.replace(LONE_SURROGATE, '\ufffd');
}

/** The same for every text of a JSON value, member names included. */
function wellFormedJson(value: JsonValue): JsonValue {
  if (typeof value === 'string') return wellFormed(value);
  if (Array.isArray(value)) return value.map(wellFormedJson);
  return isJsonObject(value) ? wellFormedObject(value) : value;
}

/** `wellFormedJson` of an object. */
export function wellFormedObject(object: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [wellFormed(name), wellFormedJson(value)]));
}
