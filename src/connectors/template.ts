import { INVALID_ARGUMENT } from '../errors.ts';
import { parseJson } from '../json.ts';

/** One `${parameters.k}`, `${parameters.k:-default}`, `${credential.k}` or `$<credential.k>` of a template. */
export interface Placeholder {
  readonly scope: 'parameters' | 'credential';
  readonly name: string;
  /** Text after `:-`; inserted verbatim when there is no value. */
  readonly fallback: string | undefined;
  /** The placeholder as it was written. */
  readonly source: string;
  /** Inside a JSON string of a body template. */
  readonly quoted: boolean;
  /** `"${parameters.k:-null}"`, quotes included: a bare `null` without a value, a JSON string with one. */
  readonly nullable: boolean;
}

/** A compiled template: literal text and placeholders, in order. Rendering walks it once, so nothing is expanded twice. */
export type Template = readonly (string | Placeholder)[];

export interface BodyValues {
  readonly parameters: Readonly<Record<string, string>>;
  /** Fragments of the platform: inserted verbatim, and the only source of the names in `PLATFORM_FRAGMENTS`. */
  readonly fragments?: Readonly<Record<string, string>>;
}

/** Names that only the platform fills; a parameter of that name is never inserted. */
const PLATFORM_FRAGMENTS: readonly string[] = ['_chat_history', '_interactions', 'tool_configs'];

const OPENING = /\$\{(parameters|credential)\.|\$<(credential)\./y;
const SHOWN_PAYLOAD = 500;

/** Compiles a template of a header or a url. `$<credential.k>` means the same as `${credential.k}`. */
export function compileText(text: string): Template {
  return compile(text, false);
}

/** Compiles a JSON or NDJSON body: each placeholder knows whether it stands inside a JSON string. */
export function compileBody(text: string): Template {
  return compile(text, true);
}

function compile(text: string, json: boolean): Template {
  const parts: (string | Placeholder)[] = [];
  let literal = '';
  let quoted = false;
  let quotedSince = -1;
  let at = 0;
  while (at < text.length) {
    const placeholder = placeholderAt(text, at, { json, quoted, opened: quoted && quotedSince === at - 1 });
    if (placeholder !== undefined) {
      at += placeholder.source.length;
      if (placeholder.nullable) {
        literal = literal.slice(0, -1);
        quoted = false;
        at += 1;
      }
      if (literal !== '') parts.push(literal);
      literal = '';
      parts.push(placeholder);
      continue;
    }
    const length = quoted && text[at] === '\\' ? 2 : 1;
    if (json && text[at] === '"') {
      quoted = !quoted;
      quotedSince = at;
    }
    literal += text.slice(at, at + length);
    at += length;
  }
  if (literal !== '') parts.push(literal);
  return parts;
}

interface Position {
  readonly json: boolean;
  /** Inside a JSON string. */
  readonly quoted: boolean;
  /** Right behind the quote that opens it. */
  readonly opened: boolean;
}

function placeholderAt(text: string, at: number, { json, quoted, opened }: Position): Placeholder | undefined {
  OPENING.lastIndex = at;
  const opening = OPENING.exec(text);
  if (opening === null || (json && opening[2] !== undefined)) return undefined;
  const scope = opening[1] === 'parameters' ? 'parameters' : 'credential';
  const start = at + opening[0].length;
  const first = text.indexOf(opening[2] === undefined ? '}' : '>', start);
  if (first === -1) return undefined;
  const separator = scope === 'parameters' ? text.slice(start, first).indexOf(':-') : -1;
  const name = text.slice(start, separator === -1 ? first : start + separator);
  if (name === '') return undefined;
  const fallbackStart = start + separator + 2;
  const end = separator !== -1 && json && !quoted ? balancedEnd(text, fallbackStart, first) : first;
  const fallback = separator === -1 ? undefined : text.slice(fallbackStart, end);
  const nullable = opened && fallback === 'null' && text[end + 1] === '"';
  return { scope, name, fallback, source: text.slice(at, end + 1), quoted, nullable };
}

/** Where a default text outside a string ends: at the brace that balances, so that it may be a JSON object. */
function balancedEnd(text: string, start: number, first: number): number {
  const token = /"(?:[^"\\]|\\.)*"|[{}]/gs;
  token.lastIndex = start;
  let depth = 0;
  for (let match = token.exec(text); match !== null; match = token.exec(text)) {
    if (match[0] === '{') depth += 1;
    else if (match[0] === '}') {
      if (depth === 0) return match.index;
      depth -= 1;
    }
  }
  return first;
}

/** The distinct placeholder names of one scope, in order of appearance. */
export function placeholderNames(template: Template, scope: Placeholder['scope']): string[] {
  const names = template.flatMap((part) => (typeof part !== 'string' && part.scope === scope ? [part.name] : []));
  return [...new Set(names)];
}

/** Own member of a map, never one of its prototype. */
export function ownValue(values: Readonly<Record<string, string>> | undefined, name: string): string | undefined {
  return values !== undefined && Object.hasOwn(values, name) ? values[name] : undefined;
}

/**
 * Renders a request body: JSON or NDJSON text.
 * Inside a JSON string a value is always JSON-string-escaped; outside, valid JSON goes in as it is and anything else as a
 * JSON string. Default texts, names of the parameter `no_escape_params` and platform fragments go in verbatim.
 * @throws INVALID_ARGUMENT `Some parameter placeholder not filled in payload: a, b` (not with the parameter
 * `skip_validating_missing_parameters` = `true`), `Invalid payload: …`
 */
export function renderBody(template: Template, values: BodyValues): string {
  const { parameters, fragments } = values;
  const verbatim = new Set((ownValue(parameters, 'no_escape_params') ?? '').split(',').map((name) => name.trim()));
  const missing = new Set<string>();
  const insert = (placeholder: Placeholder): string => {
    if (placeholder.scope === 'credential') return placeholder.source;
    const { name, fallback, quoted, nullable } = placeholder;
    const fragment = ownValue(fragments, name);
    if (fragment !== undefined) return nullable ? `"${fragment}"` : fragment;
    const value = PLATFORM_FRAGMENTS.includes(name) ? undefined : ownValue(parameters, name);
    if (value === undefined) {
      if (fallback === undefined) missing.add(name);
      return fallback ?? placeholder.source;
    }
    if (verbatim.has(name)) return nullable ? `"${value}"` : value;
    if (quoted && !nullable) return JSON.stringify(value).slice(1, -1);
    return !nullable && parseJson(value) !== undefined ? value : JSON.stringify(value);
  };
  const text = template.map((part) => (typeof part === 'string' ? part : insert(part))).join('');
  if (missing.size > 0 && ownValue(parameters, 'skip_validating_missing_parameters') !== 'true') {
    throw new INVALID_ARGUMENT(`Some parameter placeholder not filled in payload: ${[...missing].join(', ')}`);
  }
  if (!isJsonOrLines(text)) throw new INVALID_ARGUMENT(`Invalid payload: ${text.slice(0, SHOWN_PAYLOAD)}`);
  return text;
}

function isJsonOrLines(text: string): boolean {
  if (parseJson(text) !== undefined) return true;
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  return lines.length > 0 && lines.every((line) => parseJson(line) !== undefined);
}
