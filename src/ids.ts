import { customAlphabet } from 'nanoid';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const alphanumeric = customAlphabet(ALPHABET, 20);

/** A generated id: 20 characters, never starting with `_` or `-`, so that no id is mistaken for a route. */
export function newId(): string {
  return alphanumeric();
}
