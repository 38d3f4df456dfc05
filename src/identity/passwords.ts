import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { INVALID_ARGUMENT } from '../errors.ts';

/** Hashes passwords and checks them. Both cost the same time and memory, which is what protects a stolen database. */
export interface PasswordHasher {
  /** The text to store. */
  hash(password: string): Promise<string>;
  /**
   * Whether the password is the one that was hashed. Without a stored text the answer is `false` at the same cost, so
   * that a name nobody has takes as long as a wrong password.
   */
  verify(password: string, stored: string | undefined): Promise<boolean>;
}

/** scrypt (RFC 7914): `ln` is the binary logarithm of N. 32 MiB for each hash. */
const COST = { ln: 15, r: 8, p: 1 } as const;
const SALT_BYTES = 16;
const KEY_BYTES = 32;
/** Limits of what a stored text may ask for, so that a forged row cannot exhaust the memory. */
const MAXIMUM_LN = 20;
const MINIMUM_LENGTH = 8;
const MAXIMUM_LENGTH = 100;

type Derive = (password: string, salt: Uint8Array, cost: Cost) => Promise<Buffer>;
interface Cost {
  readonly ln: number;
  readonly r: number;
  readonly p: number;
}

/** @param derive scrypt of `node:crypto` unless a test counts or replaces it */
export function createPasswordHasher(derive: Derive = deriveKey): PasswordHasher {
  const dummy = { cost: COST, salt: randomBytes(SALT_BYTES), key: randomBytes(KEY_BYTES) };
  return {
    async hash(password) {
      const salt = randomBytes(SALT_BYTES);
      const key = await derive(normal(password), salt, COST);
      return `$scrypt$ln=${COST.ln},r=${COST.r},p=${COST.p}$${base64(salt)}$${base64(key)}`;
    },

    async verify(password, stored) {
      const parts = stored === undefined ? undefined : parse(stored);
      const { cost, salt, key } = parts ?? dummy;
      const derived = await derive(normal(password), salt, cost);
      return derived.length === key.length && timingSafeEqual(derived, key) && parts !== undefined;
    },
  };
}

/** @throws INVALID_ARGUMENT with the texts of the security API */
export function checkPassword(name: string, password: unknown): string {
  if (typeof password !== 'string') throw new INVALID_ARGUMENT('[password] must be a string');
  if (password.length < MINIMUM_LENGTH) throw new INVALID_ARGUMENT('Password is too short');
  if (password.length > MAXIMUM_LENGTH) throw new INVALID_ARGUMENT('Password is too long');
  const [word, user] = [password.toLowerCase(), name.toLowerCase()];
  const backwards = [...user].reverse().join('');
  if (user.length > 2 && (word.includes(user) || word.includes(backwards))) {
    throw new INVALID_ARGUMENT('Password is similar to user name');
  }
  if (new Set(password).size < 4) throw new INVALID_ARGUMENT('Weak password');
  return password;
}

function deriveKey(password: string, salt: Uint8Array, { ln, r, p }: Cost): Promise<Buffer> {
  const N = 2 ** ln;
  return new Promise((resolve, reject) => {
    scrypt(password, salt, KEY_BYTES, { N, r, p, maxmem: 2 * 128 * N * r }, (error, key) =>
      error === null ? resolve(key) : reject(error),
    );
  });
}

/** Keyboards compose an accented letter in two ways: both are one password (RFC 8265). */
function normal(password: string): string {
  return password.normalize('NFC');
}

function parse(stored: string): { cost: Cost; salt: Buffer; key: Buffer } | undefined {
  const parts = /^\$scrypt\$ln=(\d+),r=(\d+),p=(\d+)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/.exec(stored);
  if (parts === null) return undefined;
  const [ln, r, p] = [Number(parts[1]), Number(parts[2]), Number(parts[3])];
  if (ln < 1 || ln > MAXIMUM_LN || r < 1 || r > 32 || p < 1 || p > 16) return undefined;
  return { cost: { ln, r, p }, salt: octets(parts[4]), key: octets(parts[5]) };
}

function octets(text = ''): Buffer {
  return Buffer.from(text, 'base64');
}

function base64(value: Buffer): string {
  return value.toString('base64').replace(/=+$/, '');
}
