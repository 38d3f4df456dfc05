import { query } from 'jsonpath-rfc9535';
import { INVALID_ARGUMENT } from '../errors.ts';
import type { JsonValue } from '../json.ts';

const QUOTED = /'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"/gs;
/** A dotted name with characters that RFC 9535 wants in brackets. */
const LOOSE_NAME = /\.([^\s.[\]()*,'"?@=<>!&|]*-[^\s.[\]()*,'"?@=<>!&|]*)/g;

/**
 * Applies a `response_filter`: RFC 9535 JSONPath, and of Jayway's dialect a missing `$.` and dashes in dotted names. A path
 * that can match one place only gives the value there, any other a list.
 * @throws INVALID_ARGUMENT when it is no JSONPath, or names a place that is not there
 */
export function applyResponseFilter(value: JsonValue, filter: string): JsonValue {
  const path = normalized(filter.trim());
  const found = evaluate(value, path, filter);
  if (!isDefinite(path)) return found;
  const [first] = found;
  if (first === undefined) {
    throw new INVALID_ARGUMENT(`response_filter ${filter} finds nothing in the answer of the remote service`);
  }
  return first;
}

function evaluate(value: JsonValue, path: string, filter: string): JsonValue[] {
  try {
    return query(value, path) as JsonValue[];
  } catch {
    throw new INVALID_ARGUMENT(`response_filter ${filter} is not a valid JSONPath`);
  }
}

function normalized(filter: string): string {
  const rooted = filter.startsWith('$') ? filter : filter.startsWith('[') ? `$${filter}` : `$.${filter}`;
  return outsideQuotes(rooted, (text) => text.replace(LOOSE_NAME, (_match, name: string) => `['${name}']`));
}

function isDefinite(path: string): boolean {
  return !/\.\.|[*?:,]/.test(path.replace(QUOTED, ''));
}

function outsideQuotes(text: string, change: (part: string) => string): string {
  let changed = '';
  let at = 0;
  for (const match of text.matchAll(QUOTED)) {
    changed += change(text.slice(at, match.index)) + match[0];
    at = match.index + match[0].length;
  }
  return changed + change(text.slice(at));
}
