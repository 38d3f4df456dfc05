import type { ApiKeyRow } from '../store/api-keys.ts';
import type { UserRow } from '../store/identity.ts';
import { ADMIN_ROLE } from './builtin-roles.ts';
import type { Principal } from './principal.ts';
import { STATIC_KEY_PRINCIPAL } from './principals.ts';
import type { IdentityState } from './state.ts';

/** Somebody whom an OpenID provider vouches for. */
export interface TokenIdentity {
  readonly issuer: string;
  readonly subject: string;
  readonly name: string;
  readonly backendRoles: readonly string[];
}

const USER = 'user:';

export function userPrincipal({ book }: IdentityState, user: UserRow): Principal {
  const { name, backendRoles, roles: direct } = user;
  const roles = book.rolesOf({ name, backendRoles, direct });
  return Object.freeze({ id: `${USER}${name}`, name, kind: 'user', backendRoles, roles, access: book.access(roles) });
}

export async function tokenPrincipal(state: IdentityState, token: TokenIdentity): Promise<Principal> {
  const { issuer, subject, name, backendRoles } = token;
  const roles = await rolesOfStranger(state, name, backendRoles);
  const id = `token:${issuer}|${subject}`;
  return Object.freeze({ id, name, kind: 'token', backendRoles, roles, access: state.book.access(roles) });
}

/**
 * The holder of a key: what its owner may do now, narrowed by the key. `undefined` when the owner is gone or disabled.
 * @param issuer the OpenID provider in force, whose users may own keys
 */
export async function keyPrincipal(
  state: IdentityState,
  key: ApiKeyRow,
  { issuer, staticKey }: { issuer: string | undefined; staticKey: boolean },
): Promise<Principal | undefined> {
  const owner = await ownerOf(state, key, issuer, staticKey);
  if (owner === undefined) return undefined;
  const roles = key.roles === undefined ? owner.roles : owner.roles.filter((role) => key.roles?.includes(role));
  // Roles a key leaves out take their permissions along, never what they forbid.
  const { deniesTool } = state.book.access(owner.roles);
  return Object.freeze({
    id: `key:${key.id}`,
    name: key.ownerName,
    kind: 'api_key',
    backendRoles: owner.backendRoles,
    roles,
    access: Object.freeze({ ...state.book.access(roles, key.scope), deniesTool }),
    owner: key.owner,
  });
}

async function ownerOf(
  state: IdentityState,
  { owner, ownerName, backendRoles }: ApiKeyRow,
  issuer: string | undefined,
  staticKey: boolean,
): Promise<Pick<Principal, 'roles' | 'backendRoles'> | undefined> {
  if (owner.startsWith(USER)) {
    const user = await state.user(owner.slice(USER.length));
    return user === undefined || user.disabled ? undefined : userPrincipal(state, user);
  }
  if (owner === STATIC_KEY_PRINCIPAL.id) return staticKey ? { roles: [ADMIN_ROLE], backendRoles: [] } : undefined;
  if (issuer === undefined || !owner.startsWith(`token:${issuer}|`)) return undefined;
  return { roles: await rolesOfStranger(state, ownerName, backendRoles), backendRoles };
}

/** A name that the provider's users can choose gives nothing that was meant for the user of the store of that name. */
async function rolesOfStranger(
  state: IdentityState,
  name: string,
  backendRoles: readonly string[],
): Promise<readonly string[]> {
  const taken = (await state.user(name)) !== undefined;
  return state.book.rolesOf({ backendRoles, ...(taken ? {} : { name }) });
}
