import type { Access } from './access.ts';

export type PrincipalKind = 'open' | 'static_key' | 'user' | 'api_key' | 'token' | 'system';

/** Who a service call is made for. Every call carries one, in open mode too. */
export interface Principal {
  /** Stable and unique over all kinds; owner of records and key of audit rows: `open`, `api_key`, `user:ann`, `key:<id>`, `token:<issuer>|<subject>`, `system`. */
  readonly id: string;
  /** As people know it: the user's name. */
  readonly name: string;
  readonly kind: PrincipalKind;
  /** Groups that records can be shared with (`backend_roles` of connectors, models, model groups). */
  readonly backendRoles: readonly string[];
  /** Names of the roles in force. */
  readonly roles: readonly string[];
  readonly access: Access;
  /** Whose records these are when it acts for another: `user:ann` for an API key of hers. Absent: its own. */
  readonly owner?: string;
}
