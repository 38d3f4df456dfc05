import { FULL_ACCESS } from './access.ts';
import type { Principal, PrincipalKind } from './principal.ts';

function everything(id: string, kind: PrincipalKind): Principal {
  return Object.freeze({ id, name: id, kind, backendRoles: [], roles: ['all_access'], access: FULL_ACCESS });
}

/** The caller of a server that runs without authentication (loopback only). */
export const OPEN_PRINCIPAL: Principal = everything('open', 'open');

/** The holder of the one static API key. */
export const STATIC_KEY_PRINCIPAL: Principal = everything('api_key', 'static_key');
