import { isJsonObject, type JsonObject, type JsonValue, wellFormed } from '../../json.ts';

/** `wellFormed` for every text of a JSON value, member names included. */
function wellFormedJson(value: JsonValue): JsonValue {
  if (typeof value === 'string') return wellFormed(value);
  if (Array.isArray(value)) return value.map(wellFormedJson);
  return isJsonObject(value) ? wellFormedObject(value) : value;
}

/** `wellFormedJson` of an object. */
export function wellFormedObject(object: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [wellFormed(name), wellFormedJson(value)]));
}
