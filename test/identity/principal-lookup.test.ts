import { afterEach, describe, expect, it } from 'vitest';
import { OPEN_PRINCIPAL, STATIC_KEY_PRINCIPAL } from '../../src/identity/principals.ts';
import { createIdentityStore } from '../../src/store/identity.ts';
import { createClock } from '../support/clock.ts';
import { basic, countingHasher, startIdentity, type TestIdentity } from '../support/identity.ts';

const PASSWORD = 'correct horse';
const clock = createClock(Date.UTC(2026, 10, 30, 12));
let identity: TestIdentity;
afterEach(() => identity.close());

async function start(given: Parameters<typeof startIdentity>[0] = {}): Promise<void> {
  identity = await startIdentity({ hasher: countingHasher(), now: clock.now, ...given });
}

describe('a principal is known again', () => {
  it('in open mode while nobody could sign in', async () => {
    await start();
    expect(await identity.principalOf('open')).toBe(OPEN_PRINCIPAL);
    expect(await identity.principalOf('api_key')).toBeUndefined();
    const user = { name: 'ann', passwordHash: 'x', backendRoles: [], roles: [], attributes: {}, disabled: false };
    await createIdentityStore(identity.database).putUser(user);
    clock.advance(1000);
    expect(await identity.principalOf('open')).toBeUndefined();
  });

  it('as the holder of the static key while there is one', async () => {
    await start({ staticKey: 'the-static-key-of-the-operator' });
    expect(await identity.principalOf('api_key')).toBe(STATIC_KEY_PRINCIPAL);
    expect(await identity.principalOf('open')).toBeUndefined();
  });

  it('as a user, with the rights of now', async () => {
    await start({ firstAdmin: { name: 'root', password: PASSWORD } });
    const put = (name: string, roles: string[]) =>
      identity.directory.putUser(STATIC_KEY_PRINCIPAL, name, {
        password: PASSWORD,
        opendistro_security_roles: roles,
      });
    await put('ann of it', ['ml_full_access']);
    const signedIn = await identity.authenticator.signIn({
      authorization: basic('root', PASSWORD),
      peer: '10.0.0.1',
    });
    if (!signedIn.ok) throw new Error('root is not let in');
    expect(await identity.principalOf('user:root')).toEqual({ ...signedIn.principal, access: expect.anything() });
    expect((await identity.principalOf('user:ann of it'))?.roles).toEqual(['ml_full_access']);
    await put('ann of it', ['ml_read_access']);
    const ann = await identity.principalOf('user:ann of it');
    expect(ann?.access.allows('agent:execute')).toBe(false);
    await identity.directory.deleteUser(STATIC_KEY_PRINCIPAL, 'ann of it');
    expect(await identity.principalOf('user:ann of it')).toBeUndefined();
  });

  it('as the holder of a key until it is revoked or expires', async () => {
    await start({ firstAdmin: { name: 'root', password: PASSWORD } });
    const root = await identity.principalOf('user:root');
    if (root === undefined) throw new Error('root is not known');
    const make = async (more: { expires_time?: number } = {}): Promise<string> =>
      `key:${String((await identity.apiKeys.create(root, { name: 'script', ...more })).id)}`;
    const [kept, brief] = [await make(), await make({ expires_time: clock.now() + 5000 })];
    expect(await identity.principalOf(kept)).toMatchObject({ id: kept, kind: 'api_key', owner: 'user:root' });
    expect(await identity.principalOf(brief)).toMatchObject({ id: brief });
    clock.advance(5000);
    expect(await identity.principalOf(brief)).toBeUndefined();
    await identity.apiKeys.revoke(root, kept.slice('key:'.length));
    expect(await identity.principalOf(kept)).toBeUndefined();
  });

  it('never as the user of a provider, nor as somebody of another kind', async () => {
    await start({ firstAdmin: { name: 'root', password: PASSWORD } });
    for (const id of ['token:https://id.example|ann', 'system', 'root', 'key:', 'user:', '']) {
      expect(await identity.principalOf(id), id).toBeUndefined();
    }
  });
});
