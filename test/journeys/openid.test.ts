import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, exportSPKI, generateKeyPair, type JWK, SignJWT } from 'jose';
import Provider from 'oidc-provider';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startApp, type TestAnswer, type TestApp } from '../support/build-app.ts';

const TENON = 'https://tenon.example';
const STATIC_KEY = 'the-static-key-of-the-operator';
const MINUTE = 60_000;
/** Clients of the provider and the groups it puts into their tokens. */
const GROUPS: Readonly<Record<string, unknown>> = { reporter: ['staff', 'reporters'], guest: [], chief: 'chiefs' };

type Pair = Awaited<ReturnType<typeof generateKeyPair>>;
interface SigningKey extends Pair {
  readonly private: JWK;
}

let [first, second, elliptic]: SigningKey[] = [];
let provider: Server;
let issuer: string;
let asked: string[];
let offset: number;
const open: { close(): Promise<unknown> }[] = [];

beforeAll(async () => {
  [first, second, elliptic] = [
    await keyPair('k1', 'RS256'),
    await keyPair('k2', 'RS256'),
    await keyPair('k3', 'ES256'),
  ];
});
beforeEach(async () => {
  [asked, offset] = [[], 0];
  provider = await listen(0);
  issuer = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;
  serve(provider, issuer, [first]);
});
afterEach(async () => {
  for (const one of open.splice(0)) await one.close();
  await stop(provider);
});

async function keyPair(kid: string, alg: string): Promise<SigningKey> {
  const pair = await generateKeyPair(alg, { extractable: true });
  return { ...pair, private: { ...(await exportJWK(pair.privateKey)), kid, alg, use: 'sig' } };
}

async function listen(port: number): Promise<Server> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return server;
}

async function stop(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}

/** A provider as it is installed: client credentials (OAuth 2.0) for signed access tokens (RFC 8707, RFC 9068). */
function serve(server: Server, name: string, keys: readonly (SigningKey | undefined)[]): void {
  const client_secret = 'its secret';
  const alg = (keys[0]?.private.alg ?? 'RS256') as 'RS256';
  const grant = { grant_types: ['client_credentials'], redirect_uris: [], response_types: [] as [] };
  const instance = new Provider(name, {
    clients: Object.keys(GROUPS).map((client_id) => ({
      client_id,
      client_secret,
      id_token_signed_response_alg: alg,
      ...grant,
    })),
    jwks: { keys: keys.flatMap((key) => (key === undefined ? [] : [key.private])) as [] },
    ttl: { ClientCredentials: 3600 },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_context, resource) => ({
          scope: 'use',
          audience: resource,
          accessTokenFormat: resource.includes('opaque') ? 'opaque' : 'jwt',
          jwt: { sign: { alg } },
        }),
      },
    },
    extraTokenClaims: ({ oidc }) => ({ roles: GROUPS[oidc.client?.clientId ?? ''] }),
  });
  const answer = instance.callback();
  server.on('request', (request, response) => {
    asked.push(request.url ?? '');
    // Clients of tokens do not hold a connection; the server under test does, over restarts.
    if (request.method === 'POST') response.setHeader('connection', 'close');
    void answer(request, response);
  });
}

/** The same provider after a restart with other keys. */
async function restart(...keys: readonly (SigningKey | undefined)[]): Promise<void> {
  await stop(provider);
  provider = await listen(Number(new URL(issuer).port));
  serve(provider, issuer, keys);
}

async function tokenFor(client: string, resource = TENON, from = issuer): Promise<string> {
  const credentials = { client_id: client, client_secret: 'its secret' };
  const body = new URLSearchParams({ grant_type: 'client_credentials', resource, scope: 'use', ...credentials });
  const response = await fetch(`${from}/token`, { method: 'POST', body });
  const answer = (await response.json()) as { access_token: string };
  expect(response.status, JSON.stringify(answer)).toBe(200);
  return answer.access_token;
}

async function start(given: { issuer?: string } = {}): Promise<TestApp> {
  const openId = { issuer, audience: [TENON], rolesClaim: 'roles', nameClaim: 'client_id', ...given };
  const app = await startApp({ config: { openId, apiKey: STATIC_KEY }, now: () => Date.now() + offset });
  open.push(app);
  for (const [role, group] of [
    ['ml_read_access', 'reporters'],
    ['all_access', 'chiefs'],
  ]) {
    const path = `/_plugins/_security/api/rolesmapping/${role}`;
    const headers = { authorization: `Bearer ${STATIC_KEY}` };
    expect((await app.request('PUT', path, { backend_roles: [group] }, headers)).status).toBe(201);
  }
  return app;
}

function as(app: TestApp, token: string, method = 'GET', path = '/_plugins/_security/authinfo', body?: unknown) {
  return app.request(method, path, body, { authorization: `Bearer ${token}` });
}

function reasonOf({ body }: TestAnswer): string {
  return String((body as { error?: { reason?: string } }).error?.reason);
}

function encoded(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

describe('a token of the provider', () => {
  it('lets its holder in with what its groups are mapped to, and nothing more', async () => {
    const app = await start();
    const [reporter, guest, chief] = [await tokenFor('reporter'), await tokenFor('guest'), await tokenFor('chief')];
    expect((await as(app, reporter)).body).toMatchObject({
      user_name: 'reporter',
      backend_roles: ['staff', 'reporters'],
      roles: ['ml_read_access'],
      principal: `token:${issuer}|reporter`,
    });
    expect((await as(app, reporter, 'GET', '/_plugins/_ml/connectors/_status')).status).toBe(200);
    expect((await as(app, reporter, 'POST', '/_plugins/_ml/connectors/_create', '{"broken":')).status).toBe(403);
    expect((await as(app, guest)).body).toMatchObject({ user_name: 'guest', roles: [] });
    expect((await as(app, guest, 'GET', '/_plugins/_ml/connectors/_status')).status).toBe(403);
    expect((await as(app, chief, 'GET', '/_plugins/_security/api/internalusers')).status).toBe(200);

    const found = (await as(app, chief, 'GET', '/_plugins/_ml/audit/_search')).text;
    expect(found).toContain(`token:${issuer}|reporter`);
    const written = `${found}${app.lines.join('')}`;
    for (const token of [reporter, guest, chief]) expect(written).not.toContain(token.split('.')[2]);
  });

  it('is not taken when it was made for another service, is opaque, or has another scheme', async () => {
    const app = await start();
    const wiki = await as(app, await tokenFor('chief', 'https://wiki.example'));
    expect([wiki.status, reasonOf(wiki)]).toEqual([401, expect.stringContaining('"aud"')]);
    expect(wiki.headers.get('www-authenticate')).toContain('Bearer realm="tenon"');
    expect((await as(app, await tokenFor('chief', 'https://opaque.example'))).status).toBe(401);
    const authorization = `Token ${await tokenFor('chief')}`;
    expect((await app.request('GET', '/', undefined, { authorization })).status).toBe(401);
  });

  it('is not taken from another issuer, even one that signs with the same key', async () => {
    const app = await start();
    const other = await listen(0);
    open.push({ close: () => stop(other) });
    const name = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
    serve(other, name, [first]);
    const answer = await as(app, await tokenFor('chief', TENON, name));
    expect([answer.status, reasonOf(answer)]).toEqual([401, expect.stringContaining('"iss"')]);
    expect(asked).not.toContain(`${name}/jwks`);
  });

  it('ends when it says so', async () => {
    const app = await start();
    const token = await tokenFor('reporter');
    expect((await as(app, token)).status).toBe(200);
    offset = 3600_000 + 2 * MINUTE;
    const answer = await as(app, token);
    expect([answer.status, reasonOf(answer)]).toEqual([401, 'The token has expired']);
  });

  it('cannot be made by somebody who only knows the public key', async () => {
    const app = await start();
    const real = await tokenFor('chief');
    const [head = '', payload = '', signature = ''] = real.split('.');
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<string, unknown>;
    const served = (await (await fetch(`${issuer}/jwks`)).json()) as { keys: [JWK] };
    const forger = await keyPair('k1', 'RS256');
    const secrets = [await exportSPKI((first as SigningKey).publicKey), JSON.stringify(served.keys[0])];
    const shared = secrets.map((secret) =>
      new SignJWT(claims).setProtectedHeader({ alg: 'HS256', kid: 'k1' }).sign(new TextEncoder().encode(secret)),
    );
    const { d: _private, ...jwk } = forger.private;
    const forged = [
      ...(await Promise.all(shared)),
      ...['none', 'None', 'NONE'].map((alg) => `${encoded({ alg, kid: 'k1' })}.${payload}.AA`),
      `${encoded({ alg: 'none' })}.${payload}.`,
      `${head}.${encoded({ ...claims, sub: 'reporter' })}.${signature}`,
      `${head}.${payload}.${Buffer.alloc(256).toString('base64url')}`,
      await new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: 'k1' }).sign(forger.privateKey),
      await new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: 'k1', jwk }).sign(forger.privateKey),
      await new SignJWT(claims)
        .setProtectedHeader({ alg: 'RS256', kid: 'k1', jku: 'https://evil.example/jwks' })
        .sign(forger.privateKey),
    ];
    for (const token of forged) expect((await as(app, token)).status, token).toBe(401);
    expect(app.lines.join('')).not.toContain('evil.example');
    expect((await as(app, real)).status).toBe(200);
  });
});

describe('a provider that changes its keys', () => {
  it('is followed: the new ones are taken, and the old one is refused after it is gone', async () => {
    const app = await start();
    const old = await tokenFor('reporter');
    expect((await as(app, old)).status).toBe(200);

    await restart(second, first);
    offset += MINUTE;
    const renewed = await tokenFor('reporter');
    expect((await as(app, renewed)).status).toBe(200);
    expect((await as(app, old)).status).toBe(200);

    await restart(second);
    offset += 10 * MINUTE;
    const answer = await as(app, old);
    expect([answer.status, reasonOf(answer)]).toEqual([401, expect.stringContaining('does not have')]);
    expect((await as(app, renewed)).status).toBe(200);

    await restart(elliptic);
    offset += 10 * MINUTE;
    expect((await as(app, await tokenFor('reporter'))).status).toBe(200);
    expect((await as(app, renewed)).status).toBe(401);
  });

  it('is not asked for each token with a key nobody has', async () => {
    const app = await start();
    expect((await as(app, await tokenFor('reporter'))).status).toBe(200);
    asked = [];
    const stranger = await keyPair('k9', 'RS256');
    for (let number = 0; number < 5; number++) {
      const token = new SignJWT({ iss: issuer, aud: TENON, sub: `s${number}` })
        .setProtectedHeader({ alg: 'RS256', kid: 'k9' })
        .setExpirationTime('1h')
        .sign(stranger.privateKey);
      expect((await as(app, await token)).status).toBe(401);
    }
    expect(asked).toEqual([]);
  });
});

describe('a provider that is away', () => {
  it('from the start is named as the reason, and everybody else is served', async () => {
    const token = await tokenFor('reporter');
    await stop(provider);
    const app = await start();
    const answer = await as(app, token);
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '5']);
    expect(reasonOf(answer)).toContain('OpenID provider');
    expect(answer.headers.get('www-authenticate')).toBeNull();
    expect((await app.request('GET', '/healthz')).status).toBe(200);
    expect((await as(app, STATIC_KEY)).status).toBe(200);
    expect((await as(app, 'a.b.c')).status).toBe(401);

    await restart(first);
    offset += 5000;
    expect((await as(app, token)).status).toBe(200);
  });

  it('after its keys were read is not missed', async () => {
    const app = await start();
    const token = await tokenFor('reporter');
    expect((await as(app, token)).status).toBe(200);
    await stop(provider);
    offset += 11 * MINUTE;
    expect((await as(app, token)).status).toBe(200);
    await restart(second);
    const renewed = await tokenFor('reporter');
    await stop(provider);
    offset += MINUTE;
    expect((await as(app, renewed)).status).toBe(503);
    expect((await as(app, token)).status).toBe(200);
  });
});

describe('the address of the provider', () => {
  it('opens nothing else on this machine', async () => {
    const app = await start();
    const chief = await tokenFor('chief');
    expect((await as(app, chief)).status).toBe(200);
    const connector = { name: 'x', version: 1, protocol: 'mcp_streamable_http', url: issuer, credential: {} };
    const answer = await as(app, chief, 'POST', '/_plugins/_ml/connectors/_create', connector);
    expect(answer.status, answer.text).toBe(400);
  });

  it('does not lead to keys on another port of this machine', async () => {
    const front = await listen(0);
    open.push({ close: () => stop(front) });
    const name = `http://127.0.0.1:${(front.address() as AddressInfo).port}`;
    front.on('request', (_request, response) => {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ issuer: name, jwks_uri: `${issuer}/jwks` }));
    });
    const app = await start({ issuer: name });
    const claims = { iss: name, aud: TENON, sub: 's' };
    const header = { alg: 'RS256', kid: 'k1' };
    const token = new SignJWT(claims).setProtectedHeader(header).setExpirationTime('1h');
    const answer = await as(app, await token.sign((first as SigningKey).privateKey));
    expect(answer.status, answer.text).toBe(503);
    expect(asked).toEqual([]);
  });
});
