import type { JsonObject } from '../json.ts';
import type { Access } from './access.ts';
import type { Principal } from './principal.ts';

export type AccessMode = 'public' | 'private' | 'restricted';

/** How a connector or a model group is shared, as its document keeps it; all absent: from before access control. */
export interface Ownership {
  /** The owner as the API shows it: `{name, backend_roles, roles, custom_attribute_names}`. */
  readonly owner?: JsonObject;
  /** Who it is, whatever its name: `ownerId` of the principal. Never shown. */
  readonly owner_id?: string;
  readonly access?: AccessMode;
  /** Only where `access` is `restricted`. */
  readonly backend_roles?: readonly string[];
}

/** What of a principal decides whether a record is shared with it. */
export type Viewer = Pick<Principal, 'id' | 'owner' | 'backendRoles'> & { readonly access: Pick<Access, 'admin'> };

/** Pure rules of access control (contract: connectors, models, model groups). */
export interface OwnershipRules {
  /** Members to store for a new record, from what the body asks. @throws INVALID_ARGUMENT with the documented texts */
  forNew(principal: Principal, body: JsonObject): Ownership;
  /** Members to store after an update. @throws INVALID_ARGUMENT, FORBIDDEN */
  forUpdate(principal: Principal, current: Ownership, body: JsonObject): Ownership;
  /** Whether the principal may see and use the record. */
  visible(principal: Viewer, record: Ownership): boolean;
  /** Whether it may change or delete it: its owner, or an administrator. */
  owned(principal: Viewer, record: Ownership): boolean;
  /** The members that a reader of the record is shown. */
  shown(record: Ownership): JsonObject;
}

/** The members of a stored document that say whose it is; the store keeps them as the rules made them. */
export function ownershipOf({ owner, owner_id, access, backend_roles }: JsonObject): Ownership {
  return {
    ...(owner === undefined ? {} : { owner: owner as JsonObject }),
    ...(owner_id === undefined ? {} : { owner_id: String(owner_id) }),
    ...(access === undefined ? {} : { access: access as AccessMode }),
    ...(backend_roles === undefined ? {} : { backend_roles: backend_roles as string[] }),
  };
}

/** A stored document with these members of ownership in place of those it has. */
export function withOwnership(document: JsonObject, ownership: Ownership): JsonObject {
  const { owner: _owner, owner_id: _ownerId, access: _access, backend_roles: _roles, ...rest } = document;
  return { ...rest, ...(ownership as JsonObject) };
}

/** Who the records of a principal belong to. */
export function ownerId({ owner, id }: Pick<Principal, 'id' | 'owner'>): string {
  return owner ?? id;
}
