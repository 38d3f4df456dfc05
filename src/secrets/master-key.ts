import { createHash, randomBytes } from 'node:crypto';
import { StartupError } from '../errors.ts';
import type { MasterKey } from './types.ts';

const KEY_BYTES = 32;

/** A new key as it is written to a file or a keychain: base64. */
export function newKeyText(): string {
  return randomBytes(KEY_BYTES).toString('base64');
}

/**
 * Reads 32 bytes from base64, base64url or 64 hex digits; white space around them is ignored.
 * @throws StartupError naming `source`, without the text
 */
export function readKey(text: string, source: string): MasterKey {
  const trimmed = text.trim();
  const key = decode(trimmed);
  if (key === undefined) {
    throw new StartupError(
      `${source} must hold 32 random bytes as base64 or as 64 hex digits; make them with: openssl rand -base64 32`,
    );
  }
  return { id: createHash('sha256').update(key).digest('hex').slice(0, 16), key };
}

function decode(text: string): Buffer | undefined {
  if (/^[0-9a-f]{64}$/i.test(text)) return Buffer.from(text, 'hex');
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(text)) return undefined;
  return Buffer.from(text, 'base64');
}
