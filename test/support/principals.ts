import type { Access } from '../../src/identity/access.ts';
import type { Principal } from '../../src/identity/principal.ts';

/** May do everything by its roles, and is no administrator: what it sees is its own. */
const ORDINARY: Access = Object.freeze({ allows: () => true, admin: false, deniesTool: () => false });

/** A signed-in user for tests of the rooms: allowed everything, administrator of nothing, unless told otherwise. */
export function userPrincipal(
  name: string,
  given: { backendRoles?: readonly string[]; roles?: readonly string[]; access?: Partial<Access> } = {},
): Principal {
  const { backendRoles = [], roles = [], access = {} } = given;
  return Object.freeze({
    id: `user:${name}`,
    name,
    kind: 'user',
    backendRoles,
    roles,
    access: { ...ORDINARY, ...access },
  });
}
