import { INVALID_ARGUMENT } from '../errors.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../json.ts';
import type { AuditBound, AuditField, AuditFilter, AuditQuery } from '../schemas/audit.ts';

/** What a search asks for, and how its hits are scored (contract 0.7). */
export interface AuditSearch extends AuditQuery {
  /** `null`: sorted hits have no score. */
  readonly score: number | null;
}

const TEXTS: readonly AuditField[] = [
  'id',
  'principal',
  'action',
  'outcome',
  'agent_id',
  'connector_id',
  'tool',
  'arguments_hash',
  'detail',
];
const NUMBERS: readonly AuditField[] = ['time', 'duration_ms', 'bytes'];
const FIELDS = [...TEXTS, ...NUMBERS];
const MEMBERS = ['query', 'size', 'from', 'sort'];
const CLAUSES = 'match_all, term, terms, range, exists, bool';
const OCCURRENCES = ['must', 'filter', 'should', 'must_not'] as const;
const BOUNDS: readonly AuditBound[] = ['gt', 'gte', 'lt', 'lte'];
const MAX_SIZE = 1000;
const MAX_WINDOW = 10_000;
const MAX_DEPTH = 10;
const MAX_VALUES = 2000;

/** Reads the body of a search. @throws INVALID_ARGUMENT naming the clause that is not served */
export function readAuditSearch(body: JsonObject): AuditSearch {
  const unknown = Object.keys(body).find((name) => !MEMBERS.includes(name));
  if (unknown !== undefined) {
    throw new INVALID_ARGUMENT(
      `[${shown(unknown)}] is not served by this search. Its members are ${MEMBERS.join(', ')}`,
    );
  }
  const size = whole(body.size, 'size', 10);
  const from = whole(body.from, 'from', 0);
  if (size > MAX_SIZE) throw new INVALID_ARGUMENT(`[size] must be at most ${MAX_SIZE}. Read more with _export`);
  if (from + size > MAX_WINDOW) {
    throw new INVALID_ARGUMENT(`[from] and [size] together must be at most ${MAX_WINDOW}. Read more with _export`);
  }
  const budget = { values: 0 };
  const filter = isGiven(body.query) ? readClause(body.query, 'query', 1, budget) : ({ kind: 'all' } as const);
  const sorted = isGiven(body.sort);
  const newestFirst = sorted ? readSort(body.sort ?? null) !== 'asc' : true;
  return { filter, from, size, newestFirst, score: sorted ? null : onlyFilters(body.query) ? 0 : 1 };
}

/** A time as epoch milliseconds or ISO 8601. @throws INVALID_ARGUMENT naming the field */
export function readTime(value: JsonValue, where: string): number {
  const isDate = typeof value === 'string' && /^\d{4}-\d{2}-\d{2}(T|$)/.test(value);
  const isCount = typeof value === 'number' || (typeof value === 'string' && /^\d+$/.test(value));
  const time = isDate ? Date.parse(value) : isCount ? Number(value) : Number.NaN;
  if (Number.isSafeInteger(time)) return time;
  throw new INVALID_ARGUMENT(`[${where}] must be a time: epoch milliseconds, or ISO 8601 such as 2026-01-31T12:00:00Z`);
}

type Budget = { values: number };

function readClause(value: JsonValue, where: string, depth: number, budget: Budget): AuditFilter {
  if (depth > MAX_DEPTH) throw new INVALID_ARGUMENT(`[query] is nested deeper than ${MAX_DEPTH} levels`);
  const [entry, ...more] = isJsonObject(value) ? Object.entries(value) : [];
  if (entry === undefined || more.length > 0) {
    throw new INVALID_ARGUMENT(`[${where}] must be an object with exactly one clause of ${CLAUSES}`);
  }
  const [name, body] = entry;
  count(budget, 1);
  switch (name) {
    case 'match_all':
      return { kind: 'all' };
    case 'term': {
      const [field, given] = fieldOf(body, name);
      const term = isJsonObject(given) ? only(given, 'value', `term.${field}`) : given;
      return { kind: 'in', field, values: valuesOf(field, [term], name) };
    }
    case 'terms': {
      const [field, given] = fieldOf(body, name);
      if (!Array.isArray(given)) throw new INVALID_ARGUMENT(`[terms] of [${field}] must be an array of values`);
      count(budget, given.length);
      return { kind: 'in', field, values: valuesOf(field, given, name) };
    }
    case 'range':
      return readRange(body);
    case 'exists':
      return { kind: 'exists', field: checkedField(only(isJsonObject(body) ? body : {}, 'field', 'exists'), name) };
    case 'bool':
      return readBool(body, depth, budget);
    default:
      throw new INVALID_ARGUMENT(`[${shown(name)}] is not served by this search. Its clauses are ${CLAUSES}`);
  }
}

/** `should` alone needs one of its clauses; beside `must` or `filter` it narrows nothing. */
function readBool(body: JsonValue, depth: number, budget: Budget): AuditFilter {
  if (!isJsonObject(body)) throw new INVALID_ARGUMENT('[bool] must be an object');
  const unknown = Object.keys(body).find((name) => !OCCURRENCES.some((occurrence) => occurrence === name));
  if (unknown !== undefined) {
    throw new INVALID_ARGUMENT(`[bool.${shown(unknown)}] is not served. Its members are ${OCCURRENCES.join(', ')}`);
  }
  const clauses = (occurrence: (typeof OCCURRENCES)[number]): AuditFilter[] =>
    listOf(body[occurrence]).map((clause) => readClause(clause, `bool.${occurrence}`, depth + 1, budget));
  const required = [...clauses('must'), ...clauses('filter')];
  const choices = clauses('should');
  const excluded = clauses('must_not').map((filter): AuditFilter => ({ kind: 'not', filter }));
  const chosen: AuditFilter[] = required.length === 0 && choices.length > 0 ? [{ kind: 'or', filters: choices }] : [];
  const filters = [...required, ...chosen, ...excluded];
  return filters.length === 0 ? { kind: 'all' } : { kind: 'and', filters };
}

function readRange(body: JsonValue): AuditFilter {
  const [field, given] = fieldOf(body, 'range');
  if (!NUMBERS.includes(field)) {
    throw new INVALID_ARGUMENT(`[range] of [${field}] is not served: only ${NUMBERS.join(', ')} have an order`);
  }
  const entries = isJsonObject(given) ? Object.entries(given).filter(([, value]) => value !== null) : [];
  if (entries.length === 0) throw new INVALID_ARGUMENT(`[range] of [${field}] needs one of ${BOUNDS.join(', ')}`);
  const bounds = entries.map(([name, value]) => {
    const bound = BOUNDS.find((known) => known === name);
    if (bound === undefined) {
      throw new INVALID_ARGUMENT(`[range.${shown(name)}] is not served. Its members are ${BOUNDS.join(', ')}`);
    }
    return [bound, numberOf(field, value, `range.${field}.${bound}`)] as const;
  });
  return { kind: 'range', field, bounds };
}

function fieldOf(body: JsonValue, clause: string): [field: AuditField, value: JsonValue] {
  const [entry, ...more] = isJsonObject(body) ? Object.entries(body) : [];
  if (entry === undefined || more.length > 0) {
    throw new INVALID_ARGUMENT(`[${clause}] must be an object with exactly one field`);
  }
  return [checkedField(entry[0], clause), entry[1]];
}

function checkedField(name: JsonValue, clause: string): AuditField {
  const plain = String(name).replace(/\.keyword$/, '');
  const field = FIELDS.find((known) => known === (plain === '_id' ? 'id' : plain));
  if (field !== undefined) return field;
  throw new INVALID_ARGUMENT(`[${clause}] names the field [${shown(plain)}]. An audit row has ${FIELDS.join(', ')}`);
}

/** Values no row can hold are left out. */
function valuesOf(field: AuditField, given: readonly JsonValue[], clause: string): (string | number)[] {
  return given.flatMap((value): (string | number)[] => {
    if (value === null || typeof value === 'object') {
      throw new INVALID_ARGUMENT(`[${clause}] of [${field}] must be a text or a number`);
    }
    if (NUMBERS.includes(field)) return [numberOf(field, value, `${clause}.${field}`)];
    const text = String(value);
    return text.includes('\0') ? [] : [text];
  });
}

function numberOf(field: AuditField, value: JsonValue, where: string): number {
  if (field === 'time') return readTime(value, where);
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  if (Number.isSafeInteger(number)) return number as number;
  throw new INVALID_ARGUMENT(`[${where}] must be a whole number`);
}

function readSort(sort: JsonValue): 'asc' | 'desc' {
  const [key, ...more] = listOf(sort);
  const refused = new INVALID_ARGUMENT('[sort] is served by [time] only: {"time": "asc"} or {"time": "desc"}');
  if (key === undefined || more.length > 0) throw refused;
  if (key === 'time') return 'asc';
  if (!isJsonObject(key) || Object.keys(key).join() !== 'time') throw refused;
  const order = isJsonObject(key.time) ? only(key.time, 'order', 'sort.time') : key.time;
  if (order !== 'asc' && order !== 'desc') throw refused;
  return order;
}

function onlyFilters(query: JsonValue | undefined): boolean {
  const bool = isJsonObject(query) ? query.bool : undefined;
  return isJsonObject(bool) && listOf(bool.must).length === 0 && listOf(bool.should).length === 0;
}

function whole(value: JsonValue | undefined, name: string, fallback: number): number {
  if (!isGiven(value)) return fallback;
  const number = typeof value === 'string' && /^\d{1,9}$/.test(value) ? Number(value) : value;
  if (typeof number === 'number' && Number.isSafeInteger(number) && number >= 0) return number;
  throw new INVALID_ARGUMENT(`[${name}] must be a whole number of at least 0`);
}

function only(body: JsonObject, member: string, where: string): JsonValue {
  const value = body[member];
  if (Object.keys(body).length === 1 && value !== undefined) return value;
  throw new INVALID_ARGUMENT(`[${where}] must be an object with the one member [${member}]`);
}

function count(budget: Budget, more: number): void {
  budget.values += more;
  if (budget.values > MAX_VALUES) {
    throw new INVALID_ARGUMENT(`[query] has more than ${MAX_VALUES} clauses and values`);
  }
}

function listOf(value: JsonValue | undefined): JsonValue[] {
  if (!isGiven(value)) return [];
  return Array.isArray(value) ? value : [value];
}

function isGiven(value: JsonValue | undefined): value is JsonValue {
  return value !== undefined && value !== null;
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, 100)).slice(1, -1);
}
