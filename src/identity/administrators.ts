import { CONFLICT } from '../errors.ts';
import type { IdentityContent, IdentityGuard } from '../store/identity.ts';
import { ADMIN_ROLE } from './builtin-roles.ts';
import { createRoleBook } from './roles.ts';

/** Whether a user who can sign in may do everything, by any role, held directly or by a mapping. */
export function hasAdministrator({ users, roles, mappings }: IdentityContent): boolean {
  const book = createRoleBook(roles, mappings);
  return users.some(
    ({ name, backendRoles, roles: direct, disabled }) =>
      !disabled && book.access(book.rolesOf({ name, backendRoles, direct })).admin,
  );
}

/** Refuses the change that takes the last administrator from the users there are. @throws CONFLICT */
export const keepAdministrator: IdentityGuard = (before, after) => {
  if (after.users.length === 0 || hasAdministrator(after) || !hasAdministrator(before)) return;
  throw new CONFLICT(
    `No enabled user would have ${ADMIN_ROLE} any more, and nobody could administer this server. Give ${ADMIN_ROLE} to another enabled user first`,
  );
};
