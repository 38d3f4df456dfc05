import { isJsonObject, type JsonObject, type JsonValue } from '../json.ts';

type Pattern = readonly string[];

/**
 * The part of an answer that `filter_path` asks for: comma-separated dotted paths, `*` inside a name, `**` for any
 * number of levels, a leading `-` to leave a path out. Arrays are passed through. Nothing left is `{}`.
 */
export function filterPath(value: JsonValue, expression: string): JsonValue {
  const paths = expression
    .split(',')
    .map((path) => path.trim())
    .filter((path) => path !== '');
  const excluded = paths.filter((path) => path.startsWith('-')).map((path) => path.slice(1).split('.'));
  const included = paths.filter((path) => !path.startsWith('-')).map((path) => path.split('.'));
  const kept = included.length === 0 ? value : include(value, included);
  if (kept === undefined) return {};
  return excluded.length === 0 ? kept : exclude(kept, excluded);
}

function include(value: JsonValue, patterns: readonly Pattern[]): JsonValue | undefined {
  if (patterns.some((pattern) => pattern.length === 0)) return value;
  if (Array.isArray(value)) {
    const items = value.map((item) => include(item, patterns)).filter((item) => item !== undefined);
    return items.length === 0 ? undefined : items;
  }
  if (!isJsonObject(value)) return patterns.some(endsInAnything) ? value : undefined;
  const members = Object.entries(value).flatMap(([name, member]) => {
    const rest = advance(patterns, name);
    const kept = rest.length === 0 ? undefined : include(member, rest);
    return kept === undefined ? [] : [[name, kept] as const];
  });
  return members.length === 0 ? undefined : (Object.fromEntries(members) as JsonObject);
}

function exclude(value: JsonValue, patterns: readonly Pattern[]): JsonValue {
  if (Array.isArray(value)) return value.map((item) => exclude(item, patterns));
  if (!isJsonObject(value)) return value;
  const members = Object.entries(value).flatMap(([name, member]) => {
    const rest = advance(patterns, name);
    return rest.some((pattern) => pattern.length === 0) ? [] : [[name, exclude(member, rest)] as const];
  });
  return Object.fromEntries(members) as JsonObject;
}

/** What is left of each pattern below the member `name`; patterns that do not fit it are dropped. */
function advance(patterns: readonly Pattern[], name: string): Pattern[] {
  return patterns.flatMap((pattern): Pattern[] => {
    const [head, ...tail] = pattern;
    if (head === undefined) return [];
    if (head === '**') return [pattern, ...(tail.length === 0 ? [tail] : advance([tail], name))];
    return fits(head, name) ? [tail] : [];
  });
}

function endsInAnything(pattern: Pattern): boolean {
  return pattern.length === 1 && pattern[0] === '**';
}

function fits(segment: string, name: string): boolean {
  const parts = segment.split('*');
  if (parts.length === 1) return segment === name;
  const [first = '', ...others] = parts;
  const last = others.pop() ?? '';
  if (name.length < first.length + last.length || !name.startsWith(first) || !name.endsWith(last)) return false;
  let at = first.length;
  for (const part of others) {
    const found = name.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return at <= name.length - last.length;
}
