import { expect, it } from 'vitest';
import { createApiKeyStore } from '../../src/store/api-keys.ts';
import { createIdentityStore, type IdentityContent, type UserRow } from '../../src/store/identity.ts';
import { createSignInFailureStore } from '../../src/store/sign-in-failures.ts';
import { createClock } from '../support/clock.ts';
import { onEachEngine } from '../support/databases.ts';

const ANN: UserRow = {
  name: 'ann',
  passwordHash: 'h1',
  backendRoles: ['staff', 'größe'],
  roles: ['ml_read_access'],
  attributes: { desk: '7' },
  description: 'somebody',
  disabled: false,
};
const KEY = { id: 'k1', name: 'ci', secretHash: 'aa', owner: 'user:ann', ownerName: 'ann', backendRoles: [] };

onEachEngine('users', (database) => {
  it('are created, replaced as a whole, and deleted', async () => {
    const store = createIdentityStore(database());
    expect(await store.anyUser()).toBe(false);
    expect(await store.putUser(ANN)).toBe('created');
    expect(await store.user('ann')).toEqual(ANN);
    const { description: _gone, ...rest } = ANN;
    const changed = { ...rest, passwordHash: 'h2', backendRoles: [], disabled: true };
    expect(await store.putUser(changed)).toBe('updated');
    expect(await store.user('ann')).toEqual(changed);
    await store.putUser({ ...ANN, name: 'Ann' });
    expect((await store.users()).map(({ name }) => name).sort()).toEqual(['Ann', 'ann']);
    expect(await store.deleteUser('ann')).toBe(true);
    expect(await store.deleteUser('ann')).toBe(false);
    expect(await store.user('ann')).toBeUndefined();
    expect(await store.anyUser()).toBe(true);
  });

  it('are created as the first once, whoever asks at the same time', async () => {
    const store = createIdentityStore(database());
    const names = ['a', 'b', 'c', 'd'];
    const written = await Promise.all(
      names.map((name) => store.putUser({ ...ANN, name }, { onlyIf: ({ users }) => users.length === 0 })),
    );
    expect(written.filter((outcome) => outcome === 'created')).toHaveLength(1);
    expect(await store.users()).toHaveLength(1);
  });

  it('take their keys with them', async () => {
    const keys = createApiKeyStore(database());
    const store = createIdentityStore(database());
    await store.putUser(ANN);
    await keys.insert(KEY);
    await keys.insert({ ...KEY, id: 'k2', owner: 'user:bob' });
    await store.deleteUser('ann');
    expect((await keys.get('k1'))?.revokedTime).toBeGreaterThan(0);
    expect((await keys.get('k2'))?.revokedTime).toBeUndefined();
  });
});

onEachEngine('the revision of identity', (database) => {
  it('moves with every change and with nothing else', async () => {
    const store = createIdentityStore(database());
    const keys = createApiKeyStore(database());
    const failures = createSignInFailureStore(database());
    const seen = [await store.revision()];
    const changes: (() => Promise<unknown>)[] = [
      () => store.putUser(ANN),
      () => keys.insert(KEY),
      () => keys.revoke('k1'),
      () => store.putRole({ name: 'r', body: {} }),
      () => store.putMapping({ role: 'r', users: [], backendRoles: [] }),
      () => store.deleteMapping('r'),
      () => store.deleteRole('r'),
      () => store.deleteUser('ann'),
    ];
    for (const change of changes) {
      await change();
      seen.push(await store.revision());
    }
    expect(seen).toEqual([-1, 0, 1, 2, 3, 4, 5, 6, 7]);
    await keys.touch('k1');
    await failures.save('peer:x', { failures: 1, lastTime: 1 });
    expect(await store.revision()).toBe(7);
  });
});

onEachEngine('API keys', (database) => {
  it('keep what they were made with; absent stays absent', async () => {
    const clock = createClock();
    const keys = createApiKeyStore(database(), clock);
    expect(await keys.any()).toBe(false);
    const made = await keys.insert(KEY);
    expect(made).toEqual({ ...KEY, createTime: clock.now() });
    expect(await keys.get('k1')).toEqual(made);
    clock.advance(5);
    const full = { ...KEY, id: 'k2', roles: ['r'], scope: ['agent:*'], expiresTime: clock.now() + 1 };
    await keys.insert(full);
    expect(await keys.get('k2')).toEqual({ ...full, createTime: clock.now() });
    await keys.insert({ ...KEY, id: 'k3', owner: 'user:bob' });
    expect((await keys.list('user:ann')).map(({ id }) => id)).toEqual(['k2', 'k1']);
    expect(await keys.list()).toHaveLength(3);
    expect(await keys.get('nope')).toBeUndefined();
  });

  it('remember when they were used and the first time they were revoked', async () => {
    const clock = createClock();
    const keys = createApiKeyStore(database(), clock);
    await keys.insert(KEY);
    clock.advance(1000);
    await keys.touch('k1');
    const used = clock.now();
    expect(await keys.any()).toBe(true);
    expect(await keys.revoke('k1')).toBe(true);
    clock.advance(1000);
    expect(await keys.revoke('k1')).toBe(true);
    expect(await keys.revoke('nope')).toBe(false);
    expect(await keys.get('k1')).toMatchObject({ lastUsedTime: used, revokedTime: used });
    expect(await keys.any()).toBe(false);
  });
});

onEachEngine('roles and mappings', (database) => {
  it('are created, replaced and deleted, each by itself', async () => {
    const store = createIdentityStore(database());
    const body = { cluster_permissions: ['agent:*'], description: '🦉' };
    expect(await store.putRole({ name: 'b', body: {} })).toBe('created');
    expect(await store.putRole({ name: 'a', body })).toBe('created');
    expect(await store.putRole({ name: 'b', body })).toBe('updated');
    expect(await store.roles()).toEqual([
      { name: 'a', body },
      { name: 'b', body },
    ]);
    expect(await store.putMapping({ role: 'a', users: ['ann'], backendRoles: ['x'], description: 'd' })).toBe(
      'created',
    );
    expect(await store.putMapping({ role: 'a', users: [], backendRoles: ['y'] })).toBe('updated');
    expect(await store.mappings()).toEqual([{ role: 'a', users: [], backendRoles: ['y'] }]);
    expect([await store.deleteMapping('a'), await store.deleteMapping('a')]).toEqual([true, false]);
    expect([await store.deleteRole('a'), await store.deleteRole('a')]).toEqual([true, false]);
  });

  it('a role that goes takes its mapping along and leaves its holders', async () => {
    const store = createIdentityStore(database());
    const keys = createApiKeyStore(database());
    await store.putRole({ name: 'a', body: {} });
    await store.putMapping({ role: 'a', users: ['eve'], backendRoles: [] });
    await store.putUser({ ...ANN, roles: ['a', 'ml_read_access'] });
    await keys.insert({ ...KEY, roles: ['a'] });
    expect(await store.deleteRole('a')).toBe(true);
    expect(await store.mappings()).toEqual([]);
    expect((await store.user('ann'))?.roles).toEqual(['ml_read_access']);
    expect((await keys.get('k1'))?.roles).toEqual([]);
  });

  it('a change that is refused leaves everything as it was', async () => {
    const store = createIdentityStore(database());
    await store.putUser(ANN);
    const seen: number[] = [];
    const guard = (before: IdentityContent, after: IdentityContent): void => {
      seen.push(before.users.length, after.users.length);
      throw new Error('no');
    };
    await expect(store.deleteUser('ann', { guard })).rejects.toThrow('no');
    expect(seen).toEqual([1, 0]);
    expect(await store.user('ann')).toEqual(ANN);
  });
});

onEachEngine('failed sign-ins', (database) => {
  it('are kept by subject, replaced and forgotten', async () => {
    const store = createSignInFailureStore(database());
    expect(await store.get('name:ann')).toBeUndefined();
    await store.save('name:ann', { failures: 3, lastTime: 1000 });
    await store.save('name:ann', { failures: 4, lastTime: 2000 });
    await store.save('peer:10.0.0.1', { failures: 9, lastTime: 3000 });
    expect(await store.get('name:ann')).toEqual({ failures: 4, lastTime: 2000 });
    await store.forgetBefore(3000);
    expect(await store.get('name:ann')).toBeUndefined();
    await store.forget('peer:10.0.0.1');
    expect(await store.get('peer:10.0.0.1')).toBeUndefined();
  });
});
