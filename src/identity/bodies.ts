import { INVALID_ARGUMENT } from '../errors.ts';
import type { JsonObject, JsonValue } from '../json.ts';

const MAXIMUM_ENTRIES = 500;
const MAXIMUM_LENGTH = 1024;

/**
 * Refuses members that mean nothing here. The error carries `details` as the security API answers them.
 * @throws INVALID_ARGUMENT
 */
export function refuseOthers(body: JsonObject, known: readonly string[]): void {
  const others = Object.keys(body).filter((name) => !known.includes(name));
  if (others.length === 0) return;
  const error = new INVALID_ARGUMENT(
    `Invalid configuration: [${others.join(', ')}] must be one of [${known.join(', ')}]`,
  );
  throw Object.assign(error, { details: { invalid_keys: { keys: others.join(',') } } });
}

/** @throws INVALID_ARGUMENT when the member is there and no text */
export function textIn(body: JsonObject, member: string): string | undefined {
  const value = body[member];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'string') throw wrongType(member, 'String expected');
  if (value.length > MAXIMUM_LENGTH) {
    throw new INVALID_ARGUMENT(`String value exceeds the maximum allowed length of ${MAXIMUM_LENGTH} characters`);
  }
  return value;
}

/** A list of names; `undefined` when the member is absent. @throws INVALID_ARGUMENT */
export function namesIn(body: JsonObject, member: string): string[] | undefined {
  const value = body[member];
  if (value === undefined || value === null) return undefined;
  if (!Array.isArray(value)) throw wrongType(member, 'Array expected');
  if (value.length > MAXIMUM_ENTRIES)
    throw new INVALID_ARGUMENT(`[${member}] has more than ${MAXIMUM_ENTRIES} entries`);
  return value.map((entry) => nameIn(member, entry));
}

/** As `namesIn`, of permission patterns; an empty list is refused, it would allow nothing. @throws INVALID_ARGUMENT */
export function patternsIn(body: JsonObject, member: string): string[] | undefined {
  const patterns = namesIn(body, member);
  if (patterns?.length !== 0) return patterns;
  throw new INVALID_ARGUMENT(`[${member}] is empty: leave it out, or name permissions such as "agent:execute"`);
}

/** A map of texts. @throws INVALID_ARGUMENT */
export function textsIn(body: JsonObject, member: string): Record<string, string> {
  const value = body[member] ?? {};
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw wrongType(member, 'Object expected');
  const entries = Object.entries(value);
  const wrong = entries.find(([, text]) => typeof text !== 'string' || text.length > MAXIMUM_LENGTH);
  if (wrong !== undefined) {
    throw new INVALID_ARGUMENT(`[${member}.${wrong[0]}] must be a string of at most ${MAXIMUM_LENGTH} characters`);
  }
  return value as Record<string, string>;
}

/** @throws INVALID_ARGUMENT, always with the member and what it has to be */
export function wrongType(member: string, expected: string): Error {
  return Object.assign(new INVALID_ARGUMENT(`Wrong datatype: [${member}] ${expected}`), {
    details: { [member]: expected },
  });
}

function nameIn(member: string, entry: JsonValue): string {
  if (entry === null || (typeof entry === 'string' && entry.trim() === '')) {
    throw new INVALID_ARGUMENT('`null` or blank values are not allowed as json array elements');
  }
  if (typeof entry !== 'string') throw wrongType(member, 'Array of strings expected');
  if (entry.length > MAXIMUM_LENGTH) {
    throw new INVALID_ARGUMENT(`String value exceeds the maximum allowed length of ${MAXIMUM_LENGTH} characters`);
  }
  return entry;
}
