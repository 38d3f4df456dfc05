import type { Transaction } from 'kysely';
import type { JsonObject } from '../json.ts';
import type { Database } from './database.ts';
import { createSequences } from './sequences.ts';
import type { Tables } from './tables.ts';

export interface UserRow {
  readonly name: string;
  readonly passwordHash: string;
  readonly backendRoles: readonly string[];
  /** Roles the user has directly. */
  readonly roles: readonly string[];
  readonly attributes: Readonly<Record<string, string>>;
  readonly description?: string;
  readonly disabled: boolean;
}

export interface RoleRow {
  readonly name: string;
  readonly body: JsonObject;
}

export interface RoleMappingRow {
  readonly role: string;
  readonly users: readonly string[];
  readonly backendRoles: readonly string[];
  readonly description?: string;
}

type Written = 'created' | 'updated';

/** Users, roles and role mappings. */
export interface IdentityStore {
  /** Grows with every change of a user, key, role or mapping, by any process; `-1` before the first. */
  revision(): Promise<number>;
  user(name: string): Promise<UserRow | undefined>;
  users(): Promise<UserRow[]>;
  anyUser(): Promise<boolean>;
  /** `onlyFirst`: writes nothing and answers `undefined` when there is a user already. */
  putUser(user: UserRow, options?: { onlyFirst?: boolean }): Promise<Written | undefined>;
  /** Revokes the keys of that user too: they must not come back with another user of the same name. */
  deleteUser(name: string): Promise<boolean>;
  roles(): Promise<RoleRow[]>;
  putRole(role: RoleRow): Promise<Written>;
  deleteRole(name: string): Promise<boolean>;
  mappings(): Promise<RoleMappingRow[]>;
  putMapping(mapping: RoleMappingRow): Promise<Written>;
  deleteMapping(role: string): Promise<boolean>;
}

const REVISION = 'identity';

/**
 * Runs a transaction that moves the revision. It is moved first: writers of identity stand in line behind it, also on
 * PostgreSQL.
 */
export function identityChanges(
  database: Database,
): <T>(work: (transaction: Transaction<Tables>) => Promise<T>) => Promise<T> {
  const next = createSequences(database);
  return (work) =>
    database.write(async (transaction) => {
      await next(transaction, REVISION);
      return work(transaction);
    });
}

/** Users, roles and mappings in the store; names and lists, never a password. */
export function createIdentityStore(
  database: Database,
  { now = Date.now }: { now?: () => number } = {},
): IdentityStore {
  const { kysely } = database;
  const change = identityChanges(database);

  return {
    async revision() {
      const row = await kysely.selectFrom('sequences').select('value').where('name', '=', REVISION).executeTakeFirst();
      return row?.value ?? -1;
    },

    async user(name) {
      const row = await kysely.selectFrom('users').selectAll().where('name', '=', name).executeTakeFirst();
      return row && userOf(row);
    },

    async users() {
      const rows = await kysely.selectFrom('users').selectAll().orderBy('name').execute();
      return rows.map(userOf);
    },

    async anyUser() {
      return (await kysely.selectFrom('users').select('name').limit(1).executeTakeFirst()) !== undefined;
    },

    putUser(user, { onlyFirst = false } = {}) {
      return change(async (transaction) => {
        const known = transaction.selectFrom('users').select('name');
        if (onlyFirst && (await known.limit(1).executeTakeFirst()) !== undefined) return undefined;
        const existing = await known.where('name', '=', user.name).executeTakeFirst();
        const time = now();
        const row = {
          password_hash: user.passwordHash,
          backend_roles: JSON.stringify(user.backendRoles),
          roles: JSON.stringify(user.roles),
          attributes: JSON.stringify(user.attributes),
          description: user.description ?? null,
          disabled: user.disabled ? 1 : 0,
          last_updated_time: time,
        };
        await transaction
          .insertInto('users')
          .values({ name: user.name, create_time: time, ...row })
          .onConflict((conflict) => conflict.column('name').doUpdateSet(row))
          .execute();
        return existing === undefined ? 'created' : 'updated';
      });
    },

    deleteUser(name) {
      return change(async (transaction) => {
        const result = await transaction.deleteFrom('users').where('name', '=', name).executeTakeFirst();
        await transaction
          .updateTable('api_keys')
          .set({ revoked_time: now() })
          .where('owner', '=', `user:${name}`)
          .where('revoked_time', 'is', null)
          .execute();
        return Number(result.numDeletedRows) > 0;
      });
    },

    async roles() {
      const rows = await kysely.selectFrom('roles').select(['name', 'body']).orderBy('name').execute();
      return rows.map(({ name, body }) => ({ name, body: JSON.parse(body) as JsonObject }));
    },

    putRole({ name, body }) {
      return change(async (transaction) => {
        const existing = await transaction
          .selectFrom('roles')
          .select('name')
          .where('name', '=', name)
          .executeTakeFirst();
        const time = now();
        const row = { body: JSON.stringify(body), last_updated_time: time };
        await transaction
          .insertInto('roles')
          .values({ name, create_time: time, ...row })
          .onConflict((conflict) => conflict.column('name').doUpdateSet(row))
          .execute();
        return existing === undefined ? 'created' : 'updated';
      });
    },

    deleteRole(name) {
      return change(async (transaction) => {
        const result = await transaction.deleteFrom('roles').where('name', '=', name).executeTakeFirst();
        return Number(result.numDeletedRows) > 0;
      });
    },

    async mappings() {
      const rows = await kysely.selectFrom('role_mappings').selectAll().orderBy('role').execute();
      return rows.map((row) => ({
        role: row.role,
        users: listOf(row.users),
        backendRoles: listOf(row.backend_roles),
        ...(row.description !== null && { description: row.description }),
      }));
    },

    putMapping({ role, users, backendRoles, description }) {
      return change(async (transaction) => {
        const known = transaction.selectFrom('role_mappings').select('role').where('role', '=', role);
        const existing = await known.executeTakeFirst();
        const row = {
          users: JSON.stringify(users),
          backend_roles: JSON.stringify(backendRoles),
          description: description ?? null,
          last_updated_time: now(),
        };
        await transaction
          .insertInto('role_mappings')
          .values({ role, ...row })
          .onConflict((conflict) => conflict.column('role').doUpdateSet(row))
          .execute();
        return existing === undefined ? 'created' : 'updated';
      });
    },

    deleteMapping(role) {
      return change(async (transaction) => {
        const result = await transaction.deleteFrom('role_mappings').where('role', '=', role).executeTakeFirst();
        return Number(result.numDeletedRows) > 0;
      });
    },
  };
}

export function listOf(text: string): string[] {
  return JSON.parse(text) as string[];
}

function userOf(row: Tables['users']): UserRow {
  return {
    name: row.name,
    passwordHash: row.password_hash,
    backendRoles: listOf(row.backend_roles),
    roles: listOf(row.roles),
    attributes: JSON.parse(row.attributes) as Record<string, string>,
    ...(row.description !== null && { description: row.description }),
    disabled: row.disabled === 1,
  };
}
