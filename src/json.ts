export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;
export interface JsonObject {
  [member: string]: JsonValue;
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Text of a parameter value: strings stay as they are, anything else is stored as its JSON text. */
export function parameterText(value: JsonValue): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** A `parameters` map as it is kept: every value a string. */
export function parameterTexts(values: Readonly<Record<string, JsonValue>>): Record<string, string> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, parameterText(value)]));
}

/** JSON text with object members in sorted order at every depth: equal values give equal texts. */
export function canonicalJson(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (isJsonObject(value)) {
    const members = Object.keys(value)
      .sort()
      .map((name) => `${JSON.stringify(name)}:${canonicalJson(value[name] as JsonValue)}`);
    return `{${members.join(',')}}`;
  }
  return JSON.stringify(value);
}

/** Parses JSON text; `undefined` when the text is not JSON. */
export function parseJson(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}

/**
 * The text with each lone surrogate replaced by U+FFFD: providers refuse a body that holds one. With the `u` flag a whole pair
 * is another code point.
 */
export function wellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, '\ufffd');
}

/** How deep JSON of others may nest: far above any real document, far below what recursion survives. */
export const MAX_REMOTE_DEPTH = 1000;

/** Whether arrays and objects nest deeper than `limit` levels (a scalar is level 0). Walks without recursion. */
export function exceedsDepth(value: unknown, limit: number): boolean {
  let level: object[] = typeof value === 'object' && value !== null ? [value] : [];
  for (let depth = 1; level.length > 0; depth += 1) {
    if (depth > limit) return true;
    const below: object[] = [];
    for (const container of level) {
      for (const member of Object.values(container)) {
        if (typeof member === 'object' && member !== null) below.push(member);
      }
    }
    level = below;
  }
  return false;
}
