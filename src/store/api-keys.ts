import type { Database } from './database.ts';
import { identityChanges, listOf } from './identity.ts';
import type { Tables } from './tables.ts';

export interface ApiKeyRow {
  readonly id: string;
  readonly name: string;
  /** SHA-256, hex. */
  readonly secretHash: string;
  readonly owner: string;
  readonly ownerName: string;
  readonly backendRoles: readonly string[];
  /** Absent: does not narrow. */
  readonly roles?: readonly string[];
  readonly scope?: readonly string[];
  readonly expiresTime?: number;
  readonly revokedTime?: number;
  readonly lastUsedTime?: number;
  readonly createTime: number;
}

/** API keys as they are kept: a hash, never the key. */
export interface ApiKeyStore {
  get(id: string): Promise<ApiKeyRow | undefined>;
  /** Newest first; those of one owner when it is given. */
  list(owner?: string): Promise<ApiKeyRow[]>;
  /** Whether a key exists that is not revoked. */
  any(): Promise<boolean>;
  insert(key: Omit<ApiKeyRow, 'createTime' | 'revokedTime' | 'lastUsedTime'>): Promise<ApiKeyRow>;
  /** `false` when there is no such key; revoking twice keeps the first time. */
  revoke(id: string): Promise<boolean>;
  /** Notes that it was used now. */
  touch(id: string): Promise<void>;
}

/** The table of API keys; creating and revoking move the revision of identity. */
export function createApiKeyStore(database: Database, { now = Date.now }: { now?: () => number } = {}): ApiKeyStore {
  const { kysely } = database;
  const change = identityChanges(database);
  return {
    async get(id) {
      const row = await kysely.selectFrom('api_keys').selectAll().where('id', '=', id).executeTakeFirst();
      return row && keyOf(row);
    },

    async list(owner) {
      const query = kysely.selectFrom('api_keys').selectAll().orderBy('create_time', 'desc').orderBy('id');
      const rows = await (owner === undefined ? query : query.where('owner', '=', owner)).execute();
      return rows.map(keyOf);
    },

    async any() {
      const query = kysely.selectFrom('api_keys').select('id').where('revoked_time', 'is', null).limit(1);
      return (await query.executeTakeFirst()) !== undefined;
    },

    insert(key) {
      return change(async (transaction) => {
        const createTime = now();
        await transaction
          .insertInto('api_keys')
          .values({
            id: key.id,
            name: key.name,
            secret_hash: key.secretHash,
            owner: key.owner,
            owner_name: key.ownerName,
            backend_roles: JSON.stringify(key.backendRoles),
            roles: key.roles === undefined ? null : JSON.stringify(key.roles),
            scope: key.scope === undefined ? null : JSON.stringify(key.scope),
            expires_time: key.expiresTime ?? null,
            revoked_time: null,
            last_used_time: null,
            create_time: createTime,
          })
          .execute();
        return { ...key, createTime };
      });
    },

    revoke(id) {
      return change(async (transaction) => {
        const row = await transaction.selectFrom('api_keys').select('id').where('id', '=', id).executeTakeFirst();
        if (row === undefined) return false;
        await transaction
          .updateTable('api_keys')
          .set({ revoked_time: now() })
          .where('id', '=', id)
          .where('revoked_time', 'is', null)
          .execute();
        return true;
      });
    },

    async touch(id) {
      await database.write((transaction) =>
        transaction.updateTable('api_keys').set({ last_used_time: now() }).where('id', '=', id).execute(),
      );
    },
  };
}

function keyOf(row: Tables['api_keys']): ApiKeyRow {
  return {
    id: row.id,
    name: row.name,
    secretHash: row.secret_hash,
    owner: row.owner,
    ownerName: row.owner_name,
    backendRoles: listOf(row.backend_roles),
    ...(row.roles !== null && { roles: listOf(row.roles) }),
    ...(row.scope !== null && { scope: listOf(row.scope) }),
    ...(row.expires_time !== null && { expiresTime: row.expires_time }),
    ...(row.revoked_time !== null && { revokedTime: row.revoked_time }),
    ...(row.last_used_time !== null && { lastUsedTime: row.last_used_time }),
    createTime: row.create_time,
  };
}
