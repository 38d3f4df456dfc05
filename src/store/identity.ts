import { randomUUID } from 'node:crypto';
import type { Kysely, Transaction } from 'kysely';
import type { JsonObject } from '../json.ts';
import type { Database } from './database.ts';
import { giveRecords } from './former-owners.ts';
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

/** Who there is, and what decides what they may do. */
export interface IdentityContent {
  readonly users: readonly UserRow[];
  readonly roles: readonly RoleRow[];
  readonly mappings: readonly RoleMappingRow[];
}

/** Throws to refuse a change, with what was there and what would be: nothing is written then. */
export type IdentityGuard = (before: IdentityContent, after: IdentityContent) => void;

export interface GuardOptions {
  readonly guard?: IdentityGuard;
}

type Written = 'created' | 'updated';

/** Users, roles and role mappings. */
export interface IdentityStore {
  /** Grows with every change of a user, key, role or mapping, by any process; `-1` before the first. */
  revision(): Promise<number>;
  user(name: string): Promise<UserRow | undefined>;
  users(): Promise<UserRow[]>;
  anyUser(): Promise<boolean>;
  content(): Promise<IdentityContent>;
  /** Writes nothing and answers `undefined` when `onlyIf` says no to what is there. */
  putUser(
    user: UserRow,
    options?: GuardOptions & { onlyIf?: (content: IdentityContent) => boolean },
  ): Promise<Written | undefined>;
  /**
   * Revokes the keys of that user too, and leaves the records to nobody: neither must come back with another user of the
   * same name.
   */
  deleteUser(name: string, options?: GuardOptions): Promise<boolean>;
  roles(): Promise<RoleRow[]>;
  putRole(role: RoleRow, options?: GuardOptions): Promise<Written>;
  /** Takes it from its holders too, with its mapping: another role of the same name starts without any. */
  deleteRole(name: string, options?: GuardOptions): Promise<boolean>;
  mappings(): Promise<RoleMappingRow[]>;
  putMapping(mapping: RoleMappingRow, options?: GuardOptions): Promise<Written>;
  deleteMapping(role: string, options?: GuardOptions): Promise<boolean>;
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
  const write = identityChanges(database);
  const next = createSequences(database);

  function change<T>({ guard }: GuardOptions, work: (transaction: Transaction<Tables>) => Promise<T>): Promise<T> {
    return write(async (transaction) => {
      if (guard === undefined) return work(transaction);
      const before = await contentOf(transaction);
      const result = await work(transaction);
      guard(before, await contentOf(transaction));
      return result;
    });
  }

  return {
    async revision() {
      const row = await kysely.selectFrom('sequences').select('value').where('name', '=', REVISION).executeTakeFirst();
      return row?.value ?? -1;
    },

    async user(name) {
      const row = await kysely.selectFrom('users').selectAll().where('name', '=', name).executeTakeFirst();
      return row && userOf(row);
    },

    users: () => usersOf(kysely),

    async anyUser() {
      return (await kysely.selectFrom('users').select('name').limit(1).executeTakeFirst()) !== undefined;
    },

    content: () => contentOf(kysely),

    putUser(user, options = {}) {
      return change(options, async (transaction) => {
        const known = transaction.selectFrom('users').select('name');
        if (options.onlyIf?.(await contentOf(transaction)) === false) return undefined;
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

    deleteUser(name, options = {}) {
      return change(options, async (transaction) => {
        const result = await transaction.deleteFrom('users').where('name', '=', name).executeTakeFirst();
        await transaction
          .updateTable('api_keys')
          .set({ revoked_time: now() })
          .where('owner', '=', `user:${name}`)
          .where('revoked_time', 'is', null)
          .execute();
        const deleted = Number(result.numDeletedRows) > 0;
        if (deleted) await giveRecords(transaction, next, { from: `user:${name}`, to: `deleted:${randomUUID()}` });
        return deleted;
      });
    },

    roles: () => rolesOf(kysely),

    putRole({ name, body }, options = {}) {
      return change(options, async (transaction) => {
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

    deleteRole(name, options = {}) {
      return change(options, async (transaction) => {
        const result = await transaction.deleteFrom('roles').where('name', '=', name).executeTakeFirst();
        if (Number(result.numDeletedRows) === 0) return false;
        await transaction.deleteFrom('role_mappings').where('role', '=', name).execute();
        await takeRole(transaction, name);
        return true;
      });
    },

    mappings: () => mappingsOf(kysely),

    putMapping({ role, users, backendRoles, description }, options = {}) {
      return change(options, async (transaction) => {
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

    deleteMapping(role, options = {}) {
      return change(options, async (transaction) => {
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

async function usersOf(source: Kysely<Tables>): Promise<UserRow[]> {
  const rows = await source.selectFrom('users').selectAll().orderBy('name').execute();
  return rows.map(userOf);
}

async function rolesOf(source: Kysely<Tables>): Promise<RoleRow[]> {
  const rows = await source.selectFrom('roles').select(['name', 'body']).orderBy('name').execute();
  return rows.map(({ name, body }) => ({ name, body: JSON.parse(body) as JsonObject }));
}

async function mappingsOf(source: Kysely<Tables>): Promise<RoleMappingRow[]> {
  const rows = await source.selectFrom('role_mappings').selectAll().orderBy('role').execute();
  return rows.map((row) => ({
    role: row.role,
    users: listOf(row.users),
    backendRoles: listOf(row.backend_roles),
    ...(row.description !== null && { description: row.description }),
  }));
}

async function contentOf(source: Kysely<Tables>): Promise<IdentityContent> {
  return { users: await usersOf(source), roles: await rolesOf(source), mappings: await mappingsOf(source) };
}

/** A key that was narrowed to the role alone keeps an empty list: it may do nothing then, not everything. */
async function takeRole(transaction: Transaction<Tables>, role: string): Promise<void> {
  const without = (text: string): string => JSON.stringify(listOf(text).filter((held) => held !== role));
  for (const { name, roles } of await transaction.selectFrom('users').select(['name', 'roles']).execute()) {
    if (!listOf(roles).includes(role)) continue;
    await transaction
      .updateTable('users')
      .set({ roles: without(roles) })
      .where('name', '=', name)
      .execute();
  }
  for (const { id, roles } of await transaction.selectFrom('api_keys').select(['id', 'roles']).execute()) {
    if (roles === null || !listOf(roles).includes(role)) continue;
    await transaction
      .updateTable('api_keys')
      .set({ roles: without(roles) })
      .where('id', '=', id)
      .execute();
  }
}
