import type { JsonObject } from '../json.ts';
import { compilePattern } from '../outbound/pattern.ts';
import type { RoleMappingRow, RoleRow } from '../store/identity.ts';
import type { Access, DeniedTool } from './access.ts';
import { BUILT_IN_ROLES, type RoleDefinition } from './builtin-roles.ts';
import { matchesWildcard, PERMISSIONS, permissionMatcher } from './permissions.ts';

/** Whose roles are asked for. */
export interface RoleSubject {
  /** The name that mappings may list; absent: only backend roles count. */
  readonly name?: string;
  readonly backendRoles: readonly string[];
  /** Roles held without a mapping. */
  readonly direct?: readonly string[];
}

/** The roles there are, and who has them. */
export interface RoleBook {
  readonly definitions: ReadonlyMap<string, RoleDefinition>;
  readonly mappings: ReadonlyMap<string, RoleMappingRow>;
  /** Names of existing roles, sorted. */
  rolesOf(subject: RoleSubject): string[];
  /** What these roles allow together, narrowed to `scope` when it is given. Roles that do not exist allow nothing. */
  access(roles: readonly string[], scope?: readonly string[]): Access;
}

const REMEMBERED = 1000;
/** A longer name is matched by no pattern, and so denied to whoever has a denied tool at all. */
const LONGEST_TOOL = 8192;

export function createRoleBook(stored: readonly RoleRow[], mapped: readonly RoleMappingRow[]): RoleBook {
  const own = stored.map(({ name, body }) => [name, roleDefinition(body)] as const);
  const definitions = new Map([...own, ...BUILT_IN_ROLES]);
  const mappings = new Map(mapped.map((mapping) => [mapping.role, mapping]));
  const known = new Map<string, Access>();

  function isMapped({ users, backendRoles }: RoleMappingRow, subject: RoleSubject): boolean {
    const { name } = subject;
    if (name !== undefined && users.some((pattern) => matchesWildcard(pattern, name))) return true;
    return backendRoles.some((pattern) => subject.backendRoles.some((role) => matchesWildcard(pattern, role)));
  }

  return {
    definitions,
    mappings,

    rolesOf(subject) {
      const given = mapped.filter((mapping) => isMapped(mapping, subject)).map(({ role }) => role);
      const names = new Set([...(subject.direct ?? []), ...given]);
      return [...names].filter((name) => definitions.has(name)).sort();
    },

    access(roles, scope) {
      const key = JSON.stringify([roles, scope]);
      const remembered = known.get(key);
      if (remembered !== undefined) return remembered;
      const held = roles.flatMap((name) => definitions.get(name) ?? []);
      const access = accessOf(held, scope);
      if (known.size < REMEMBERED) known.set(key, access);
      return access;
    },
  };
}

/** The definition of a role by the members of its body, which were checked when it was stored. */
export function roleDefinition(body: JsonObject): RoleDefinition {
  const denied = (body.denied_tools ?? []) as { connector_id?: string; tool: string }[];
  return {
    permissions: (body.cluster_permissions ?? []) as string[],
    deniedTools: denied.map(({ connector_id: connectorId, tool }) => ({
      tool,
      ...(connectorId === undefined ? {} : { connectorId }),
    })),
    body,
  };
}

/** What roles allow together: any of them gives a permission, any of them denies a tool. */
export function accessOf(roles: readonly RoleDefinition[], scope?: readonly string[]): Access {
  const patterns = roles.flatMap(({ permissions }) => permissions);
  const given = permissionMatcher(patterns);
  const within = scope === undefined ? () => true : permissionMatcher(scope);
  const denied = roles.flatMap(({ deniedTools }) => deniedTools).map(toolMatcher);
  return Object.freeze({
    allows: (permission: string) => given(permission) && within(permission),
    admin: isEverything(patterns) && (scope === undefined || isEverything(scope)),
    deniesTool: (connectorId: string, tool: string) => denied.some((matches) => matches(connectorId, tool)),
  });
}

/**
 * Whether a caller may hand on a role: it denies no tool, and allows nothing that the caller may not do. A pattern that
 * means nothing yet might mean more one day: only administrators give such.
 */
export function mayGive(caller: Access, role: RoleDefinition): boolean {
  if (caller.admin) return true;
  const { admin, allows } = accessOf([role]);
  if (admin || role.deniedTools.length > 0) return false;
  if (!role.permissions.every(isKnown)) return false;
  return Object.keys(PERMISSIONS).every((permission) => !allows(permission) || caller.allows(permission));
}

function isKnown(pattern: string): boolean {
  const matches = permissionMatcher([pattern]);
  const everybody = permissionMatcher([]);
  return Object.keys(PERMISSIONS).some((permission) =>
    everybody(permission) ? matchesWildcard(pattern, permission) : matches(permission),
  );
}

function isEverything(patterns: readonly string[]): boolean {
  return patterns.includes('*') || patterns.includes('unlimited');
}

function toolMatcher({ connectorId, tool }: DeniedTool): (connector: string, name: string) => boolean {
  const pattern = compilePattern(tool, ' of [denied_tools.tool]');
  return (connector, name) =>
    (connectorId === undefined || connectorId === connector) && (name.length > LONGEST_TOOL || pattern.test(name));
}
