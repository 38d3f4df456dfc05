import { afterEach, describe, expect, it } from 'vitest';
import { OPEN_PRINCIPAL, STATIC_KEY_PRINCIPAL } from '../../src/identity/principals.ts';
import type { SignIn } from '../../src/identity/types.ts';
import { createIdentityStore } from '../../src/store/identity.ts';
import { createClock } from '../support/clock.ts';
import { basic, countingHasher, startIdentity, type TestIdentity } from '../support/identity.ts';

const PASSWORD = 'correct horse';
const ADMIN = { name: 'root', password: PASSWORD };
const clock = createClock(Date.UTC(2026, 10, 30, 12));
let identity: TestIdentity;
afterEach(() => identity.close());

async function start(given: Parameters<typeof startIdentity>[0] = {}): Promise<ReturnType<typeof countingHasher>> {
  const hasher = countingHasher();
  identity = await startIdentity({ hasher, now: clock.now, firstAdmin: ADMIN, ...given });
  return hasher;
}

const signIn = (authorization?: string, peer = '10.0.0.1'): Promise<SignIn> =>
  identity.authenticator.signIn({ authorization, peer });
const refusals = () => identity.audited.filter(({ outcome }) => outcome === 'refused');

describe('open mode', () => {
  it('is what a server without any configuration has, whatever header comes', async () => {
    await start({ firstAdmin: undefined });
    expect(identity.authenticator.mode()).toBe('open');
    for (const header of [undefined, basic('admin', 'admin'), 'Bearer x', 'nonsense']) {
      expect(await signIn(header)).toEqual({ ok: true, principal: OPEN_PRINCIPAL });
    }
  });

  it('ends at once with the first user made here, and for good', async () => {
    await start({ firstAdmin: undefined });
    const body = { password: PASSWORD, opendistro_security_roles: ['all_access'] };
    await identity.directory.putUser(OPEN_PRINCIPAL, 'ann', body);
    expect(await signIn()).toMatchObject({ ok: false });
    expect(identity.authenticator.mode()).toBe('authenticated');
    const ann = await signIn(basic('ann', PASSWORD));
    if (!ann.ok) throw new Error('ann is not let in');
    await identity.directory.deleteUser(ann.principal, 'ann');
    expect(await signIn()).toMatchObject({ ok: false });
    expect(identity.authenticator.mode()).toBe('authenticated');
  });

  it('ends within a second when another process makes the first user', async () => {
    await start({ firstAdmin: undefined });
    expect(await signIn()).toMatchObject({ ok: true });
    const elsewhere = createIdentityStore(identity.database);
    const user = { name: 'ann', passwordHash: 'x', backendRoles: [], roles: [], attributes: {}, disabled: false };
    await elsewhere.putUser(user);
    clock.advance(1000);
    expect(await signIn()).toMatchObject({ ok: false });
  });

  it.each([
    ['a static key', { staticKey: 'abc' }],
    ['a provider', { openId: { issuer: 'https://id.example', audience: ['a'], rolesClaim: 'r', nameClaim: 'n' } }],
  ])('is not that of a server with %s', async (_what, given) => {
    await start({ firstAdmin: undefined, ...given });
    expect(identity.authenticator.mode()).toBe('authenticated');
    expect(await signIn()).toMatchObject({ ok: false, reason: expect.stringContaining('Authentication is required') });
    expect(identity.authenticator.challenges()).toEqual(['Bearer realm="tenon"']);
  });
});

describe('a name and password', () => {
  it('lets the user in with the roles it has', async () => {
    await start();
    expect(await signIn(basic('root', PASSWORD))).toMatchObject({
      ok: true,
      principal: { id: 'user:root', name: 'root', kind: 'user', roles: ['all_access'], backendRoles: [] },
    });
    expect(identity.authenticator.challenges()).toEqual([
      'Basic realm="tenon", charset="UTF-8"',
      'Bearer realm="tenon"',
    ]);
    expect(identity.audited.at(-1)).toEqual({
      principal: 'user:root',
      action: 'sign_in',
      outcome: 'ok',
      detail: 'Basic from 10.0.0.1',
    });
  });

  it('may have colons in the password and any letters in the name', async () => {
    await start();
    const { principal } = (await signIn(basic('root', PASSWORD))) as { principal: typeof OPEN_PRINCIPAL };
    await identity.directory.putUser(principal, 'jürgen š', { password: 'a:b:c:d:e:🦉' });
    expect(await signIn(basic('jürgen š', 'a:b:c:d:e:🦉'))).toMatchObject({ ok: true });
  });

  it('costs exactly one hash, also for a name nobody has, and the answer is the same', async () => {
    const hasher = await start();
    const wrong = await signIn(basic('root', 'wrong password'));
    expect(hasher.calls.verify).toBe(1);
    const unknown = await signIn(basic('nobody', 'wrong password'));
    expect(hasher.calls.verify).toBe(2);
    expect(unknown).toEqual(wrong);
    expect(wrong).toEqual({ ok: false, reason: 'The user name or the password is not right' });
  });

  it('is not hashed again for a minute, and at once when the user changes', async () => {
    const hasher = await start();
    const twice = [signIn(basic('root', PASSWORD)), signIn(basic('root', PASSWORD))];
    for (const attempt of await Promise.all(twice)) expect(attempt.ok).toBe(true);
    for (let n = 0; n < 5; n++) expect(await signIn(basic('root', PASSWORD))).toMatchObject({ ok: true });
    expect(hasher.calls.verify).toBe(1);
    clock.advance(60_000);
    const again = await signIn(basic('root', PASSWORD));
    expect(hasher.calls.verify).toBe(2);
    if (!again.ok) throw new Error('root is not let in');
    const roles = { opendistro_security_roles: ['all_access'] };
    await identity.directory.putUser(again.principal, 'root', { password: 'another one', ...roles });
    expect(await signIn(basic('root', PASSWORD))).toMatchObject({ ok: false });
    expect(await signIn(basic('root', 'another one'))).toMatchObject({ ok: true });
    await identity.directory.putUser(again.principal, 'second', { password: 'another one', ...roles });
    await identity.directory.putUser(again.principal, 'root', { attributes: { enabled: 'false' }, ...roles });
    expect(await signIn(basic('root', 'another one'))).toMatchObject({ ok: false });
  });

  it('is written nowhere', async () => {
    await start();
    for (const [name, password] of [
      ['root', 'CANARY-password'],
      ['CANARY-as-name', 'x'],
    ] as const) {
      await signIn(basic(name, password));
    }
    await signIn('Bearer CANARY-key');
    await signIn('CANARY-header');
    const { rows } = { rows: await identity.database.kysely.selectFrom('sign_in_failures').selectAll().execute() };
    expect(JSON.stringify([identity.audited, identity.lines, rows])).not.toContain('CANARY');
    expect(refusals().map(({ principal, detail }) => [principal, detail])).toEqual([
      ['user:root', 'Basic from 10.0.0.1'],
      ['-', 'Basic from 10.0.0.1'],
      ['-', 'API key from 10.0.0.1'],
    ]);
  });
});

describe('failed sign-ins', () => {
  it('are slowed after five, longer each time, for that name from anywhere', async () => {
    const hasher = await start();
    for (let n = 0; n < 5; n++)
      expect(await signIn(basic('root', 'wrong'), `10.0.0.${n}`)).toMatchObject({ ok: false });
    const refused = await signIn(basic('root', PASSWORD), '10.0.0.99');
    expect(refused).toEqual({ ok: false, reason: 'Too many sign-ins failed: try again in 1 s', retryAfterMs: 1000 });
    expect(hasher.calls.verify).toBe(5);
    const waits: number[] = [];
    for (let n = 0; n < 9; n++) {
      const { retryAfterMs = 0 } = (await signIn(basic('root', 'wrong'))) as { retryAfterMs?: number };
      waits.push(retryAfterMs / 1000);
      clock.advance(retryAfterMs);
      await signIn(basic('root', 'wrong'));
    }
    expect(waits).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60]);
    expect(await signIn(basic('nobody', 'wrong'), '10.0.0.98')).not.toHaveProperty('retryAfterMs');
  });

  it('that are not looked at are audited, at most once a second', async () => {
    await start();
    for (let n = 0; n < 5; n++) await signIn(basic('root', 'wrong'));
    for (let n = 0; n < 30; n++) await signIn(basic('root', 'wrong'), '10.0.0.7');
    const slowed = () => refusals().filter(({ detail }) => detail?.includes('not looked at'));
    const row = { principal: 'user:root', action: 'sign_in', outcome: 'refused' };
    const detail = 'Basic from 10.0.0.7: not looked at, too many failed before';
    expect(slowed()).toEqual([{ ...row, detail }]);
    clock.advance(1000);
    await signIn(basic('root', 'wrong'));
    await signIn(basic('root', 'wrong'), '10.0.0.7');
    expect(slowed()).toHaveLength(2);
    expect(slowed()[1]).toEqual({ ...row, detail: `${detail}; 29 more before this were left out` });
  });

  it('of a name nobody has are slowed alike', async () => {
    await start();
    for (let n = 0; n < 5; n++) await signIn(basic('nobody', 'wrong'));
    expect(await signIn(basic('nobody', 'wrong'))).toMatchObject({ retryAfterMs: 1000 });
  });

  it('are forgotten after a success and after a quiet quarter of an hour', async () => {
    await start();
    for (let n = 0; n < 4; n++) await signIn(basic('root', 'wrong'));
    expect(await signIn(basic('root', PASSWORD))).toMatchObject({ ok: true });
    for (let n = 0; n < 4; n++) expect(await signIn(basic('root', 'wrong'))).not.toHaveProperty('retryAfterMs');
    clock.advance(15 * 60_000);
    for (let n = 0; n < 5; n++) expect(await signIn(basic('root', 'wrong'))).not.toHaveProperty('retryAfterMs');
  });

  it('do not lock out whoever is signed in already', async () => {
    await start();
    await signIn(basic('root', PASSWORD), '10.0.0.2');
    for (let n = 0; n < 6; n++) await signIn(basic('root', 'wrong'));
    expect(await signIn(basic('root', PASSWORD), '10.0.0.2')).toMatchObject({ ok: true });
  });

  it('at the same time are not all looked at', async () => {
    const hasher = await start();
    const guesses = Array.from({ length: 50 }, (_, n) => signIn(basic('root', `guess ${n}`), `10.0.1.${n}`));
    const answers = await Promise.all(guesses);
    expect(hasher.calls.verify).toBe(5);
    expect(answers.filter((answer) => 'retryAfterMs' in answer)).toHaveLength(45);
  });

  it('with many names are slowed by the peer they come from', async () => {
    await start();
    for (let n = 0; n < 20; n++) expect(await signIn(basic(`user ${n}`, 'wrong'))).not.toHaveProperty('retryAfterMs');
    expect(await signIn(basic('user 99', 'wrong'))).toMatchObject({ retryAfterMs: 1000 });
    expect(await signIn('Bearer wrong')).not.toHaveProperty('retryAfterMs');
    for (let n = 1; n < 20; n++) await signIn('Bearer wrong');
    expect(await signIn('Bearer wrong')).toMatchObject({ retryAfterMs: 1000 });
    expect(await signIn(basic('user 99', 'wrong'), '10.0.0.2')).not.toHaveProperty('retryAfterMs');
  });

  it('are remembered over a restart', async () => {
    const hasher = await start();
    for (let n = 0; n < 5; n++) await signIn(basic('root', 'wrong'));
    await expect
      .poll(() => identity.database.kysely.selectFrom('sign_in_failures').select('failures').executeTakeFirst())
      .toEqual({ failures: 5 });
    const { authenticator } = await identity.again();
    const again = await authenticator.signIn({ authorization: basic('root', PASSWORD), peer: '10.9.9.9' });
    expect(again).toMatchObject({ ok: false, retryAfterMs: 1000 });
    expect(hasher.calls.verify).toBe(5);
  });
});

describe('the static key', () => {
  it('makes an administrator, under either scheme', async () => {
    await start({ staticKey: 'a-short-key' });
    for (const header of ['Bearer a-short-key', 'bearer  a-short-key', 'ApiKey a-short-key ']) {
      expect(await signIn(header)).toEqual({ ok: true, principal: STATIC_KEY_PRINCIPAL });
    }
    for (const header of ['Bearer a-short-ke', 'Bearer a-short-keyy', basic('a-short-key', ''), 'a-short-key']) {
      expect(await signIn(header)).toMatchObject({ ok: false });
    }
  });

  it('that could be guessed is slowed with its peer, one that could not is not', async () => {
    const long = 'k'.repeat(24);
    await start({ staticKey: 'a-short-key' });
    for (let n = 0; n < 20; n++) await signIn(`Bearer guess-${n}`);
    expect(await signIn('Bearer a-short-key')).toMatchObject({ ok: false, retryAfterMs: 1000 });
    await identity.close();
    await start({ staticKey: long });
    for (let n = 0; n < 20; n++) await signIn(`Bearer guess-${n}`);
    expect(await signIn('Bearer guess')).toMatchObject({ retryAfterMs: 1000 });
    expect(await signIn(`Bearer ${long}`)).toMatchObject({ ok: true });
  });
});

describe('a header', () => {
  it.each([
    '',
    'Basic',
    'Basic ',
    'Basic !!!!',
    'Basic YQ',
    `Basic ${Buffer.from('no colon').toString('base64')}`,
    `Basic ${Buffer.from([0xff, 0x3a, 0x41]).toString('base64')}`,
    'Digest username="root"',
    'Negotiate abc',
    'Bearer',
    'Bearer a b',
    `${basic('root', PASSWORD)}, Bearer x`,
  ])('"%s" lets nobody in and costs no hash', async (header) => {
    const hasher = await start();
    expect(await signIn(header)).toMatchObject({ ok: false, reason: expect.stringMatching(/cannot be read/) });
    expect(hasher.calls.verify).toBe(0);
  });
});

describe('the first administrator', () => {
  it('is made once, and never overwrites', async () => {
    const hasher = await start();
    expect(identity.lines.join('')).toContain('user root was created with all_access');
    await identity.again({ firstAdmin: { name: 'other', password: 'another one' } });
    await identity.again({ firstAdmin: { name: 'root', password: 'another one' } });
    expect(hasher.calls.hash).toBe(1);
    expect(identity.lines.join('')).toContain('TENON_ADMIN_PASSWORD is not used');
    expect(Object.keys(await identity.directory.users())).toEqual(['root']);
    expect(identity.lines.join('')).not.toContain(PASSWORD);
  });

  it.each([
    [{ name: 'admin', password: 'short' }, /^TENON_ADMIN_PASSWORD: Password is too short$/],
    [{ name: 'a:b', password: PASSWORD }, /^TENON_ADMIN_USER: /],
  ])('that cannot be made stops the start', async (firstAdmin, text) => {
    await start({ firstAdmin: undefined });
    await expect(identity.again({ firstAdmin })).rejects.toThrow(text);
  });
});
