import { isJsonObject, type JsonValue } from '../json.ts';

const MAXIMUM_LENGTH = 4096;
const MAXIMUM_SEGMENTS = 256;
const ANY_DEPTH = '**';

/** Counts how often a segment was compared with the name of a member. */
export interface Meter {
  steps: number;
}

/** Why an expression is refused, or `undefined` when it can be used. */
export function filterFault(expression: string): string | undefined {
  if (expression.length > MAXIMUM_LENGTH)
    return `[filter_path] is too long, max length is ${MAXIMUM_LENGTH} characters`;
  const segments = pathsOf(expression).reduce((sum, path) => sum + path.split('.').length, 0);
  if (segments <= MAXIMUM_SEGMENTS) return undefined;
  return `[filter_path] has ${segments} segments, at most ${MAXIMUM_SEGMENTS} are read`;
}

/**
 * The part of an answer that `filter_path` asks for: comma-separated dotted paths, `*` inside a name, `**` for any
 * number of levels, a leading `-` to leave a path out. Arrays are passed through. Nothing left is `{}`. No member is
 * compared with a segment more than once, and no depth of the value overflows the stack.
 */
export function filterPath(value: JsonValue, expression: string, meter: Meter = { steps: 0 }): JsonValue {
  const paths = pathsOf(expression);
  const excluded = compile(
    paths.filter((path) => path.startsWith('-')).map((path) => path.slice(1)),
    meter,
  );
  const included = compile(
    paths.filter((path) => !path.startsWith('-')),
    meter,
  );
  const kept = included.start.length === 0 ? value : include(value, included);
  if (kept === undefined) return {};
  return excluded.start.length === 0 ? kept : exclude(kept, excluded);
}

function pathsOf(expression: string): string[] {
  return expression
    .split(',')
    .map((path) => path.trim())
    .filter((path) => path !== '');
}

/**
 * Positions in the segments of all paths, one after the other; a set of them is what can still follow at some member.
 * The position behind a path is its end.
 */
interface Filter {
  readonly start: readonly number[];
  isEnd(position: number): boolean;
  /** Whether the rest of the path fits any value, also one without members. */
  takesAnything(position: number): boolean;
  /** The positions below the member `name`, each once. */
  advance(positions: readonly number[], name: string): readonly number[];
}

function compile(paths: readonly string[], meter: Meter): Filter {
  const segments: (string | undefined)[] = [];
  const start: number[] = [];
  for (const path of paths) {
    start.push(segments.length);
    const written = path.split('.');
    segments.push(
      ...written.filter((segment, at) => segment !== ANY_DEPTH || written[at - 1] !== ANY_DEPTH),
      undefined,
    );
  }
  const isEnd = (position: number): boolean => segments[position] === undefined;
  return {
    start,
    isEnd,
    takesAnything: (position) => segments[position] === ANY_DEPTH && isEnd(position + 1),
    advance(positions, name) {
      const next = new Set<number>();
      const tried = new Set<number>();
      for (const position of positions) {
        let at = position;
        if (segments[at] === ANY_DEPTH) {
          next.add(at);
          at += 1;
          if (isEnd(at)) next.add(at);
        }
        const segment = segments[at];
        if (segment === undefined || tried.has(at)) continue;
        tried.add(at);
        meter.steps += 1;
        if (fits(segment, name)) next.add(at + 1);
      }
      return [...next];
    },
  };
}

function include(value: JsonValue, filter: Filter): JsonValue | undefined {
  const verdict = (member: JsonValue, positions: readonly number[]): Verdict => {
    if (positions.some(filter.isEnd)) return 'keep';
    if (positions.length === 0) return 'drop';
    if (hasMembers(member)) return 'enter';
    return positions.some(filter.takesAnything) ? 'keep' : 'drop';
  };
  return project(value, filter, verdict, (members) => members > 0);
}

function exclude(value: JsonValue, filter: Filter): JsonValue {
  const verdict = (member: JsonValue, positions: readonly number[]): Verdict => {
    if (positions.some(filter.isEnd)) return 'drop';
    return positions.length > 0 && hasMembers(member) ? 'enter' : 'keep';
  };
  return project(value, filter, verdict, () => true) ?? {};
}

type Verdict = 'keep' | 'drop' | 'enter';

interface Level {
  readonly above: Level | undefined;
  readonly name: string;
  readonly positions: readonly number[];
  readonly isList: boolean;
  readonly members: readonly (readonly [string, JsonValue])[];
  readonly kept: [string, JsonValue][];
  at: number;
}

/** Walks a value and builds what is kept of it, without recursion; `stays` decides about what was entered. */
function project(
  value: JsonValue,
  filter: Filter,
  verdictOn: (member: JsonValue, positions: readonly number[]) => Verdict,
  stays: (members: number) => boolean,
): JsonValue | undefined {
  const verdict = verdictOn(value, filter.start);
  if (verdict !== 'enter') return verdict === 'keep' ? value : undefined;
  let shown: JsonValue | undefined;
  let level: Level | undefined = enter(value, filter.start, '', undefined);
  while (level !== undefined) {
    const next: readonly [string, JsonValue] | undefined = level.members[level.at];
    if (next === undefined) {
      const { above, name, kept }: Level = level;
      shown = stays(kept.length) ? built(level) : undefined;
      if (above !== undefined && shown !== undefined) above.kept.push([name, shown]);
      level = above;
      continue;
    }
    level.at += 1;
    const [name, member] = next;
    const positions: readonly number[] = level.isList ? level.positions : filter.advance(level.positions, name);
    const verdict = verdictOn(member, positions);
    if (verdict === 'keep') level.kept.push([name, member]);
    else if (verdict === 'enter') level = enter(member, positions, name, level);
  }
  return shown;
}

function enter(value: JsonValue, positions: readonly number[], name: string, above: Level | undefined): Level {
  const members = Object.entries(value as object) as [string, JsonValue][];
  return { above, name, positions, isList: Array.isArray(value), members, kept: [], at: 0 };
}

function built({ isList, kept }: Level): JsonValue {
  return isList ? kept.map(([, item]) => item) : Object.fromEntries(kept);
}

function hasMembers(value: JsonValue): boolean {
  return Array.isArray(value) || isJsonObject(value);
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
