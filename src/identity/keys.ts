import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { CONFLICT, FORBIDDEN, INVALID_ARGUMENT, NOT_FOUND } from '../errors.ts';
import { newId } from '../ids.ts';
import type { JsonObject } from '../json.ts';
import type { ApiKeyRow, ApiKeyStore } from '../store/api-keys.ts';
import type { Audit } from '../telemetry/audit.ts';
import type { Redactor } from '../telemetry/redactor.ts';
import { namesIn, patternsIn, refuseOthers, textIn } from './bodies.ts';
import { ownerId } from './ownership.ts';
import type { Principal } from './principal.ts';
import type { IdentityStates } from './state.ts';
import type { ApiKeys } from './types.ts';

export interface ApiKeysDeps {
  readonly store: ApiKeyStore;
  readonly states: Pick<IdentityStates, 'changed'>;
  readonly audit: Audit;
  readonly redactor: Redactor;
  readonly now?: () => number;
}

const SECRET_BYTES = 32;
const KEY = /^tnk_([A-Za-z0-9]{20})_([A-Za-z0-9_-]{43})$/;
const DAY_MS = 24 * 60 * 60_000;
/** A key of a provider's user: the provider does not tell when that user is gone. */
const LONGEST_FOR_TOKENS_DAYS = 90;
const MEMBERS = ['name', 'scope', 'roles', 'expires_time'];

/** API keys as their owners manage them: `tnk_<id>_<secret>`, of which only a hash of the secret is kept. */
export function createApiKeys({ store, states, audit, redactor, now = Date.now }: ApiKeysDeps): ApiKeys {
  async function record({ id: principal }: Principal, action: string, detail: string): Promise<void> {
    states.changed();
    await audit.record({ principal, action, outcome: 'ok', detail });
  }

  return {
    async create(principal, body) {
      refuseKeyless(principal);
      refuseOthers(body, MEMBERS);
      const name = textIn(body, 'name');
      if (name === undefined || name.trim() === '')
        throw new INVALID_ARGUMENT('[name] is required: say what the key is for');
      const scope = patternsIn(body, 'scope');
      const roles = rolesFor(principal, namesIn(body, 'roles'));
      const expiresTime = expiryFor(principal, body.expires_time, now());
      const secret = randomBytes(SECRET_BYTES).toString('base64url');
      const row = await store.insert({
        id: newId(),
        name,
        secretHash: digest(secret).toString('hex'),
        owner: principal.id,
        ownerName: principal.name,
        backendRoles: principal.backendRoles,
        ...(roles === undefined ? {} : { roles }),
        ...(scope === undefined ? {} : { scope }),
        ...(expiresTime === undefined ? {} : { expiresTime }),
      });
      redactor.taint([secret]);
      await record(principal, 'api_key.create', row.id);
      return { ...shown(row), api_key: `tnk_${row.id}_${secret}` };
    },

    async list(principal) {
      const rows = await store.list(principal.access.admin ? undefined : ownerId(principal));
      return { api_keys: rows.map(shown) };
    },

    async revoke(principal, id) {
      const row = await store.get(id);
      const own = row !== undefined && (principal.access.admin || row.owner === ownerId(principal));
      if (!own || !(await store.revoke(id))) throw new NOT_FOUND(`Failed to find API key with the provided id: ${id}`);
      await record(principal, 'api_key.revoke', id);
      return { id, status: 'REVOKED' };
    },
  };
}

/** The id and the secret that a key is made of; `undefined` for what is none of our keys. */
export function partsOfKey(text: string): { id: string; secret: string } | undefined {
  const [, id, secret] = KEY.exec(text) ?? [];
  return id === undefined || secret === undefined ? undefined : { id, secret };
}

/** Whether this is the secret of the key, which was neither revoked nor has expired. Takes the same time either way. */
export function isKeyInForce(key: ApiKeyRow | undefined, secret: string, time: number): key is ApiKeyRow {
  const expected = key === undefined ? Buffer.alloc(SECRET_BYTES) : Buffer.from(key.secretHash, 'hex');
  const right = timingSafeEqual(digest(secret), expected);
  return right && key !== undefined && isValidAt(key, time);
}

/** Whether the key was neither revoked nor has expired. */
export function isValidAt({ revokedTime, expiresTime }: ApiKeyRow, time: number): boolean {
  return revokedTime === undefined && (expiresTime === undefined || time < expiresTime);
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

function refuseKeyless({ kind }: Principal): void {
  if (kind === 'open') {
    throw new CONFLICT(
      'In open mode there is nobody a key could belong to. Create the first user (tenon users add, or PUT /_plugins/_security/api/internalusers/<name>), then create the key as that user',
    );
  }
  if (kind === 'api_key') {
    throw new FORBIDDEN('A key cannot create keys: sign in as the owner of this one, with a password or a token');
  }
}

function rolesFor(principal: Principal, roles: readonly string[] | undefined): readonly string[] | undefined {
  const foreign = roles?.find((role) => !principal.roles.includes(role));
  if (foreign === undefined) return roles;
  const own = principal.roles.join(', ') || 'none';
  throw new INVALID_ARGUMENT(
    `[roles] names ${foreign}, which you do not have: a key can only have roles of its owner (${own})`,
  );
}

function expiryFor(principal: Principal, value: JsonObject[string] | undefined, time: number): number | undefined {
  const longest = principal.kind === 'token' ? time + LONGEST_FOR_TOKENS_DAYS * DAY_MS : undefined;
  if (value === undefined || value === null) return longest;
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value <= time) {
    throw new INVALID_ARGUMENT('[expires_time] must be a time in the future, in epoch milliseconds');
  }
  if (longest !== undefined && value > longest) {
    throw new INVALID_ARGUMENT(
      `[expires_time] is too far: a key of a user of the OpenID provider lasts at most ${LONGEST_FOR_TOKENS_DAYS} days`,
    );
  }
  return value;
}

function shown(row: ApiKeyRow): JsonObject {
  return {
    id: row.id,
    name: row.name,
    owner: row.owner,
    ...(row.roles === undefined ? {} : { roles: [...row.roles] }),
    ...(row.scope === undefined ? {} : { scope: [...row.scope] }),
    create_time: row.createTime,
    ...(row.expiresTime === undefined ? {} : { expires_time: row.expiresTime }),
    ...(row.lastUsedTime === undefined ? {} : { last_used_time: row.lastUsedTime }),
    ...(row.revokedTime === undefined ? {} : { revoked_time: row.revokedTime }),
  };
}
