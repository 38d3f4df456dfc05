import { customAlphabet } from 'nanoid';
import { INVALID_ARGUMENT } from './errors.ts';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const alphanumeric = customAlphabet(ALPHABET, 20);
const MAX_LENGTH = 512;

/** A generated id: 20 characters, never starting with `_` or `-`, so that no id is mistaken for a route. */
export function newId(): string {
  return alphanumeric();
}

/**
 * The id a caller chose in a create body, or a generated one when there is none. `kind` is the noun: `model`.
 * @throws INVALID_ARGUMENT when it is no text, starts with `_` or `-`, is too long, or holds other than letters, digits, `_`, `-`
 */
export function chosenId(kind: string, value: unknown): string {
  if (value === undefined || value === null) return newId();
  if (typeof value !== 'string' || value === '') throw new INVALID_ARGUMENT(`${kind} id is invalid`);
  const start = value.charAt(0);
  if (start === '_' || start === '-') throw new INVALID_ARGUMENT(`${kind} id must not start with '${start}'`);
  if (value.length > MAX_LENGTH) {
    throw new INVALID_ARGUMENT(`${kind} id is too long, max length is ${MAX_LENGTH}`);
  }
  if (!/^[a-zA-Z0-9_-]+$/.test(value)) {
    throw new INVALID_ARGUMENT(`${kind} id must contain only letters, digits, '_' and '-'`);
  }
  return value;
}
