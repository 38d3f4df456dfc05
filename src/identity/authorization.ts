import type { Audit } from '../telemetry/audit.ts';
import { BUILT_IN_ROLES } from './builtin-roles.ts';
import { PERMISSIONS } from './permissions.ts';
import { accessOf } from './roles.ts';
import type { Authorization } from './types.ts';

/** Decides by the roles of the principal, with the text of the OpenSearch security plugin and who can help. */
export function createAuthorization({ audit }: { audit: Audit }): Authorization {
  const built = [...BUILT_IN_ROLES].map(([name, role]) => ({ name, access: accessOf([role]) }));

  return {
    refusal(principal, permission) {
      if (principal.access.allows(permission)) return undefined;
      void audit.record({ principal: principal.id, action: 'access', outcome: 'refused', detail: permission });
      const { name, backendRoles } = principal;
      const action = PERMISSIONS[permission]?.[0] ?? permission;
      const user = `User [name=${name}, backend_roles=[${backendRoles.join(', ')}], requestedTenant=null]`;
      const roles = built.filter(({ access }) => access.allows(permission)).map((role) => role.name);
      return `no permissions for [${action}] and ${user}. An administrator can give ${permission} with a role such as ${roles.join(' or ')}`;
    },
  };
}
