import { createHash } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Principal } from '../../src/identity/principal.ts';
import { OPEN_PRINCIPAL, STATIC_KEY_PRINCIPAL } from '../../src/identity/principals.ts';
import type { SignIn } from '../../src/identity/types.ts';
import type { JsonObject } from '../../src/json.ts';
import { createApiKeyStore } from '../../src/store/api-keys.ts';
import { createClock } from '../support/clock.ts';
import { basic, countingHasher, startIdentity, type TestIdentity } from '../support/identity.ts';

const PASSWORD = 'correct horse';
const clock = createClock(Date.UTC(2026, 10, 30, 12));
let identity: TestIdentity;
let ann: Principal;

beforeEach(async () => {
  identity = await startIdentity({ hasher: countingHasher(), staticKey: 'key', now: clock.now });
  const roles = { opendistro_security_roles: ['ml_full_access', 'tenon_operator'], backend_roles: ['staff'] };
  await identity.directory.putUser(STATIC_KEY_PRINCIPAL, 'ann', { password: PASSWORD, ...roles });
  await identity.directory.putUser(STATIC_KEY_PRINCIPAL, 'bob', { password: PASSWORD });
  ann = await principalOf(basic('ann', PASSWORD));
});
afterEach(() => identity.close());

const signIn = (authorization: string): Promise<SignIn> => identity.authenticator.signIn({ authorization, peer: 'p' });

async function principalOf(authorization: string): Promise<Principal> {
  const answer = await signIn(authorization);
  if (!answer.ok) throw new Error(answer.reason);
  return answer.principal;
}

async function make(body: JsonObject = {}, by: Principal = ann): Promise<{ id: string; key: string }> {
  const { id, api_key: key } = await identity.apiKeys.create(by, { name: 'ci', ...body });
  return { id: String(id), key: String(key) };
}

describe('an API key', () => {
  it('is given out once and kept as a hash', async () => {
    const made = await identity.apiKeys.create(ann, { name: 'ci' });
    expect(made).toEqual({
      id: expect.stringMatching(/^[A-Za-z0-9]{20}$/),
      name: 'ci',
      owner: 'user:ann',
      create_time: clock.now(),
      api_key: expect.stringMatching(new RegExp(`^tnk_${made.id}_[A-Za-z0-9_-]{43}$`)),
    });
    const secret = String(made.api_key).slice(-43);
    const row = await createApiKeyStore(identity.database).get(String(made.id));
    expect(row?.secretHash).toBe(createHash('sha256').update(secret).digest('hex'));
    const listed = await identity.apiKeys.list(ann);
    expect(JSON.stringify([listed, row, identity.audited, identity.lines])).not.toContain(secret);
    expect(listed).toEqual({ api_keys: [expect.objectContaining({ id: made.id, name: 'ci' })] });
  });

  it('acts for its owner, under either scheme', async () => {
    const { id, key } = await make();
    for (const scheme of ['Bearer', 'ApiKey', 'apikey']) {
      expect(await signIn(`${scheme} ${key}`)).toMatchObject({
        ok: true,
        principal: {
          id: `key:${id}`,
          name: 'ann',
          kind: 'api_key',
          owner: 'user:ann',
          backendRoles: ['staff'],
          roles: ['ml_full_access', 'tenon_operator'],
        },
      });
    }
  });

  it('has the roles its owner has now, of those it was given', async () => {
    const { key } = await make({ roles: ['ml_full_access'] });
    expect((await principalOf(`Bearer ${key}`)).roles).toEqual(['ml_full_access']);
    const changed = { opendistro_security_roles: ['tenon_operator'] };
    await identity.directory.putUser(STATIC_KEY_PRINCIPAL, 'ann', changed);
    const now = await principalOf(`Bearer ${key}`);
    expect([now.roles, now.access.allows('agent:read')]).toEqual([[], false]);
  });

  it('is narrowed by its scope, also that of an administrator', async () => {
    const { key } = await make({ scope: ['agent:*', 'cluster:admin/opensearch/ml/connectors/get', 'user:*'] });
    const { access } = await principalOf(`Bearer ${key}`);
    const allowed = ['agent:execute', 'connector:read', 'connector:create', 'user:read', 'settings:update'];
    expect(allowed.map(access.allows)).toEqual([true, true, false, false, false]);
    const narrow = await make({ scope: ['memory:read'] }, STATIC_KEY_PRINCIPAL);
    const wide = await make({}, STATIC_KEY_PRINCIPAL);
    expect((await principalOf(`Bearer ${narrow.key}`)).access.admin).toBe(false);
    expect((await principalOf(`Bearer ${wide.key}`)).access.admin).toBe(true);
  });

  it('stops when it is revoked, expires, or its owner is disabled or deleted', async () => {
    const keys = [await make(), await make({ expires_time: clock.now() + 1000 }), await make()];
    const works = () => Promise.all(keys.map(async ({ key }) => (await signIn(`Bearer ${key}`)).ok));
    expect(await works()).toEqual([true, true, true]);
    expect(await identity.apiKeys.revoke(ann, keys[0]?.id ?? '')).toEqual({ id: keys[0]?.id, status: 'REVOKED' });
    clock.advance(1000);
    expect(await works()).toEqual([false, false, true]);
    await identity.directory.putUser(STATIC_KEY_PRINCIPAL, 'ann', { attributes: { enabled: 'false' } });
    expect(await works()).toEqual([false, false, false]);
    await identity.directory.putUser(STATIC_KEY_PRINCIPAL, 'ann', { description: 'back' });
    expect(await works()).toEqual([false, false, true]);
    await identity.directory.deleteUser(STATIC_KEY_PRINCIPAL, 'ann');
    await identity.directory.putUser(STATIC_KEY_PRINCIPAL, 'ann', { password: PASSWORD });
    expect(await works()).toEqual([false, false, false]);
  });

  it('that was revoked by another process stops within a second', async () => {
    const { id, key } = await make();
    expect(await signIn(`Bearer ${key}`)).toMatchObject({ ok: true });
    await createApiKeyStore(identity.database).revoke(id);
    clock.advance(1000);
    expect(await signIn(`Bearer ${key}`)).toMatchObject({ ok: false });
  });

  it('notes its last use, at most once a minute', async () => {
    const { id, key } = await make();
    const lastUse = async () => (await createApiKeyStore(identity.database).get(id))?.lastUsedTime;
    const first = clock.now();
    await signIn(`Bearer ${key}`);
    await expect.poll(lastUse).toBe(first);
    clock.advance(59_000);
    await signIn(`Bearer ${key}`);
    clock.advance(1000);
    await signIn(`Bearer ${key}`);
    await expect.poll(lastUse).toBe(first + 60_000);
  });

  it('that is wrong is refused like one nobody has, and counted', async () => {
    const { id, key } = await make();
    const wrong = await signIn(`Bearer ${key.slice(0, -1)}${key.endsWith('A') ? 'B' : 'A'}`);
    expect(wrong).toEqual({ ok: false, reason: 'The API key is not valid' });
    expect(await signIn(`Bearer tnk_${'0'.repeat(20)}_${'A'.repeat(43)}`)).toEqual(wrong);
    for (const text of [`tnk_${id}`, `tnk_${id}_`, `tnk_${id}_${'A'.repeat(44)}`]) {
      expect(await signIn(`Bearer ${text}`)).toEqual(wrong);
    }
    for (let n = 0; n < 20; n++) await signIn(`Bearer tnk_${id}_${'A'.repeat(43)}`);
    expect(await signIn(`Bearer tnk_${id}_${'A'.repeat(43)}`)).toMatchObject({ retryAfterMs: 1000 });
    expect(await signIn(`Bearer ${key}`)).toMatchObject({ ok: true });
  });
});

describe('keys of others', () => {
  it('are seen and revoked by administrators only', async () => {
    const bob = await principalOf(basic('bob', PASSWORD));
    const { id, key } = await make();
    const other = await make({}, bob);
    expect(await identity.apiKeys.list(bob)).toMatchObject({ api_keys: [{ id: other.id }] });
    const missing = { statusCode: 404, message: `Failed to find API key with the provided id: ${id}` };
    await expect(identity.apiKeys.revoke(bob, id)).rejects.toMatchObject(missing);
    await expect(identity.apiKeys.revoke(bob, 'nope')).rejects.toMatchObject({ statusCode: 404 });
    expect((await identity.apiKeys.list(STATIC_KEY_PRINCIPAL)).api_keys).toHaveLength(2);
    const held = await principalOf(`Bearer ${key}`);
    expect(await identity.apiKeys.list(held)).toMatchObject({ api_keys: [{ id }] });
    await identity.apiKeys.revoke(STATIC_KEY_PRINCIPAL, id);
    expect(await signIn(`Bearer ${key}`)).toMatchObject({ ok: false });
  });
});

describe('a key is not made', () => {
  it.each<[JsonObject, RegExp]>([
    [{}, /^\[name\] is required/],
    [{ name: ' ' }, /^\[name\] is required/],
    [{ name: 7 }, /\[name\] String expected/],
    [{ name: 'x', scope: [] }, /^\[scope\] is empty/],
    [{ name: 'x', scope: 'agent:*' }, /\[scope\] Array expected/],
    [{ name: 'x', roles: ['all_access'] }, /^\[roles\] names all_access, which you do not have/],
    [{ name: 'x', expires_time: 5 }, /^\[expires_time\] must be a time in the future/],
    [{ name: 'x', expires_time: 'tomorrow' }, /^\[expires_time\] must be/],
    [{ name: 'x', api_key: 'mine' }, /\[api_key\] must be one of/],
  ])('from %j', async (body, text) => {
    await expect(identity.apiKeys.create(ann, body)).rejects.toThrow(text);
    expect(await identity.apiKeys.list(ann)).toEqual({ api_keys: [] });
  });

  it('by nobody in particular, nor by a key', async () => {
    const { key } = await make();
    const held = await principalOf(`Bearer ${key}`);
    await expect(make({}, OPEN_PRINCIPAL)).rejects.toMatchObject({ statusCode: 409 });
    await expect(make({}, held)).rejects.toMatchObject({ statusCode: 403 });
  });
});
