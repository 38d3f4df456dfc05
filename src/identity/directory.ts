import { FORBIDDEN, INVALID_ARGUMENT, NOT_FOUND } from '../errors.ts';
import type { JsonObject } from '../json.ts';
import type { GuardOptions, IdentityStore, RoleMappingRow, UserRow } from '../store/identity.ts';
import type { Audit } from '../telemetry/audit.ts';
import { keepAdministrator } from './administrators.ts';
import { ADMIN_ROLE, BUILT_IN_ROLES, type RoleDefinition } from './builtin-roles.ts';
import { entityName, mappingRow, roleBody, shownMapping, shownRole, shownUser, userFields } from './entities.ts';
import { checkPassword, type PasswordHasher } from './passwords.ts';
import type { Principal } from './principal.ts';
import { mayGive, type RoleBook, roleDefinition } from './roles.ts';
import type { IdentityStates } from './state.ts';
import type { Directory } from './types.ts';

export interface DirectoryDeps {
  readonly store: IdentityStore;
  readonly states: IdentityStates;
  readonly hasher: Pick<PasswordHasher, 'hash'>;
  readonly audit: Audit;
}

/**
 * Users, roles and role mappings, with the texts of the OpenSearch security API. Whoever is no administrator can only
 * touch what gives no more than they have themselves.
 */
export function createDirectory({ store, states, hasher, audit }: DirectoryDeps): Directory {
  async function done(principal: Principal, action: string, detail: string): Promise<void> {
    states.changed();
    await audit.record({ principal: principal.id, action, outcome: 'ok', detail });
  }

  async function userChange(principal: Principal, name: string): Promise<{ book: RoleBook; existing?: UserRow }> {
    const { book } = await states.current();
    const existing = await store.user(name);
    if (existing === undefined) return { book };
    requireGivable(principal, book, rolesOfUser(book, existing));
    return { book, existing };
  }

  const directory: Directory = {
    async users() {
      return Object.fromEntries((await store.users()).map((user) => [user.name, shownUser(user)]));
    },

    async user(name) {
      const user = await store.user(name);
      if (user === undefined) throw notFound('user', name);
      return { [name]: shownUser(user) };
    },

    async putUser(principal, name, body) {
      entityName('user', name);
      const { password, ...fields } = userFields(body);
      const { book, existing } = await userChange(principal, name);
      for (const role of fields.roles) requireRole(book, role);
      requireGivable(principal, book, book.rolesOf({ name, backendRoles: fields.backendRoles, direct: fields.roles }));
      requireOwnBackendRoles(principal, fields.backendRoles, existing);
      if (password === undefined && existing === undefined) {
        throw new INVALID_ARGUMENT("Please specify 'password' when creating a new internal user.");
      }
      if (principal.kind === 'open') requireFirstAdmin(name, fields, existing);
      const passwordHash =
        password === undefined ? (existing?.passwordHash ?? '') : await hasher.hash(checkPassword(name, password));
      const written = (await store.putUser({ name, passwordHash, ...fields }, guarded(principal))) ?? 'updated';
      await done(principal, existing === undefined ? 'user.create' : 'user.update', name);
      return written;
    },

    async deleteUser(principal, name) {
      const { existing } = await userChange(principal, name);
      if (existing === undefined || !(await store.deleteUser(name, guarded(principal)))) throw notFound('user', name);
      await done(principal, 'user.delete', name);
    },

    async roles() {
      const { book } = await states.current();
      return Object.fromEntries([...book.definitions].map(([name, role]) => [name, shown(name, role)]).sort());
    },

    async role(name) {
      const role = (await states.current()).book.definitions.get(name);
      if (role === undefined) throw notFound('role', name);
      return { [name]: shown(name, role) };
    },

    async putRole(principal, name, body) {
      entityName('role', name);
      const { book } = await states.current();
      refuseReserved(name);
      const kept = roleBody(body);
      for (const role of [book.definitions.get(name), roleDefinition(kept)]) requireMayGive(principal, name, role);
      const written = await store.putRole({ name, body: kept }, guarded(principal));
      await done(principal, written === 'created' ? 'role.create' : 'role.update', name);
      return written;
    },

    async deleteRole(principal, name) {
      const { book } = await states.current();
      refuseReserved(name);
      requireMayGive(principal, name, book.definitions.get(name));
      if (!(await store.deleteRole(name, guarded(principal)))) throw notFound('role', name);
      await done(principal, 'role.delete', name);
    },

    async mappings() {
      return Object.fromEntries((await store.mappings()).map((mapping) => [mapping.role, shownMapping(mapping)]));
    },

    async mapping(role) {
      const mapping = (await store.mappings()).find((one) => one.role === role);
      if (mapping === undefined) throw notFound('rolesmapping', role);
      return { [role]: shownMapping(mapping) };
    },

    async putMapping(principal, role, body) {
      const { book } = await states.current();
      requireRole(book, role);
      requireMayGive(principal, role, book.definitions.get(role));
      const row: RoleMappingRow = mappingRow(role, body);
      const written = await store.putMapping(row, guarded(principal));
      await done(principal, written === 'created' ? 'role_mapping.create' : 'role_mapping.update', role);
      return written;
    },

    async deleteMapping(principal, role) {
      const { book } = await states.current();
      requireMayGive(principal, role, book.definitions.get(role));
      if (!(await store.deleteMapping(role, guarded(principal)))) throw notFound('rolesmapping', role);
      await done(principal, 'role_mapping.delete', role);
    },
  };
  return directory;
}

function rolesOfUser(book: RoleBook, { name, backendRoles, roles: direct }: UserRow): string[] {
  return book.rolesOf({ name, backendRoles, direct });
}

function shown(name: string, role: RoleDefinition): JsonObject {
  return shownRole(role.body, BUILT_IN_ROLES.has(name));
}

function notFound(kind: string, name: string): Error {
  return new NOT_FOUND(`${kind} '${name}' not found.`);
}

function requireRole(book: RoleBook, name: string): void {
  if (!book.definitions.has(name)) throw notFound('role', name);
}

function refuseReserved(name: string): void {
  if (BUILT_IN_ROLES.has(name)) throw new FORBIDDEN(`Resource '${name}' is reserved.`);
}

function requireGivable(principal: Principal, book: RoleBook, roles: readonly string[]): void {
  for (const name of roles) requireMayGive(principal, name, book.definitions.get(name));
}

function requireMayGive({ access }: Principal, name: string, role: RoleDefinition | undefined): void {
  if (role === undefined || mayGive(access, role)) return;
  throw new FORBIDDEN(
    `Access denied: role '${name}' gives or denies more than you may decide about. Ask somebody who has ${ADMIN_ROLE}`,
  );
}

/** The operator can always come back; the others need an administrator among the users. */
function guarded({ kind }: Principal): GuardOptions {
  return kind === 'static_key' ? {} : { guard: keepAdministrator };
}

/** Records are shared with backend roles, and mappings go by them. @throws FORBIDDEN */
function requireOwnBackendRoles(
  { access, backendRoles: own }: Principal,
  wanted: readonly string[],
  existing: UserRow | undefined,
): void {
  if (access.admin) return;
  const foreign = wanted.find((role) => !own.includes(role) && !existing?.backendRoles.includes(role));
  if (foreign === undefined) return;
  throw new FORBIDDEN(
    `Access denied: you do not have the backend role '${foreign}' and cannot give it. Ask somebody who has ${ADMIN_ROLE}`,
  );
}

/** The server leaves open mode with its first user: nobody could administer it if that one could not. */
function requireFirstAdmin(
  name: string,
  { roles, disabled }: Pick<UserRow, 'roles' | 'disabled'>,
  existing: UserRow | undefined,
): void {
  if (existing !== undefined || (roles.includes(ADMIN_ROLE) && !disabled)) return;
  throw new INVALID_ARGUMENT(
    `The first user has to be an administrator who is not disabled, because authentication starts with it: create '${name}' with "opendistro_security_roles": ["${ADMIN_ROLE}"]`,
  );
}
