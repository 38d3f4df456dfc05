import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { STATIC_KEY_PRINCIPAL } from '../../src/identity/principals.ts';
import type { SignIn } from '../../src/identity/types.ts';
import { createClock } from '../support/clock.ts';
import { basic, countingHasher, startIdentity, type TestIdentity } from '../support/identity.ts';

type Pair = Awaited<ReturnType<typeof generateKeyPair>>;
interface Signer extends Pair {
  readonly jwk: JWK;
}

const clock = createClock(Date.UTC(2026, 10, 30, 12));
let first: Signer;
let second: Signer;
let provider: Server;
let issuer: string;
let keys: JWK[];
let metadata: Record<string, unknown>;
let down: boolean;
let asked: string[];
let identity: TestIdentity;

async function signer(kid: string, alg: string): Promise<Signer> {
  const pair = await generateKeyPair(alg, { extractable: true });
  return { ...pair, jwk: { ...(await exportJWK(pair.publicKey)), kid, alg, use: 'sig' } };
}

beforeAll(async () => {
  first = await signer('k1', 'RS256');
  second = await signer('k2', 'ES256');
});

beforeEach(async () => {
  [down, asked, keys] = [false, [], [first.jwk]];
  provider = createServer(serve);
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve));
  issuer = `http://127.0.0.1:${(provider.address() as AddressInfo).port}/realm`;
  metadata = { issuer, jwks_uri: `${issuer}/keys` };
  await start();
});
afterEach(async () => {
  await identity.close();
  provider.closeAllConnections();
  await new Promise((resolve) => provider.close(resolve));
});

function serve(request: IncomingMessage, response: ServerResponse): void {
  asked.push(request.url ?? '');
  if (down) return void response.writeHead(503).end('<html>gone</html>');
  const answer = request.url?.endsWith('/keys') ? { keys } : metadata;
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
}

async function start(given: { rolesClaim?: string; nameClaim?: string } = {}): Promise<void> {
  const openId = {
    issuer,
    audience: ['tenon', 'other'],
    rolesClaim: 'roles',
    nameClaim: 'preferred_username',
    ...given,
  };
  identity = await startIdentity({ hasher: countingHasher(), openId, now: clock.now });
}

async function token(claims: Record<string, unknown> = {}, by: Signer = first, header: object = {}): Promise<string> {
  const time = Math.floor(clock.now() / 1000);
  const all = {
    iss: issuer,
    aud: 'tenon',
    sub: 's1',
    exp: time + 300,
    iat: time,
    preferred_username: 'ann',
    ...claims,
  };
  const { kid, alg } = by.jwk;
  return new SignJWT(all).setProtectedHeader({ alg: String(alg), kid: String(kid), ...header }).sign(by.privateKey);
}

const signIn = async (text: string | Promise<string>): Promise<SignIn> =>
  identity.authenticator.signIn({ authorization: `Bearer ${await text}`, peer: 'p' });

function unsigned(header: object, claims: object, signature = ''): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  return `${part(header)}.${part(claims)}.${signature || Buffer.from('x').toString('base64url')}`;
}

describe('a token of the provider', () => {
  it('lets its user in, with the roles mapped to its groups', async () => {
    await identity.directory.putMapping(STATIC_KEY_PRINCIPAL, 'ml_read_access', { backend_roles: ['staff'] });
    expect(await signIn(token({ roles: ['staff', 'staff', 7, ''] }))).toMatchObject({
      ok: true,
      principal: {
        id: `token:${issuer}|s1`,
        name: 'ann',
        kind: 'token',
        backendRoles: ['staff'],
        roles: ['ml_read_access'],
      },
    });
    expect(asked).toEqual(['/realm/.well-known/openid-configuration', '/realm/keys']);
  });

  it('is named by its subject where it has no name, and its groups may be nested or one text', async () => {
    await identity.close();
    await start({ rolesClaim: 'realm_access.roles', nameClaim: 'email' });
    const nested = await signIn(token({ realm_access: { roles: ['a'] } }));
    expect(nested).toMatchObject({ principal: { name: 's1', backendRoles: ['a'] } });
    await identity.close();
    await start({ rolesClaim: 'scope' });
    expect(await signIn(token({ scope: 'read write' }))).toMatchObject({
      principal: { backendRoles: ['read', 'write'] },
    });
    for (const scope of [7, null, {}, undefined]) {
      expect(await signIn(token({ scope }))).toMatchObject({ principal: { backendRoles: [] } });
    }
    await identity.close();
    await start({ rolesClaim: 'constructor.name' });
    expect(await signIn(token())).toMatchObject({ principal: { backendRoles: [] } });
  });

  it('gets nothing that was given to the user of the store with the same name', async () => {
    await identity.directory.putUser(STATIC_KEY_PRINCIPAL, 'ann', { password: 'correct horse' });
    for (const name of ['ann', 'eve']) {
      await identity.directory.putMapping(STATIC_KEY_PRINCIPAL, 'ml_full_access', { users: [name] });
      expect(await signIn(token({ preferred_username: name }))).toMatchObject({
        principal: { roles: name === 'ann' ? [] : ['ml_full_access'] },
      });
    }
  });

  it.each<[string, Record<string, unknown>, RegExp]>([
    ['of another issuer', { iss: 'https://evil.example' }, /"iss"/],
    ['of an issuer that only begins alike', { iss: 'http://127.0.0.1/realm/' }, /"iss"/],
    ['for another service', { aud: 'wiki' }, /"aud"/],
    ['for nobody', { aud: undefined }, /"aud"/],
    ['without a subject', { sub: undefined }, /"sub"/],
    ['with an empty subject', { sub: '' }, /"sub"/],
    ['without an end', { exp: undefined }, /"exp"/],
    ['that has expired', { exp: Date.UTC(2026, 10, 30, 12) / 1000 - 61 }, /expired/],
    ['that is not valid yet', { nbf: Date.UTC(2026, 10, 30, 12) / 1000 + 61 }, /"nbf"/],
  ])('%s is refused', async (_what, claims, text) => {
    const frozen = Object.fromEntries(Object.entries(claims));
    expect(await signIn(token(frozen))).toEqual({ ok: false, reason: expect.stringMatching(text) });
    expect(identity.audited.at(-1)).toMatchObject({ principal: '-', outcome: 'refused', detail: 'token from p' });
  });

  it('may be a minute off', async () => {
    const time = clock.now() / 1000;
    expect(await signIn(token({ exp: time - 59, nbf: time + 59 }))).toMatchObject({ ok: true });
    expect(await signIn(token({ aud: ['wiki', 'other'] }))).toMatchObject({ ok: true });
  });

  it('has to be signed with a key of the provider', async () => {
    const claims = { iss: issuer, aud: 'tenon', sub: 's1', exp: clock.now() / 1000 + 300 };
    const forger = await signer('k1', 'RS256');
    const good = await token();
    const secret = new TextEncoder().encode(JSON.stringify(first.jwk));
    const confused = await new SignJWT(claims).setProtectedHeader({ alg: 'HS256', kid: 'k1' }).sign(secret);
    const attempts: [string, RegExp][] = [
      [await token({}, forger), /signature/],
      [`${good.slice(0, -6)}AAAAAA`, /signature/],
      [unsigned({ alg: 'none' }, claims), /algorithm/],
      [unsigned({ alg: 'None', kid: 'k1' }, claims), /algorithm/],
      [confused, /algorithm/],
      [unsigned({ alg: 'RS256', kid: 'k1', jwk: forger.jwk }, claims), /signature/],
      [unsigned({ alg: 'RS256', kid: 'k1', crit: ['x'] }, claims), /not valid/],
      [unsigned([], {}), /not valid/],
      ['a.b.c', /not valid/],
    ];
    for (const [text, reason] of attempts) {
      expect(await signIn(text), text).toEqual({ ok: false, reason: expect.stringMatching(reason) });
    }
    expect(asked.filter((path) => path.endsWith('/keys'))).toHaveLength(1);
  });
});

describe('the keys of the provider', () => {
  it('are read again when a token names one that is new, at most once a minute', async () => {
    await signIn(token());
    keys = [first.jwk, second.jwk];
    const refused = { ok: false, reason: expect.stringContaining('a key the OpenID provider does not have') };
    expect(await signIn(token({}, second))).toEqual(refused);
    expect(asked).toHaveLength(2);
    clock.advance(60_000);
    expect(await signIn(token({}, second))).toMatchObject({ ok: true });
    expect(asked).toHaveLength(4);
    const unknown = await signer('k3', 'ES256');
    for (let n = 0; n < 5; n++) expect(await signIn(token({}, unknown))).toEqual(refused);
    expect(asked).toHaveLength(4);
  });

  it('that were withdrawn are honoured for ten minutes at most', async () => {
    await signIn(token());
    keys = [second.jwk];
    clock.advance(599_000);
    expect(await signIn(token())).toMatchObject({ ok: true });
    clock.advance(1000);
    expect(await signIn(token())).toMatchObject({ ok: false });
    expect(await signIn(token({}, second))).toMatchObject({ ok: true });
  });

  it('stay in use while the provider is away', async () => {
    await signIn(token());
    down = true;
    clock.advance(600_000);
    expect(await signIn(token())).toMatchObject({ ok: true });
  });

  it('that cannot be read are no fault of the caller, and are not asked for with every request', async () => {
    down = true;
    const many = await Promise.all([signIn(token()), signIn(token()), signIn(token())]);
    for (const answer of many) expect(answer).toMatchObject({ ok: false, unavailable: true });
    expect(await signIn(token())).toMatchObject({ unavailable: true });
    expect(asked).toHaveLength(1);
    expect(identity.lines.join('')).toMatch(/answered 503.*could not be read/);
    expect(identity.audited).toEqual([]);
    down = false;
    clock.advance(5000);
    expect(await signIn(token())).toMatchObject({ ok: true });
  });

  it.each([
    ['of another issuer', () => ({ issuer: 'https://evil.example', jwks_uri: `${issuer}/keys` })],
    ['without keys', () => ({ issuer })],
    ['with keys on a private address of others', () => ({ issuer, jwks_uri: 'https://10.0.0.1/keys' })],
    ['with keys over http elsewhere', () => ({ issuer, jwks_uri: 'http://keys.example/keys' })],
    ['with keys in a file', () => ({ issuer, jwks_uri: 'file:///etc/passwd' })],
    ['that are no object', () => []],
  ])('are not taken from metadata %s', async (_what, made) => {
    metadata = made() as Record<string, unknown>;
    expect(await signIn(token())).toMatchObject({ ok: false, unavailable: true });
    expect(asked).toEqual(['/realm/.well-known/openid-configuration']);
  });
});

it('a user of the provider has keys that end within 90 days and go with the provider', async () => {
  await identity.directory.putMapping(STATIC_KEY_PRINCIPAL, 'ml_full_access', { backend_roles: ['staff'] });
  const signedIn = await signIn(token({ roles: ['staff'] }));
  if (!signedIn.ok) throw new Error(signedIn.reason);
  const days = 24 * 60 * 60_000;
  const made = await identity.apiKeys.create(signedIn.principal, { name: 'k' });
  expect(made.expires_time).toBe(clock.now() + 90 * days);
  const tooLong = { name: 'k', expires_time: clock.now() + 91 * days };
  await expect(identity.apiKeys.create(signedIn.principal, tooLong)).rejects.toThrow(/at most 90 days/);
  const authorization = `Bearer ${made.api_key}`;
  expect(await identity.authenticator.signIn({ authorization, peer: 'p' })).toMatchObject({
    principal: { roles: ['ml_full_access'], owner: `token:${issuer}|s1`, backendRoles: ['staff'] },
  });
  const { authenticator } = await identity.again({ openId: undefined });
  expect(await authenticator.signIn({ authorization, peer: 'p' })).toMatchObject({ ok: false });
});

it('a name and password work beside tokens', async () => {
  await identity.directory.putUser(STATIC_KEY_PRINCIPAL, 'ann', { password: 'correct horse' });
  const authorization = basic('ann', 'correct horse');
  expect(await identity.authenticator.signIn({ authorization, peer: 'p' })).toMatchObject({ ok: true });
});
