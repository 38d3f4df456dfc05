import type { JsonObject } from '../json.ts';
import type { AuditEntry } from '../schemas/audit.ts';
import type { Principal } from './principal.ts';

/** What a request shows of its caller. */
export interface Presented {
  /** The `Authorization` header as it came; `undefined` when there is none. */
  readonly authorization: string | undefined;
  readonly peer: string | undefined;
}

export type SignIn =
  | { readonly ok: true; readonly principal: Principal }
  /** `reason` never tells an unknown user from a wrong password. */
  | {
      readonly ok: false;
      readonly reason: string;
      readonly retryAfterMs?: number;
      /** Nothing is known about the caller because the OpenID provider does not answer. */
      readonly unavailable?: true;
    };

/** Tells who is calling. Failed attempts are slowed and audited. */
export interface Authenticator {
  /** `open` when nothing is configured: no user, no key, no static key, no provider. */
  mode(): 'open' | 'authenticated';
  signIn(presented: Presented): Promise<SignIn>;
  /**
   * Challenges for `WWW-Authenticate`, in order of preference; to a bearer that was refused with the error of RFC 6750,
   * section 3.1.
   */
  challenges(authorization?: string): readonly string[];
}

export interface RefusalFacts extends Pick<AuditEntry, 'connectorId' | 'tool'> {
  /** As the caller was told. */
  readonly reason?: string;
}

/** Tells what a caller may do. */
export interface Authorization {
  /** Why the principal may not do this, for the caller; `undefined` when it may. A refusal is audited. */
  refusal(principal: Principal, permission: string): string | undefined;
  /** Audits what was refused elsewhere than here, by ownership or because a role denies a tool. */
  refused(principal: Pick<Principal, 'id'>, permission: string, facts?: RefusalFacts): void;
}

/** Users, roles and role mappings in the shapes of the OpenSearch security API. */
export interface Directory {
  users(): Promise<JsonObject>;
  user(name: string): Promise<JsonObject>;
  putUser(principal: Principal, name: string, body: JsonObject): Promise<'created' | 'updated'>;
  deleteUser(principal: Principal, name: string): Promise<void>;
  roles(): Promise<JsonObject>;
  role(name: string): Promise<JsonObject>;
  putRole(principal: Principal, name: string, body: JsonObject): Promise<'created' | 'updated'>;
  deleteRole(principal: Principal, name: string): Promise<void>;
  mappings(): Promise<JsonObject>;
  mapping(role: string): Promise<JsonObject>;
  putMapping(principal: Principal, role: string, body: JsonObject): Promise<'created' | 'updated'>;
  deleteMapping(principal: Principal, role: string): Promise<void>;
}

export interface ApiKeys {
  /** The only time the key itself is given out. */
  create(principal: Principal, body: JsonObject): Promise<JsonObject>;
  /** Own keys; all for an administrator. */
  list(principal: Principal): Promise<JsonObject>;
  revoke(principal: Principal, id: string): Promise<JsonObject>;
}
