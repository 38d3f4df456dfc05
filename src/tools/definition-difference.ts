import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '../json.ts';
import type { DiscoveredTool } from '../mcp/types.ts';

/** Members of a definition that are pinned beside the name, as MCP calls them. */
const MEMBERS = ['description', 'inputSchema', 'outputSchema', 'annotations'] as const;
type Member = (typeof MEMBERS)[number];

/** One place where two definitions of a tool differ. `before` is absent for what was added, `after` for what was removed. */
export interface DefinitionDifference {
  readonly member: Member;
  /** JSON pointer (RFC 6901) inside the member; empty is the whole of it. */
  readonly path: string;
  readonly before?: JsonValue;
  readonly after?: JsonValue;
}

const MAX_DIFFERENCES = 50;
const MAX_SHOWN = 500;
/** Characters that are shown before the first difference of two long texts. */
const LEAD = 60;
/** Characters nobody sees, and blanks that are not what they look like; line feeds, tabs and spaces are not among them. */
const HIDDEN = /(?![\t\n ])[\p{Cc}\p{Cf}\p{Cs}\p{Z}\p{Default_Ignorable_Code_Point}]/gu;

/** What is kept of a definition; what a model reads where there is no description counts as one. */
export function pinnedDefinition(tool: Omit<DiscoveredTool, 'hash'>): JsonObject {
  const { name, title, description = title, inputSchema, outputSchema, annotations } = tool;
  return {
    name,
    ...(description !== undefined && { description }),
    inputSchema,
    ...(outputSchema && { outputSchema }),
    ...(annotations && { annotations }),
  };
}

/** The members in which two definitions differ. */
export function changedMembers(before: JsonObject, after: JsonObject): Member[] {
  return MEMBERS.filter((member) => !same(before[member], after[member]));
}

/**
 * Where two definitions differ, the first 50 places; `more` counts the others. Texts are cut around their first difference,
 * characters that nobody sees are written as `\u{200b}`.
 */
export function definitionDifferences(
  before: JsonObject,
  after: JsonObject,
): { readonly differences: readonly DefinitionDifference[]; readonly more: number } {
  const all = MEMBERS.flatMap((member) =>
    differencesOf(before[member], after[member]).map((difference) => ({ member, ...difference })),
  );
  const differences = all.slice(0, MAX_DIFFERENCES).map(shown);
  return { differences, more: all.length - differences.length };
}

/** Text of a server with every hidden character written out. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`);
}

/** JSON text with every hidden character written as the escape that means the same. */
export function visibleJson(text: string): string {
  const written = (character: string): string =>
    character
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join('');
  return text.replace(HIDDEN, written);
}

type Place = Omit<DefinitionDifference, 'member'>;

function differencesOf(before: JsonValue | undefined, after: JsonValue | undefined, path = ''): Place[] {
  if (same(before, after)) return [];
  const pair = containers(before, after);
  if (pair === undefined) {
    return [{ path, ...(before !== undefined && { before }), ...(after !== undefined && { after }) }];
  }
  const [one, other] = pair;
  const names = [...new Set([...Object.keys(one), ...Object.keys(other)])];
  return names.flatMap((name) => differencesOf(one[name], other[name], `${path}/${escaped(name)}`));
}

/** Two objects, or two arrays by their positions. */
function containers(
  before: JsonValue | undefined,
  after: JsonValue | undefined,
): readonly [Readonly<Record<string, JsonValue>>, Readonly<Record<string, JsonValue>>] | undefined {
  if (isJsonObject(before) && isJsonObject(after)) return [own(before), own(after)];
  if (Array.isArray(before) && Array.isArray(after)) return [own(before), own(after)];
  return undefined;
}

/** Members of its own and no inherited ones, whatever they are called. */
function own(container: JsonObject | JsonValue[]): Readonly<Record<string, JsonValue>> {
  return Object.assign(Object.create(null) as Record<string, JsonValue>, container);
}

function same(before: JsonValue | undefined, after: JsonValue | undefined): boolean {
  if (before === undefined || after === undefined) return before === after;
  return canonicalJson(before) === canonicalJson(after);
}

function escaped(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}

function shown({ member, path, before, after }: DefinitionDifference): DefinitionDifference {
  const texts = { before: textOf(before), after: textOf(after) };
  const start = Math.max(0, commonLength(texts.before ?? '', texts.after ?? '') - LEAD);
  const value = (given: JsonValue, text = ''): JsonValue =>
    typeof given === 'string' || text.length > MAX_SHOWN ? cut(text, start) : visibleValue(given);
  return {
    member,
    path: cut(visible(path), 0),
    ...(before !== undefined && { before: value(before, texts.before) }),
    ...(after !== undefined && { after: value(after, texts.after) }),
  };
}

function textOf(value: JsonValue | undefined): string | undefined {
  if (value === undefined) return undefined;
  return visible(typeof value === 'string' ? value : JSON.stringify(value));
}

/** Of a value short enough to be shown as a whole. */
function visibleValue(value: JsonValue): JsonValue {
  if (typeof value === 'string') return visible(value);
  if (Array.isArray(value)) return value.map(visibleValue);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [visible(name), visibleValue(member)]));
}

function commonLength(one: string, other: string): number {
  const limit = Math.min(one.length, other.length);
  let length = 0;
  while (length < limit && one[length] === other[length]) length += 1;
  return length;
}

function cut(text: string, start: number): string {
  if (text.length <= MAX_SHOWN) return text;
  const from = Math.max(0, Math.min(start, text.length - MAX_SHOWN));
  const part = text.slice(from, from + MAX_SHOWN).replace(/^[\udc00-\udfff]|[\ud800-\udbff]$/g, '');
  return `${from > 0 ? '…' : ''}${part}${from + MAX_SHOWN < text.length ? '…' : ''}`;
}
