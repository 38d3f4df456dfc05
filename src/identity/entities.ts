import { INVALID_ARGUMENT } from '../errors.ts';
import { isJsonObject, type JsonObject } from '../json.ts';
import { compilePattern } from '../outbound/pattern.ts';
import type { RoleMappingRow, UserRow } from '../store/identity.ts';
import { namesIn, refuseOthers, textIn, textsIn, wrongType } from './bodies.ts';

const LONGEST_NAME = 512;
const MOST_DENIED = 200;
const CONTROL = /[\p{Cc}\p{Zl}\p{Zp}]/u;
const NOT_HERE = ['hosts', 'and_backend_roles'];

/** @throws INVALID_ARGUMENT when a new user or role cannot be called that */
export function entityName(kind: 'user' | 'role', name: string): void {
  if (name.trim() !== name || name === '')
    throw new INVALID_ARGUMENT(`${kind} name must not begin or end with a space`);
  if (name.length > LONGEST_NAME) {
    throw new INVALID_ARGUMENT(`${kind} name exceeds maximum length of ${LONGEST_NAME}.`);
  }
  if (CONTROL.test(name)) throw new INVALID_ARGUMENT(`${kind} name must not contain control characters`);
  if (kind === 'user' && name.includes(':')) {
    throw new INVALID_ARGUMENT("A restricted character(s) was detected in the account name. Please remove: ':'");
  }
}

/** What a body says about a user; `password` as it came. @throws INVALID_ARGUMENT */
export function userFields(body: JsonObject): Omit<UserRow, 'name' | 'passwordHash'> & { password?: string } {
  requireSome(body);
  if (body.hash !== undefined) {
    throw new INVALID_ARGUMENT(
      '[hash] is not taken: hashes of another product cannot be checked here. Give [password]',
    );
  }
  refuseOthers(body, ['password', 'backend_roles', 'opendistro_security_roles', 'attributes', 'description']);
  const password = textIn(body, 'password');
  const description = textIn(body, 'description');
  const attributes = textsIn(body, 'attributes');
  return {
    ...(password === undefined ? {} : { password }),
    ...(description === undefined ? {} : { description }),
    backendRoles: namesIn(body, 'backend_roles') ?? [],
    roles: namesIn(body, 'opendistro_security_roles') ?? [],
    attributes,
    disabled: attributes.enabled?.toLowerCase() === 'false',
  };
}

export function shownUser({ backendRoles, roles, attributes, description }: UserRow): JsonObject {
  return {
    hash: '',
    reserved: false,
    hidden: false,
    backend_roles: [...backendRoles],
    attributes: { ...attributes },
    ...(description === undefined ? {} : { description }),
    opendistro_security_roles: [...roles],
    static: false,
  };
}

/** The members of a role to store. @throws INVALID_ARGUMENT */
export function roleBody(body: JsonObject): JsonObject {
  requireSome(body);
  refuseOthers(body, ['description', 'cluster_permissions', 'index_permissions', 'tenant_permissions', 'denied_tools']);
  const description = textIn(body, 'description');
  const denied = deniedTools(body);
  return {
    ...(description === undefined ? {} : { description }),
    cluster_permissions: namesIn(body, 'cluster_permissions') ?? [],
    index_permissions: listIn(body, 'index_permissions'),
    tenant_permissions: listIn(body, 'tenant_permissions'),
    ...(denied.length === 0 ? {} : { denied_tools: denied }),
  };
}

export function shownRole(body: JsonObject, reserved: boolean): JsonObject {
  return {
    reserved,
    hidden: false,
    ...body,
    index_permissions: body.index_permissions ?? [],
    tenant_permissions: body.tenant_permissions ?? [],
    static: reserved,
  };
}

/** @throws INVALID_ARGUMENT */
export function mappingRow(role: string, body: JsonObject): RoleMappingRow {
  requireSome(body);
  refuseOthers(body, ['users', 'backend_roles', 'description', ...NOT_HERE]);
  if (body.users === undefined && body.backend_roles === undefined) {
    const keys = 'users,backend_roles';
    const error = new INVALID_ARGUMENT('Invalid configuration: give [users] or [backend_roles]');
    throw Object.assign(error, { details: { specify_one_of: { keys } } });
  }
  for (const member of NOT_HERE) {
    if (listIn(body, member).length > 0)
      throw new INVALID_ARGUMENT(`[${member}] is not supported: map by users or backend_roles`);
  }
  const description = textIn(body, 'description');
  return {
    role,
    users: namesIn(body, 'users') ?? [],
    backendRoles: namesIn(body, 'backend_roles') ?? [],
    ...(description === undefined ? {} : { description }),
  };
}

export function shownMapping({ users, backendRoles, description }: RoleMappingRow): JsonObject {
  return {
    hosts: [],
    users: [...users],
    reserved: false,
    hidden: false,
    backend_roles: [...backendRoles],
    and_backend_roles: [],
    ...(description === undefined ? {} : { description }),
  };
}

function requireSome(body: JsonObject): void {
  if (Object.keys(body).length === 0) throw new INVALID_ARGUMENT('Request body required for this action.');
}

function listIn(body: JsonObject, member: string): JsonObject[string] & unknown[] {
  const value = body[member] ?? [];
  if (!Array.isArray(value)) throw wrongType(member, 'Array expected');
  return value;
}

function deniedTools(body: JsonObject): JsonObject[] {
  const entries = listIn(body, 'denied_tools');
  if (entries.length > MOST_DENIED) throw new INVALID_ARGUMENT(`[denied_tools] has more than ${MOST_DENIED} entries`);
  return entries.map((entry) => {
    if (!isJsonObject(entry)) throw wrongType('denied_tools', 'Array of objects expected');
    refuseOthers(entry, ['connector_id', 'tool']);
    const connectorId = textIn(entry, 'connector_id');
    const tool = textIn(entry, 'tool');
    if (tool === undefined || tool === '') {
      throw new INVALID_ARGUMENT('[denied_tools.tool] is required: a regular expression for the whole name of a tool');
    }
    compilePattern(tool, ' of [denied_tools.tool]');
    return { ...(connectorId === undefined ? {} : { connector_id: connectorId }), tool };
  });
}
