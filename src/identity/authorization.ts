import type { Refusals } from '../telemetry/refusals.ts';
import { BUILT_IN_ROLES } from './builtin-roles.ts';
import { PERMISSIONS } from './permissions.ts';
import { accessOf } from './roles.ts';
import type { Authorization } from './types.ts';

/** Decides by the roles of the principal, with the text of the OpenSearch security plugin and who can help. */
export function createAuthorization({ refusals }: { readonly refusals: Refusals }): Authorization {
  const built = [...BUILT_IN_ROLES].map(([name, role]) => ({ name, access: accessOf([role]) }));

  const authorization: Authorization = {
    refusal(principal, permission) {
      if (principal.access.allows(permission)) return undefined;
      authorization.refused(principal, permission);
      const { name, backendRoles } = principal;
      const action = PERMISSIONS[permission]?.[0] ?? permission;
      const user = `User [name=${name}, backend_roles=[${backendRoles.join(', ')}], requestedTenant=null]`;
      const roles = built.filter(({ access }) => access.allows(permission)).map((role) => role.name);
      return `no permissions for [${action}] and ${user}. An administrator can give ${permission} with a role such as ${roles.join(' or ')}`;
    },

    refused({ id: principal }, permission, { reason, ...facts } = {}) {
      const detail = reason === undefined ? permission : `${permission}: ${reason}`;
      refusals.record(permission, { principal, action: 'access', ...facts, detail });
    },
  };
  return authorization;
}
