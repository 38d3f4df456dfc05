import { FORBIDDEN, INVALID_ARGUMENT } from '../errors.ts';
import type { JsonObject } from '../json.ts';
import { type AccessMode, type Ownership, type OwnershipRules, ownerId, type Viewer } from './ownership.ts';
import type { Principal } from './principal.ts';

export type OwnedNoun = 'connector' | 'model_group';

export interface OwnershipRulesDeps {
  /** The setting that switches access control of this noun; asked at each decision. */
  readonly enabled: () => boolean;
  readonly noun: OwnedNoun;
}

const MODES: readonly AccessMode[] = ['public', 'private', 'restricted'];
const MEMBERS = ['access_mode', 'backend_roles', 'add_all_backend_roles'];

/** Refusals as clients know them. */
const TEXTS = {
  connector: {
    disabled:
      'You cannot specify connector access control parameters because the Security plugin or connector access control is disabled on your cluster.',
    onlyRestricted: 'You can specify backend roles only for a connector with the restricted access mode.',
    bothForms: "You can't specify backend roles and add all backend roles to true at same time.",
    adminAddsAll: "Admin can't add all backend roles",
    noRoleOfOnesOwn: 'You must have at least one backend role to create a connector.',
    noneGiven: 'You must specify at least one backend role or make the connector public/private for registering it.',
    othersRoles: "You don't have the backend roles specified.",
  },
  model_group: {
    disabled:
      'You cannot specify model access control parameters because the Security plugin or model access control is disabled on your cluster.',
    onlyRestricted: 'You can specify backend roles only for a model group with the restricted access mode.',
    bothForms: 'You cannot specify backend roles and add all backend roles at the same time.',
    adminAddsAll: 'Admin users cannot add all backend roles to a model group.',
    noRoleOfOnesOwn: 'You must have at least one backend role to register a restricted model group.',
    noneGiven:
      'You must specify one or more backend roles or add all backend roles to register a restricted model group.',
    othersRoles: "You don't have the backend roles specified.",
  },
} as const;

/** Whether a body says anything about access. `null` counts as absent. */
export function givesAccess(body: JsonObject): boolean {
  return MEMBERS.some((name) => (body[name] ?? null) !== null);
}

/**
 * The rules for one noun. Switched off: everything is visible to all and owned by all, and asking for access is refused.
 * On: an administrator sees and changes everything; a record without an owner (made before, or declared by the operator)
 * is visible to all and changed by administrators only.
 */
export function createOwnershipRules({ enabled, noun }: OwnershipRulesDeps): OwnershipRules {
  const texts = TEXTS[noun];

  function granted(
    principal: Principal,
    body: JsonObject,
    current: Ownership,
  ): Pick<Ownership, 'access' | 'backend_roles'> {
    const roles = rolesOf(body);
    const all = flagOf(body);
    if (principal.access.admin && all) throw new INVALID_ARGUMENT(texts.adminAddsAll);
    if (roles.length > 0 && all) throw new INVALID_ARGUMENT(texts.bothForms);
    const access = modeOf(body) ?? (roles.length > 0 || all ? 'restricted' : (current.access ?? 'private'));
    if (access !== 'restricted') {
      if (roles.length > 0 || all) throw new INVALID_ARGUMENT(texts.onlyRestricted);
      return { access };
    }
    const own = principal.backendRoles;
    if (all) {
      if (own.length === 0) throw new INVALID_ARGUMENT(texts.noRoleOfOnesOwn);
      return { access, backend_roles: [...own] };
    }
    const asked = roles.length === 0 && !isGiven(body.backend_roles) ? (current.backend_roles ?? []) : roles;
    if (!principal.access.admin && noun === 'model_group' && own.length === 0) {
      throw new INVALID_ARGUMENT(texts.noRoleOfOnesOwn);
    }
    if (asked.length === 0) throw new INVALID_ARGUMENT(texts.noneGiven);
    if (!principal.access.admin && !roles.every((role) => own.includes(role))) {
      throw new INVALID_ARGUMENT(texts.othersRoles);
    }
    return { access, backend_roles: [...new Set(asked)] };
  }

  function refuseWhileOff(body: JsonObject): void {
    if (!enabled() && givesAccess(body)) throw new INVALID_ARGUMENT(texts.disabled);
  }

  function owned(principal: Viewer, record: Ownership): boolean {
    if (!enabled() || principal.access.admin) return true;
    return record.owner_id !== undefined && record.owner_id === ownerId(principal);
  }

  return {
    owned,

    forNew(principal, body) {
      refuseWhileOff(body);
      return enabled() ? { ...ownedBy(principal), ...granted(principal, body, {}) } : {};
    },

    forUpdate(principal, current, body) {
      refuseWhileOff(body);
      if (!givesAccess(body)) return current;
      if (!owned(principal, current)) throw new FORBIDDEN('Only owner or admin can update access control data.');
      // A record nobody owns would stay open whatever is asked: who restricts it becomes its owner.
      const { owner, owner_id } = current;
      const held = owner === undefined || owner_id === undefined ? ownedBy(principal) : { owner, owner_id };
      return { ...held, ...granted(principal, body, current) };
    },

    visible(principal, record) {
      if (record.owner_id === undefined || owned(principal, record)) return true;
      if (record.access === 'public') return true;
      if (record.access !== 'restricted') return false;
      return (record.backend_roles ?? []).some((role) => principal.backendRoles.includes(role));
    },

    shown({ owner, access, backend_roles }) {
      if (!enabled() || owner === undefined || access === undefined) return {};
      return { ...(backend_roles === undefined ? {} : { backend_roles: [...backend_roles] }), owner, access };
    },
  };
}

function ownedBy(principal: Principal): Required<Pick<Ownership, 'owner' | 'owner_id'>> {
  const { name, backendRoles, roles } = principal;
  return {
    owner: { name, backend_roles: [...backendRoles], roles: [...roles], custom_attribute_names: [] },
    owner_id: ownerId(principal),
  };
}

function isGiven(value: JsonObject[string] | undefined): boolean {
  return value !== undefined && value !== null;
}

function modeOf({ access_mode: given }: JsonObject): AccessMode | undefined {
  if (!isGiven(given)) return undefined;
  const mode = MODES.find((known) => known === given);
  if (mode === undefined) throw new INVALID_ARGUMENT(`access_mode must be one of [${MODES.join(', ')}].`);
  return mode;
}

function rolesOf({ backend_roles: given }: JsonObject): string[] {
  if (given === undefined || given === null) return [];
  const isRole = (role: unknown): role is string => typeof role === 'string' && role.trim() !== '';
  if (Array.isArray(given) && given.every(isRole)) return given;
  throw new INVALID_ARGUMENT('backend_roles must be an array of names of backend roles.');
}

function flagOf({ add_all_backend_roles: given }: JsonObject): boolean {
  if (given === undefined || given === null) return false;
  if (typeof given === 'boolean') return given;
  throw new INVALID_ARGUMENT('add_all_backend_roles must be true or false.');
}
