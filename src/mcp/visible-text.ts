import { isJsonObject, type JsonObject, type JsonValue } from '../json.ts';

const MAX_SCHEMA_TEXT = 4096;

/**
 * Nothing of this is seen by a person, but a model reads it: control characters but tab and line feed, format characters
 * (zero-width, bidirectional, tags), variation selectors and fillers, lone surrogates.
 */
const HIDDEN = /(?![\t\n])[\p{Cc}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}]/gu;

/**
 * Hidden characters that no honest value needs: control characters but white space, bidirectional overrides and isolates,
 * invisible operators, annotations, tags. Joiners, zero-width spaces and marks of direction are part of languages.
 */
const SMUGGLED =
  /(?![\t\n\r])[\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u206f\u2060-\u2064\ufeff\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu;

/** Keywords whose strings mean exactly what they are: they come back in the arguments, or name a part of the schema. */
const EXACT: ReadonlySet<string> = new Set([
  'enum',
  'const',
  'default',
  'required',
  'dependentRequired',
  'pattern',
  'type',
  '$ref',
  '$dynamicRef',
  '$anchor',
  '$dynamicAnchor',
  '$id',
  '$schema',
]);

/** Keywords that hold schemas by names: a property may be called `enum`. */
const NAMED: ReadonlySet<string> = new Set([
  'properties',
  'patternProperties',
  'dependentSchemas',
  '$defs',
  'definitions',
]);

/** Text of a server as it may be shown to a model or a person: hidden characters removed, cut at `limit` characters. */
export function visibleText(text: string, limit: number): string {
  const clean = text.replace(HIDDEN, '');
  return clean.length <= limit ? clean : `${clean.slice(0, limit - 1).replace(/\p{Cs}$/u, '')}…`;
}

/** What a server gave as data: only that is removed which serves to hide text. */
export function unsmuggled(text: string): string {
  return text.replace(SMUGGLED, '');
}

/**
 * A schema (or any JSON that describes) without hidden characters: in its texts every one, in its names and values those
 * of `unsmuggled`. Its depth must be bounded already.
 */
export function visibleSchema(schema: JsonObject): JsonObject {
  return cleanObject(schema, 'schema');
}

/** What an object is: a schema, schemas by names of the server's choice, a value that means what it is. */
type Kind = 'schema' | 'named' | 'value';

function cleanObject(object: JsonObject, kind: Kind): JsonObject {
  const entries = Object.entries(object).map(([key, value]) => [unsmuggled(key), clean(value, kindOf(key, kind))]);
  return Object.fromEntries(entries) as JsonObject;
}

function kindOf(key: string, parent: Kind): Kind {
  if (parent !== 'schema') return parent === 'named' ? 'schema' : 'value';
  if (EXACT.has(key)) return 'value';
  return NAMED.has(key) ? 'named' : 'schema';
}

function clean(value: JsonValue, kind: Kind): JsonValue {
  if (typeof value === 'string') return kind === 'value' ? unsmuggled(value) : visibleText(value, MAX_SCHEMA_TEXT);
  if (Array.isArray(value)) return value.map((item) => clean(item, kind));
  return isJsonObject(value) ? cleanObject(value, kind) : value;
}
