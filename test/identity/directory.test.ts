import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Principal } from '../../src/identity/principal.ts';
import { OPEN_PRINCIPAL, STATIC_KEY_PRINCIPAL } from '../../src/identity/principals.ts';
import type { JsonObject } from '../../src/json.ts';
import { basic, countingHasher, startIdentity, type TestIdentity } from '../support/identity.ts';

const PASSWORD = 'correct horse';
const root = STATIC_KEY_PRINCIPAL;
let identity: TestIdentity;
beforeEach(async () => {
  identity = await startIdentity({ hasher: countingHasher(), staticKey: 'key' });
});
afterEach(() => identity.close());

const put = (name: string, body: JsonObject = {}, by: Principal = root) =>
  identity.directory.putUser(by, name, { password: PASSWORD, ...body });

async function as(name: string): Promise<Principal> {
  const signIn = await identity.authenticator.signIn({ authorization: basic(name, PASSWORD), peer: 'p' });
  if (!signIn.ok) throw new Error(signIn.reason);
  return signIn.principal;
}

describe('users', () => {
  it('are shown as the security API shows them, without any hash', async () => {
    const attributes = { desk: '7' };
    const body = {
      backend_roles: ['staff'],
      opendistro_security_roles: ['ml_read_access'],
      attributes,
      description: 'd',
    };
    expect(await put('ann', body)).toBe('created');
    const shown = { hash: '', reserved: false, hidden: false, ...body, static: false };
    expect(await identity.directory.user('ann')).toEqual({ ann: shown });
    expect(await identity.directory.users()).toEqual({ ann: shown });
    expect(JSON.stringify(await identity.directory.users())).not.toContain('plain:');
  });

  it('keep their password when none is given, and everything else is replaced', async () => {
    await put('ann', { backend_roles: ['staff'], description: 'd' });
    expect(await identity.directory.putUser(root, 'ann', { backend_roles: ['sales'] })).toBe('updated');
    expect(await as('ann')).toMatchObject({ backendRoles: ['sales'] });
    expect(await identity.directory.user('ann')).not.toHaveProperty('ann.description');
  });

  it.each<[string, JsonObject, RegExp]>([
    ['ann', {}, /^Request body required for this action\.$/],
    ['ann', { backend_roles: [] }, /^Please specify 'password' when creating a new internal user\.$/],
    ['ann', { password: 'short' }, /^Password is too short$/],
    ['ann', { password: 12345678 }, /\[password\] String expected/],
    ['ann', { password: PASSWORD, hash: '$2y$12$x' }, /^\[hash\] is not taken/],
    ['ann', { password: PASSWORD, role: 'x' }, /\[role\] must be one of \[password, /],
    ['ann', { password: PASSWORD, backend_roles: 'staff' }, /\[backend_roles\] Array expected/],
    ['ann', { password: PASSWORD, backend_roles: [''] }, /`null` or blank values/],
    ['ann', { password: PASSWORD, backend_roles: [null] }, /`null` or blank values/],
    ['ann', { password: PASSWORD, attributes: { desk: 7 } }, /\[attributes\.desk\] must be a string/],
    ['ann', { password: PASSWORD, attributes: [] }, /\[attributes\] Object expected/],
    ['ann', { password: PASSWORD, opendistro_security_roles: ['nope'] }, /^role 'nope' not found\.$/],
    ['a:b', { password: PASSWORD }, /restricted character/],
    [' ann', { password: PASSWORD }, /must not begin or end with a space/],
    ['a\nb', { password: PASSWORD }, /control characters/],
    ['a'.repeat(513), { password: PASSWORD }, /exceeds maximum length/],
  ])('%s with %j are refused', async (name, body, text) => {
    await expect(identity.directory.putUser(root, name, body)).rejects.toThrow(text);
    expect(await identity.directory.users()).toEqual({});
  });

  it('that are not there are 404', async () => {
    const missing = { statusCode: 404, message: "user 'ann' not found." };
    await expect(identity.directory.user('ann')).rejects.toMatchObject(missing);
    await expect(identity.directory.deleteUser(root, 'ann')).rejects.toMatchObject(missing);
    await expect(identity.directory.user('__proto__')).rejects.toMatchObject({ statusCode: 404 });
  });

  it('the first of an open server has to be an administrator', async () => {
    await expect(put('ann', {}, OPEN_PRINCIPAL)).rejects.toThrow(
      /has to be an administrator.*"opendistro_security_roles": \["all_access"\]/,
    );
    expect(await put('ann', { opendistro_security_roles: ['all_access'] }, OPEN_PRINCIPAL)).toBe('created');
  });
});

describe('roles and mappings', () => {
  it('take effect at once, by name and by backend role', async () => {
    await put('ann', { backend_roles: ['staff'] });
    expect((await as('ann')).roles).toEqual([]);
    const body = { cluster_permissions: ['cluster:admin/opensearch/ml/execute'], denied_tools: [{ tool: 'rm' }] };
    expect(await identity.directory.putRole(root, 'runner', body)).toBe('created');
    expect(await identity.directory.putMapping(root, 'runner', { backend_roles: ['staff'] })).toBe('created');
    expect(await identity.directory.putMapping(root, 'ml_read_access', { users: ['ann'] })).toBe('created');
    const ann = await as('ann');
    expect(ann.roles).toEqual(['ml_read_access', 'runner']);
    expect(ann.access.allows('agent:execute')).toBe(true);
    expect(ann.access.deniesTool('any', 'rm')).toBe(true);
    await identity.directory.deleteRole(root, 'runner');
    await identity.directory.deleteMapping(root, 'ml_read_access');
    expect((await as('ann')).roles).toEqual([]);
  });

  it('are shown as the security API shows them', async () => {
    const role = { description: 'd', cluster_permissions: ['agent:*'], index_permissions: [{ index_patterns: ['*'] }] };
    await identity.directory.putRole(root, 'r', role);
    await identity.directory.putMapping(root, 'r', { users: ['ann'], description: 'm' });
    expect(await identity.directory.role('r')).toEqual({
      r: { reserved: false, hidden: false, ...role, tenant_permissions: [], static: false },
    });
    expect(await identity.directory.mapping('r')).toEqual({
      r: {
        hosts: [],
        users: ['ann'],
        reserved: false,
        hidden: false,
        backend_roles: [],
        and_backend_roles: [],
        description: 'm',
      },
    });
    expect(Object.keys(await identity.directory.mappings())).toEqual(['r']);
    expect(await identity.directory.roles()).toMatchObject({
      all_access: { reserved: true, cluster_permissions: ['*'] },
    });
  });

  it('that are built in cannot be changed, only mapped', async () => {
    const reserved = (name: string) => ({ statusCode: 403, message: `Resource '${name}' is reserved.` });
    for (const name of ['all_access', 'ml_full_access', 'ml_read_access', 'tenon_operator', 'tenon_agent_user']) {
      const change = identity.directory.putRole(root, name, { cluster_permissions: [] });
      await expect(change).rejects.toMatchObject(reserved(name));
      await expect(identity.directory.deleteRole(root, name)).rejects.toMatchObject(reserved(name));
      expect(await identity.directory.putMapping(root, name, { users: [] })).toBe('created');
    }
  });

  it.each<[() => Promise<unknown>, RegExp]>([
    [
      () => identity.directory.putRole(root, 'r', { cluster_permissions: 'x' }),
      /\[cluster_permissions\] Array expected/,
    ],
    [() => identity.directory.putRole(root, 'r', { index_permissions: {} }), /\[index_permissions\] Array expected/],
    [() => identity.directory.putRole(root, 'r', { denied_tools: ['x'] }), /\[denied_tools\] Array of objects/],
    [() => identity.directory.putRole(root, 'r', { denied_tools: [{}] }), /\[denied_tools\.tool\] is required/],
    [() => identity.directory.putRole(root, 'r', { denied_tools: [{ tool: '(' }] }), /is not a regular expression/],
    [() => identity.directory.putRole(root, 'r', { denied_tools: [{ tool: 'x', on: 'y' }] }), /\[on\] must be one of/],
    [() => identity.directory.putMapping(root, 'nope', { users: ['a'] }), /^role 'nope' not found\.$/],
    [
      () => identity.directory.putMapping(root, 'all_access', { description: 'x' }),
      /give \[users\] or \[backend_roles\]/,
    ],
    [
      () => identity.directory.putMapping(root, 'all_access', { users: [], hosts: ['h'] }),
      /\[hosts\] is not supported/,
    ],
    [() => identity.directory.deleteMapping(root, 'all_access'), /^rolesmapping 'all_access' not found\.$/],
    [() => identity.directory.mapping('all_access'), /^rolesmapping 'all_access' not found\.$/],
    [() => identity.directory.deleteRole(root, 'nope'), /^role 'nope' not found\.$/],
    [() => identity.directory.role('nope'), /^role 'nope' not found\.$/],
  ])('are refused with a text that says why (%#)', async (attempt, text) => {
    await expect(attempt()).rejects.toThrow(text);
  });
});

describe('a key of fewer roles', () => {
  it('is denied every tool its owner is denied', async () => {
    await identity.directory.putRole(root, 'guarded', { denied_tools: [{ tool: 'rm' }] });
    await put('ann', { opendistro_security_roles: ['guarded', 'ml_read_access'] });
    const made = await identity.apiKeys.create(await as('ann'), { name: 'k', roles: ['ml_read_access'] });
    const signIn = await identity.authenticator.signIn({ authorization: `ApiKey ${made.api_key}`, peer: 'p' });
    expect(signIn).toMatchObject({ ok: true, principal: { roles: ['ml_read_access'] } });
    expect(signIn.ok && signIn.principal.access.deniesTool('any', 'rm')).toBe(true);
    expect(signIn.ok && signIn.principal.access.deniesTool('any', 'ls')).toBe(false);
  });
});

describe('denied tools', () => {
  it('are matched in linear time, and are not without number', async () => {
    await identity.directory.putRole(root, 'r', { denied_tools: [{ tool: '(a+)+b' }] });
    await put('ann', { opendistro_security_roles: ['r'] });
    const { access } = await as('ann');
    expect(access.deniesTool('c', 'a'.repeat(5000))).toBe(false);
    expect(access.deniesTool('c', `${'a'.repeat(5000)}b`)).toBe(true);
    expect(access.deniesTool('c', 'x'.repeat(8193))).toBe(true);
    const many = Array.from({ length: 201 }, () => ({ tool: 'x' }));
    await expect(identity.directory.putRole(root, 'r', { denied_tools: many })).rejects.toThrow(
      /more than 200 entries/,
    );
  });
});

describe('a role that was deleted', () => {
  it('gives nothing to its former holders when it is made again, and keeps no password from being changed', async () => {
    const body = { cluster_permissions: ['agent:read'] };
    await identity.directory.putRole(root, 'r', body);
    await identity.directory.putMapping(root, 'r', { users: ['eve'] });
    await put('ann', { opendistro_security_roles: ['r'] });
    await put('eve');
    await identity.directory.deleteRole(root, 'r');
    const { ann } = await identity.directory.user('ann');
    const { opendistro_security_roles: held } = ann as JsonObject;
    expect(await put('ann', { opendistro_security_roles: held as string[] })).toBe('updated');
    await identity.directory.putRole(root, 'r', body);
    for (const name of ['ann', 'eve']) expect((await as(name)).access.allows('agent:read')).toBe(false);
  });
});

describe('the last administrator', () => {
  const conflict = { statusCode: 409, message: expect.stringMatching(/^No enabled user would have all_access/) };
  const admin = { opendistro_security_roles: ['all_access'] };
  const off = { attributes: { enabled: 'false' } };

  it('cannot be deleted, disabled or demoted while there are users, except by the operator', async () => {
    await put('root', admin);
    await put('ann');
    const { directory } = identity;
    const self = await as('root');
    await expect(directory.deleteUser(self, 'root')).rejects.toMatchObject(conflict);
    await expect(put('root', { ...admin, ...off }, self)).rejects.toMatchObject(conflict);
    await expect(put('root', {}, self)).rejects.toMatchObject(conflict);
    expect((await as('root')).access.admin).toBe(true);
    await put('second', admin, self);
    await directory.deleteUser(self, 'root');
    await directory.deleteUser(root, 'second');
    expect(Object.keys(await directory.users())).toEqual(['ann']);
  });

  it('cannot lose the role, or the mapping, that makes it one', async () => {
    await identity.directory.putRole(root, 'boss', { cluster_permissions: ['*'] });
    await identity.directory.putMapping(root, 'boss', { users: ['root'] });
    await put('root');
    const self = await as('root');
    const { directory } = identity;
    for (const change of [
      () => directory.deleteMapping(self, 'boss'),
      () => directory.putMapping(self, 'boss', { users: [] }),
      () => directory.deleteRole(self, 'boss'),
      () => directory.putRole(self, 'boss', { cluster_permissions: ['agent:*'] }),
    ])
      await expect(change()).rejects.toMatchObject(conflict);
    expect((await as('root')).access.admin).toBe(true);
  });

  it('of an open server cannot start disabled', async () => {
    await expect(put('ann', { ...admin, ...off }, OPEN_PRINCIPAL)).rejects.toThrow(/who is not disabled/);
  });

  it('is made from the environment when no enabled user is one, and never out of a user there is', async () => {
    await put('ann', { ...admin, ...off });
    await identity.again({ firstAdmin: { name: 'ann', password: 'another one' } });
    expect(identity.lines.join('')).toContain('user ann is there already');
    expect(await identity.directory.user('ann')).toMatchObject({ ann: off });
    await identity.again({ firstAdmin: { name: 'rescue', password: PASSWORD } });
    identity = Object.assign(identity, await identity.again());
    expect((await as('rescue')).access.admin).toBe(true);
  });
});

describe('whoever administers users without being an administrator', () => {
  let helper: Principal;
  beforeEach(async () => {
    await put('helper', { opendistro_security_roles: ['security_rest_api_access', 'ml_read_access'] });
    await put('root', { opendistro_security_roles: ['all_access'] });
    await identity.directory.putRole(root, 'guarded', { denied_tools: [{ tool: '.*' }] });
    await put('watched', { opendistro_security_roles: ['guarded'] });
    helper = await as('helper');
  });

  it('can make users and roles that may do no more', async () => {
    expect(await put('ann', { opendistro_security_roles: ['ml_read_access'] }, helper)).toBe('created');
    expect(await identity.directory.putRole(helper, 'r', { cluster_permissions: ['agent:read'] })).toBe('created');
    expect(await identity.directory.putMapping(helper, 'r', { users: ['ann'] })).toBe('created');
    await identity.directory.deleteMapping(helper, 'r');
    await identity.directory.deleteRole(helper, 'r');
    await put('ann', { backend_roles: ['staff'] });
    expect(await put('ann', { backend_roles: ['staff'] }, helper)).toBe('updated');
    await identity.directory.deleteUser(helper, 'ann');
  });

  it.each<[string, () => Promise<unknown>]>([
    ['an administrator', () => put('x', { opendistro_security_roles: ['all_access'] }, helper)],
    ['itself an administrator', () => put('helper', { opendistro_security_roles: ['all_access'] }, helper)],
    ['the password of an administrator', () => put('root', { opendistro_security_roles: [] }, helper)],
    ['an administrator go', () => identity.directory.deleteUser(helper, 'root')],
    ['a role of everything', () => identity.directory.putRole(helper, 'r', { cluster_permissions: ['*'] })],
    ['a role of more', () => identity.directory.putRole(helper, 'r', { cluster_permissions: ['agent:*'] })],
    ['a mapping to more', () => identity.directory.putMapping(helper, 'ml_full_access', { users: ['helper'] })],
    [
      'a role of what means nothing yet',
      () => identity.directory.putRole(helper, 'r', { cluster_permissions: ['x:y'] }),
    ],
    ['a user of a backend role it has not', () => put('x', { backend_roles: ['finance'] }, helper)],
    ['a restriction go', () => identity.directory.deleteRole(helper, 'guarded')],
    ['a restricted user free', () => put('watched', {}, helper)],
  ])('cannot make %s', async (_what, attempt) => {
    await expect(attempt()).rejects.toMatchObject({
      statusCode: 403,
      message: expect.stringMatching(/^Access denied/),
    });
    expect((await as('root')).access.admin).toBe(true);
  });
});

it('every change is audited', async () => {
  await put('ann');
  await identity.directory.putUser(root, 'ann', { description: 'x' });
  await identity.directory.putRole(root, 'r', { description: 'x' });
  await identity.directory.putRole(root, 'r', { description: 'y' });
  await identity.directory.putMapping(root, 'r', { users: [] });
  await identity.directory.putMapping(root, 'r', { users: ['ann'] });
  await identity.directory.deleteMapping(root, 'r');
  await identity.directory.deleteRole(root, 'r');
  await identity.directory.deleteUser(root, 'ann');
  expect(
    identity.audited.map(({ principal, action, outcome, detail }) => [principal, action, outcome, detail]),
  ).toEqual([
    ['api_key', 'user.create', 'ok', 'ann'],
    ['api_key', 'user.update', 'ok', 'ann'],
    ['api_key', 'role.create', 'ok', 'r'],
    ['api_key', 'role.update', 'ok', 'r'],
    ['api_key', 'role_mapping.create', 'ok', 'r'],
    ['api_key', 'role_mapping.update', 'ok', 'r'],
    ['api_key', 'role_mapping.delete', 'ok', 'r'],
    ['api_key', 'role.delete', 'ok', 'r'],
    ['api_key', 'user.delete', 'ok', 'ann'],
  ]);
});
