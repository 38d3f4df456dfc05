import { describe, expect, it } from 'vitest';
import { type Ownership, ownerId } from '../../src/identity/ownership.ts';
import { createOwnershipRules, type OwnedNoun } from '../../src/identity/ownership-rules.ts';
import type { Principal } from '../../src/identity/principal.ts';
import { STATIC_KEY_PRINCIPAL } from '../../src/identity/principals.ts';
import type { JsonObject } from '../../src/json.ts';
import { userPrincipal } from '../support/principals.ts';

const ann = userPrincipal('ann', { backendRoles: ['it', 'hr'], roles: ['ml_full_access'] });
const bob = userPrincipal('bob', { backendRoles: ['it'] });
const eve = userPrincipal('eve');
const root = userPrincipal('root', { backendRoles: ['ops'], access: { admin: true } });
const annsKey: Principal = { ...ann, id: 'key:1', kind: 'api_key', owner: 'user:ann' };
const namesake: Principal = { ...ann, id: 'token:https://id.example|ann', kind: 'token', backendRoles: [] };

const rules = (noun: OwnedNoun, on = true) => createOwnershipRules({ enabled: () => on, noun });
const connector = rules('connector');
const group = rules('model_group');

const ANN = { name: 'ann', backend_roles: ['it', 'hr'], roles: ['ml_full_access'], custom_attribute_names: [] };
const owned = { owner: ANN, owner_id: 'user:ann' };
const records: Record<string, Ownership> = {
  private: { ...owned, access: 'private' },
  public: { ...owned, access: 'public' },
  'restricted to it': { ...owned, access: 'restricted', backend_roles: ['it', 'x'] },
  'restricted to hr': { ...owned, access: 'restricted', backend_roles: ['hr'] },
  unowned: {},
};

function thrown(work: () => unknown): { statusCode: number; message: string } {
  try {
    work();
  } catch (error) {
    const { statusCode, message } = error as { statusCode: number; message: string };
    return { statusCode, message };
  }
  throw new Error('nothing was thrown');
}

describe('who sees a record', () => {
  it.each([
    ['private', { ann: true, annsKey: true, namesake: false, bob: false, eve: false, root: true, key: true }],
    ['public', { ann: true, annsKey: true, namesake: true, bob: true, eve: true, root: true, key: true }],
    ['restricted to it', { ann: true, annsKey: true, namesake: false, bob: true, eve: false, root: true, key: true }],
    ['restricted to hr', { ann: true, annsKey: true, namesake: false, bob: false, eve: false, root: true, key: true }],
    ['unowned', { ann: true, annsKey: true, namesake: true, bob: true, eve: true, root: true, key: true }],
  ])('%s', (name, expected) => {
    const callers = { ann, annsKey, namesake, bob, eve, root, key: STATIC_KEY_PRINCIPAL };
    const record = records[name] ?? {};
    const seen = Object.entries(callers).map(([caller, principal]) => [caller, connector.visible(principal, record)]);
    expect(Object.fromEntries(seen)).toEqual(expected);
  });

  it('changes with the groups of the caller, and an owner without them still sees its own', () => {
    const record: Ownership = { ...owned, access: 'restricted', backend_roles: ['hr'] };
    expect(connector.visible({ ...bob, backendRoles: ['hr'] }, record)).toBe(true);
    expect(connector.visible({ ...ann, backendRoles: [] }, record)).toBe(true);
  });

  it('is everybody while access control is off', () => {
    const off = rules('connector', false);
    for (const record of Object.values(records)) expect(off.visible(eve, record)).toBe(true);
  });
});

describe('who changes a record', () => {
  it.each(Object.keys(records))('%s', (name) => {
    const record = records[name] ?? {};
    const isOwned = name !== 'unowned';
    expect([ann, annsKey, namesake, bob, eve, root, STATIC_KEY_PRINCIPAL].map((p) => group.owned(p, record))).toEqual([
      isOwned,
      isOwned,
      false,
      false,
      false,
      true,
      true,
    ]);
  });

  it('is everybody while access control is off', () => {
    expect(rules('model_group', false).owned(eve, records.private ?? {})).toBe(true);
  });
});

describe('a new record', () => {
  it.each<[string, Principal, JsonObject, JsonObject]>([
    ['is private', ann, {}, { access: 'private' }],
    ['is what it asks to be', ann, { access_mode: 'public' }, { access: 'public' }],
    ['may have empty lists', ann, { access_mode: 'private', backend_roles: [] }, { access: 'private' }],
    ['is restricted by naming roles', ann, { backend_roles: ['it'] }, { access: 'restricted', backend_roles: ['it'] }],
    [
      'is restricted to all roles',
      ann,
      { add_all_backend_roles: true },
      { access: 'restricted', backend_roles: ['it', 'hr'] },
    ],
    ['names a role once', ann, { backend_roles: ['it', 'it'] }, { access: 'restricted', backend_roles: ['it'] }],
    [
      'is restricted by an administrator to any roles',
      root,
      { access_mode: 'restricted', backend_roles: ['other'] },
      { access: 'restricted', backend_roles: ['other'] },
    ],
  ])('%s', (_name, principal, body, expected) => {
    for (const each of [connector, group]) {
      const { owner, owner_id, ...access } = each.forNew(principal, body);
      expect(access).toEqual(expected);
      expect(owner).toMatchObject({ name: principal.name, backend_roles: [...principal.backendRoles] });
      expect(owner_id).toBe(principal.id);
    }
  });

  it('belongs to the user whose key made it', () => {
    expect(ownerId(annsKey)).toBe('user:ann');
    expect(connector.forNew(annsKey, {})).toEqual({ ...owned, access: 'private' });
  });

  it('has no owner while access control is off', () => {
    expect(rules('connector', false).forNew(ann, {})).toEqual({});
  });
});

const BOTH = { backend_roles: ['it'], add_all_backend_roles: true };
describe('what cannot be asked for', () => {
  it.each<[string, Principal, JsonObject, string, string]>([
    [
      'roles for a public record',
      ann,
      { access_mode: 'public', backend_roles: ['it'] },
      'You can specify backend roles only for a connector with the restricted access mode.',
      'You can specify backend roles only for a model group with the restricted access mode.',
    ],
    [
      'all roles for a private record',
      ann,
      { access_mode: 'private', add_all_backend_roles: true },
      'You can specify backend roles only for a connector with the restricted access mode.',
      'You can specify backend roles only for a model group with the restricted access mode.',
    ],
    [
      'some and all roles',
      ann,
      BOTH,
      "You can't specify backend roles and add all backend roles to true at same time.",
      'You cannot specify backend roles and add all backend roles at the same time.',
    ],
    [
      'all roles of an administrator',
      root,
      { access_mode: 'restricted', add_all_backend_roles: true },
      "Admin can't add all backend roles",
      'Admin users cannot add all backend roles to a model group.',
    ],
    [
      'all roles of one who has none',
      eve,
      { add_all_backend_roles: true },
      'You must have at least one backend role to create a connector.',
      'You must have at least one backend role to register a restricted model group.',
    ],
    [
      'no role',
      ann,
      { access_mode: 'restricted' },
      'You must specify at least one backend role or make the connector public/private for registering it.',
      'You must specify one or more backend roles or add all backend roles to register a restricted model group.',
    ],
    [
      "others' roles",
      bob,
      { backend_roles: ['it', 'hr'] },
      "You don't have the backend roles specified.",
      "You don't have the backend roles specified.",
    ],
    [
      'an unknown mode',
      ann,
      { access_mode: 'shared' },
      'access_mode must be one of [public, private, restricted].',
      'access_mode must be one of [public, private, restricted].',
    ],
    [
      'roles that are no list of names',
      ann,
      { backend_roles: 'it' },
      'backend_roles must be an array of names of backend roles.',
      'backend_roles must be an array of names of backend roles.',
    ],
    [
      'an empty name',
      root,
      { backend_roles: ['it', ' '] },
      'backend_roles must be an array of names of backend roles.',
      'backend_roles must be an array of names of backend roles.',
    ],
    [
      'a flag that is none',
      ann,
      { add_all_backend_roles: 'yes' },
      'add_all_backend_roles must be true or false.',
      'add_all_backend_roles must be true or false.',
    ],
  ])('%s', (_name, principal, body, ofConnector, ofGroup) => {
    expect(thrown(() => connector.forNew(principal, body))).toEqual({ statusCode: 400, message: ofConnector });
    expect(thrown(() => group.forNew(principal, body))).toEqual({ statusCode: 400, message: ofGroup });
  });

  it('one who has no role restricts no model group', () => {
    expect(thrown(() => group.forNew(eve, { backend_roles: ['it'] })).message).toBe(
      'You must have at least one backend role to register a restricted model group.',
    );
    expect(thrown(() => connector.forNew(eve, { backend_roles: ['it'] })).message).toBe(
      "You don't have the backend roles specified.",
    );
  });

  it.each([
    ['connector', 'connector'],
    ['model_group', 'model'],
  ] as const)('anything, while access control of a %s is off', (noun, word) => {
    const off = rules(noun, false);
    const message = `You cannot specify ${word} access control parameters because the Security plugin or ${word} access control is disabled on your cluster.`;
    for (const body of [{ access_mode: 'public' }, { backend_roles: ['it'] }, { add_all_backend_roles: false }]) {
      expect(thrown(() => off.forNew(root, body))).toEqual({ statusCode: 400, message });
      expect(thrown(() => off.forUpdate(root, {}, body))).toEqual({ statusCode: 400, message });
    }
    expect(off.forNew(root, { access_mode: null, backend_roles: null, add_all_backend_roles: null })).toEqual({});
  });
});

describe('an update', () => {
  const restricted: Ownership = { ...owned, access: 'restricted', backend_roles: ['hr'] };

  it.each<[string, Ownership, JsonObject, JsonObject]>([
    ['that says nothing keeps everything', restricted, { name: 'x' }, { access: 'restricted', backend_roles: ['hr'] }],
    ['to private drops the roles', restricted, { access_mode: 'private' }, { access: 'private' }],
    [
      'to restricted keeps the roles',
      restricted,
      { access_mode: 'restricted' },
      { access: 'restricted', backend_roles: ['hr'] },
    ],
    [
      'with roles replaces them',
      restricted,
      { backend_roles: ['it'] },
      { access: 'restricted', backend_roles: ['it'] },
    ],
    [
      'with roles restricts',
      { ...owned, access: 'public' },
      { backend_roles: ['it'] },
      { access: 'restricted', backend_roles: ['it'] },
    ],
    [
      'that adds no roles keeps the mode',
      { ...owned, access: 'public' },
      { add_all_backend_roles: false },
      { access: 'public' },
    ],
  ])('%s', (_name, current, body, expected) => {
    expect(connector.forUpdate(ann, current, body)).toEqual({ ...owned, ...expected });
  });

  it('by an administrator leaves the owner', () => {
    expect(connector.forUpdate(root, restricted, { access_mode: 'public' })).toEqual({ ...owned, access: 'public' });
  });

  it('with an empty list of roles does not leave a restricted record without any', () => {
    expect(
      thrown(() => connector.forUpdate(ann, restricted, { backend_roles: [], access_mode: 'restricted' })),
    ).toEqual({
      statusCode: 400,
      message: 'You must specify at least one backend role or make the connector public/private for registering it.',
    });
  });

  it('of access by another is refused, whatever it could see', () => {
    const record: Ownership = { ...owned, access: 'public' };
    expect(thrown(() => group.forUpdate(bob, record, { access_mode: 'private' }))).toEqual({
      statusCode: 403,
      message: 'Only owner or admin can update access control data.',
    });
    expect(thrown(() => group.forUpdate(ann, {}, { access_mode: 'private' })).statusCode).toBe(403);
  });

  it('of a record that nobody owns makes the administrator its owner', () => {
    const after = group.forUpdate(root, {}, { access_mode: 'private' });
    expect(after).toMatchObject({ owner: { name: 'root' }, owner_id: 'user:root', access: 'private' });
    expect(group.visible(ann, after)).toBe(false);
    expect(group.forUpdate(root, {}, { name: 'x' })).toEqual({});
  });
});

describe('what a reader is shown', () => {
  it('is the owner without its id, the mode, and roles where there are some', () => {
    expect(connector.shown({ ...owned, access: 'private' })).toEqual({ owner: ANN, access: 'private' });
    expect(connector.shown({ ...owned, access: 'restricted', backend_roles: ['it'] })).toEqual({
      owner: ANN,
      access: 'restricted',
      backend_roles: ['it'],
    });
  });

  it('is nothing for a record without owner, and nothing while access control is off', () => {
    expect(connector.shown({})).toEqual({});
    expect(rules('connector', false).shown({ ...owned, access: 'private' })).toEqual({});
  });
});
