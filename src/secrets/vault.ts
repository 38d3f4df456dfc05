import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { canonicalJson, isJsonObject, parseJson } from '../json.ts';
import type { MasterKey, SealContext, Vault } from './types.ts';

const CIPHER = 'aes-256-gcm';
const VERSION = 'v1';
const KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Seals credential values. A sealed text is `v1.<key id>.<wrapped data key>.<values>`; the last two are base64url of
 * IV, ciphertext and tag. The values are bound to owner and origins, the data key to the master key's id, so another
 * master key can take over by wrapping the data key anew.
 */
export function createVault(master: MasterKey): Vault {
  return {
    seal(values, context) {
      const dataKey = randomBytes(KEY_BYTES);
      const wrapped = encrypt(master.key, dataKey, wrapBinding(master.id));
      const sealed = encrypt(dataKey, Buffer.from(JSON.stringify(values), 'utf8'), valueBinding(context));
      dataKey.fill(0);
      return [VERSION, master.id, wrapped, sealed].join('.');
    },
    open(sealed, context) {
      const [version, keyId, wrapped, values, ...more] = sealed.split('.');
      if (
        version !== VERSION ||
        keyId === undefined ||
        wrapped === undefined ||
        values === undefined ||
        more.length > 0
      ) {
        throw new Error('The sealed credential is not in a form this version reads');
      }
      if (keyId !== master.id) {
        throw new Error(
          `The credential was sealed under master key ${shownId(keyId)}, and the key in use is ${master.id}`,
        );
      }
      const dataKey = decrypt(master.key, wrapped, wrapBinding(keyId));
      if (dataKey === undefined)
        throw new Error('The sealed credential does not authenticate: its key part was changed');
      const plain = decrypt(dataKey, values, valueBinding(context));
      dataKey.fill(0);
      if (plain === undefined) {
        throw new Error(
          'The sealed credential does not authenticate: it was sealed for another owner or other origins, or was changed',
        );
      }
      return readValues(plain);
    },
  };
}

function readValues(plain: Buffer): Record<string, string> {
  const values = parseJson(plain.toString('utf8'));
  plain.fill(0);
  if (!isJsonObject(values)) throw new Error('The sealed credential holds no set of values');
  return values as Record<string, string>;
}

function wrapBinding(keyId: string): Buffer {
  return Buffer.from(canonicalJson({ use: 'data-key', version: VERSION, key: keyId }), 'utf8');
}

/** JSON quotes and escapes every part, so no two contexts give the same text. */
function valueBinding({ owner, origins }: SealContext): Buffer {
  const sorted = [...new Set(origins)].sort();
  return Buffer.from(canonicalJson({ use: 'values', version: VERSION, owner, origins: sorted }), 'utf8');
}

function encrypt(key: Buffer, plain: Buffer, binding: Buffer): string {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv(CIPHER, key, iv, { authTagLength: TAG_BYTES });
  cipher.setAAD(binding);
  const body = Buffer.concat([cipher.update(plain), cipher.final()]);
  return Buffer.concat([iv, body, cipher.getAuthTag()]).toString('base64url');
}

function decrypt(key: Buffer, text: string, binding: Buffer): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url');
  // Only the one spelling of these octets: base64 readers ignore stray characters and unused bits.
  if (bytes.toString('base64url') !== text || bytes.length < IV_BYTES + TAG_BYTES) return undefined;
  const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAAD(binding);
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(bytes.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]);
  } catch {
    return undefined;
  }
}

function shownId(keyId: string): string {
  return /^[0-9a-f]{16}$/.test(keyId) ? keyId : 'of an unknown form';
}
