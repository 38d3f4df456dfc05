import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { startApp, type TestAnswer, type TestApp } from '../support/build-app.ts';
import { createClock } from '../support/clock.ts';
import { exchange } from '../support/edge.ts';
import { basic, countingHasher } from '../support/identity.ts';

const STATIC_KEY = 'the-static-key-of-the-operator';
const PASSWORD = 'correct horse';
const USERS = '/_plugins/_security/api/internalusers';
const ML = '/_plugins/_ml';
const QUARTER = 15 * 60_000;

let app: TestApp;
let hasher: ReturnType<typeof countingHasher>;
let clock: ReturnType<typeof createClock>;
beforeEach(async () => {
  [hasher, clock] = [countingHasher(), createClock(Date.now())];
  app = await startApp({ config: { apiKey: STATIC_KEY }, hasher, now: clock.now });
  await user('ann', { opendistro_security_roles: ['ml_full_access'] });
  await user('gone', { attributes: { enabled: 'false' } });
});
afterEach(() => app.close());

function send(authorization: string | undefined, method = 'GET', path = '/', body?: unknown): Promise<TestAnswer> {
  return app.request(method, path, body, authorization === undefined ? {} : { authorization });
}

async function ok(authorization: string, method: string, path: string, body?: unknown): Promise<JsonObject> {
  const answer = await send(authorization, method, path, body);
  if (answer.status > 299) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
  return answer.body as JsonObject;
}

const operator = (method: string, path: string, body?: unknown): Promise<JsonObject> =>
  ok(`Bearer ${STATIC_KEY}`, method, path, body);
const user = (name: string, given: object): Promise<JsonObject> =>
  operator('PUT', `${USERS}/${name}`, { password: PASSWORD, ...given });
const ann = basic('ann', PASSWORD);

async function keyOf(authorization: string, given: object = {}): Promise<{ id: string; key: string }> {
  const made = await ok(authorization, 'POST', `${ML}/api_keys`, { name: 'k', ...given });
  return { id: String(made.id), key: String(made.api_key) };
}

async function signIns(outcome: string): Promise<JsonObject[]> {
  const filter = [{ term: { action: 'sign_in' } }, { term: { outcome } }];
  const body = { query: { bool: { filter } }, size: 1000, sort: { time: 'asc' } };
  const { hits } = (await operator('POST', `${ML}/audit/_search`, body)) as { hits: { hits: JsonObject[] } };
  return hits.hits.map(({ _source }) => _source as JsonObject);
}

/** What a caller could compare: everything but the time of the answer. */
function seen({ status, headers, text }: TestAnswer): unknown[] {
  return [status, text, [...headers].filter(([name]) => name !== 'date')];
}

describe('octets from somebody unknown', () => {
  const octet = (minimum: number) => fc.integer({ min: minimum, max: 0xff });
  const text = (minimum: number, maxLength: number) =>
    fc.array(octet(minimum), { maxLength }).map((codes) => Buffer.from(codes).toString('latin1'));
  const authorization = fc.oneof(
    text(0x20, 300),
    fc
      .tuple(fc.constantFrom('Basic', 'basic', 'Bearer', 'ApiKey', 'Negotiate'), text(0x21, 200))
      .map((p) => p.join(' ')),
    fc.tuple(fc.constantFrom('ann', 'gone', 'nobody', ''), fc.string()).map(([name, word]) => basic(name, word)),
    fc.uint8Array({ maxLength: 100 }).map((raw) => `Basic ${Buffer.from(raw).toString('base64')}`),
    text(0x21, 60).map((rest) => `Bearer tnk_${rest}`),
    fc.array(fc.base64String({ maxLength: 60 }), { minLength: 3, maxLength: 3 }).map((p) => `Bearer ${p.join('.')}`),
  );
  const elsewhere = fc.constantFrom('X-Api-Key', 'Api-Key', 'Cookie', 'Proxy-Authorization', 'X-Forwarded-User', 'X');
  const path = fc.oneof(
    fc.constantFrom('/', `${ML}/connectors/_create`, `${USERS}/ann`, `${ML}/agents/x/_execute`, `${ML}/audit/_search`),
    text(0x21, 100).map((rest) => `/${rest}`),
    text(0x21, 40).map((rest) => `${USERS}/${rest}`),
    fc.constantFrom('/%', '/%ff', '/..%2f..%2f', '//', '*', '/\\', `${USERS}//`, `/${'a'.repeat(9000)}`, 'http://x/'),
  );
  const method = fc.constantFrom('GET', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'PATCH', 'TRACE', 'PROPFIND');
  const body = fc.oneof(fc.constant(''), text(0x00, 300), fc.json(), fc.constant('{"a":'.repeat(50_000)));
  const type = fc.constantFrom('application/json', 'text/plain', 'application/x-www-form-urlencoded', 'multipart/x');

  it('get nothing but a 4xx, cost one hash at most, and leave no trace of what they held', async () => {
    const { key } = await keyOf(ann);
    let number = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.record({ authorization, elsewhere, path, method, body, type, query: fc.boolean() }),
        async (given) => {
          const mark = `CANARY${number++}`;
          const target = given.query ? `${given.path}?api_key=${mark}&pretty` : given.path;
          const octets = Buffer.from(`${given.body}${given.body === '' ? '' : mark}`, 'latin1');
          const head = [
            `${given.method} ${target} HTTP/1.1`,
            'Host: 127.0.0.1',
            `Authorization: ${given.authorization}${given.authorization.startsWith('Basic') ? '' : mark}`,
            `${given.elsewhere}: ${mark}`,
            `Content-Type: ${given.type}`,
            `Content-Length: ${octets.length}`,
            'Connection: close',
          ];
          const before = hasher.calls.verify;
          const request = Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`, 'latin1'), octets]);
          const answer = await exchange(app.port, request);
          clock.advance(QUARTER);
          expect(answer).toMatch(/^HTTP\/1\.1 4\d\d /);
          expect(answer).not.toContain(mark);
          expect(app.lines.join('')).not.toContain(mark);
          expect(hasher.calls.verify - before).toBeLessThanOrEqual(1);
          app.lines.length = 0;
        },
      ),
      { numRuns: 300 },
    );
    expect((await send(ann)).status).toBe(200);
    expect((await send(`Bearer ${key}`)).status).toBe(200);
    expect((await signIns('refused')).length).toBeGreaterThan(20);
    expect(JSON.stringify(await signIns('refused'))).not.toContain('CANARY');
  });

  it('are answered before a large body is sent', async () => {
    const head = `POST ${ML}/connectors/_create HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n`;
    for (const length of ['Content-Length: 99999999', 'Transfer-Encoding: chunked']) {
      const answer = await exchange(app.port, `${head}${length}\r\nConnection: close\r\n\r\n`);
      expect(answer, length).toMatch(/^HTTP\/1\.1 401 /);
    }
  });
});

describe('somebody who guesses', () => {
  it('cannot tell a name nobody has from a wrong password, by the answer or by what it costs', async () => {
    const wrong = seen(await send(basic('ann', 'wrong')));
    expect(wrong[0]).toBe(401);
    expect(hasher.calls.verify).toBe(1);
    const guesses: [string, string][] = [
      ['nobody', 'wrong'],
      ['nobody', PASSWORD],
      ['gone', PASSWORD],
      ['gone', 'wrong'],
      ['ANN', PASSWORD],
      ['', ''],
      ['ann', ''],
      ['ann', `${PASSWORD}\u0000`],
      ['ann ', PASSWORD],
      ['n'.repeat(2000), 'wrong'],
      ['ann', 'p'.repeat(5000)],
      ["ann' OR '1'='1", 'wrong'],
      ['__proto__', 'wrong'],
    ];
    for (const [at, [name, word]] of guesses.entries()) {
      expect(seen(await send(basic(name, word))), name).toEqual(wrong);
      expect(hasher.calls.verify, name).toBe(at + 2);
      clock.advance(QUARTER);
    }
  });

  it('is slowed alike for a name that is there and one that is not', async () => {
    const course = async (name: string): Promise<unknown[]> => {
      const answers: unknown[] = [];
      for (let guess = 0; guess < 9; guess++) {
        const before = hasher.calls.verify;
        const answer = await send(basic(name, `guess ${guess}`));
        answers.push([seen(answer), hasher.calls.verify - before]);
        if (guess > 6) clock.advance(Number(answer.headers.get('retry-after')) * 1000);
      }
      clock.advance(QUARTER);
      return answers;
    };
    const known = await course('ann');
    expect(known.map((one) => ((one as unknown[])[0] as unknown[])[0])).toEqual([
      ...[401, 401, 401, 401, 401],
      ...[429, 429, 429, 401],
    ]);
    expect(await course('nobody')).toEqual(known);
    expect(await course('gone')).toEqual(known);
  });

  it('waits twice as long each time, up to a minute, and only then finds out', async () => {
    for (let guess = 0; guess < 5; guess++) expect((await send(basic('ann', 'wrong'))).status).toBe(401);
    const waits: number[] = [];
    for (let guess = 0; guess < 8; guess++) {
      const answer = await send(basic('ann', 'wrong'));
      expect(answer.status).toBe(429);
      waits.push(Number(answer.headers.get('retry-after')));
      clock.advance(Number(waits.at(-1)) * 1000);
      expect((await send(basic('ann', 'wrong'))).status).toBe(401);
    }
    expect(waits).toEqual([1, 2, 4, 8, 16, 32, 60, 60]);
    const right = await send(ann);
    expect([right.status, right.headers.get('retry-after')]).toEqual([429, '60']);
    expect(right.headers.get('www-authenticate')).toBeNull();
    clock.advance(60_000);
    expect((await send(ann)).status).toBe(200);
    expect((await send(basic('ann', 'wrong'))).status).toBe(401);
  });

  it('leaves rows with the user that exists, and never with what was typed', async () => {
    await send(basic('ann', 'first-guess'));
    await send(basic('my-own-password', 'ann'));
    await send(`Bearer ${'A'.repeat(30)}`);
    await send(`ApiKey tnk_${'0'.repeat(20)}_${'A'.repeat(43)}`);
    const rows = await signIns('refused');
    expect(rows.map(({ principal, detail }) => [principal, detail])).toEqual([
      ['user:ann', 'Basic from 127.0.0.1'],
      ['-', 'Basic from 127.0.0.1'],
      ['-', 'static key from 127.0.0.1'],
      ['-', 'API key from 127.0.0.1'],
    ]);
    const written = `${JSON.stringify(rows)}${app.lines.join('')}`;
    for (const typed of ['first-guess', 'my-own-password', 'A'.repeat(30)]) {
      expect(written).not.toContain(typed);
      expect(written).not.toContain(Buffer.from(typed).toString('base64').slice(0, 12));
    }
  });

  it('keeps neither a user who is signed in nor a key of hers out', async () => {
    const { key } = await keyOf(ann);
    for (let guess = 0; guess < 30; guess++) await send(basic('ann', `guess ${guess}`));
    for (const own of [ann, `Bearer ${key}`, `Bearer ${STATIC_KEY}`]) expect((await send(own)).status).toBe(200);
  });
});

describe('a key', () => {
  it('that is unknown, wrong, expired, revoked or of a user who is gone gets one and the same answer', async () => {
    await user('eve', { opendistro_security_roles: ['all_access'] });
    const [good, expiring, revoked, ofEve] = [
      await keyOf(ann),
      await keyOf(ann, { expires_time: clock.now() + 60_000 }),
      await keyOf(ann),
      await keyOf(basic('eve', PASSWORD)),
    ];
    for (const { key } of [good, expiring, revoked, ofEve]) expect((await send(`ApiKey ${key}`)).status).toBe(200);
    await ok(ann, 'DELETE', `${ML}/api_keys/${revoked.id}`);
    await user('eve', { attributes: { enabled: 'false' } });
    clock.advance(60_000);

    const before = hasher.calls.verify;
    const unknown = seen(await send(`Bearer tnk_${'0'.repeat(20)}_${'A'.repeat(43)}`));
    expect(unknown[0]).toBe(401);
    const other = good.key.endsWith('A') ? 'B' : 'A';
    for (const [what, text] of Object.entries({
      wrong: `${good.key.slice(0, -1)}${other}`,
      expired: expiring.key,
      revoked: revoked.key,
      disabled: ofEve.key,
      crossed: `tnk_${good.id}_${revoked.key.slice(-43)}`,
      prefix: good.key.replace('tnk_', 'sk-'),
      capitals: good.key.replace('tnk_', 'TNK_'),
      bare: good.key.slice(-43),
      id: good.id,
      longer: `${good.key}A`,
      shorter: good.key.slice(0, -1),
    })) {
      expect(seen(await send(`Bearer ${text}`)), what).toEqual(unknown);
    }
    expect(hasher.calls.verify).toBe(before);
    await operator('DELETE', `${USERS}/eve`);
    await user('eve', {});
    expect((await send(`Bearer ${ofEve.key}`)).status).toBe(401);
    expect((await send(`Bearer ${good.key}`)).status).toBe(200);
  });

  it('counts only where keys belong, and shows in no log from where they do not', async () => {
    const { id, key } = await keyOf(ann);
    await app.close();
    app.lines.length = 0;
    app = await startApp({ config: { apiKey: STATIC_KEY }, hasher, now: clock.now });
    const strange = `tnk_${id}_${[...key.slice(-43)].reverse().join('')}`;
    for (const name of ['x-api-key', 'api-key', 'cookie', 'proxy-authorization', 'x-authorization', 'apikey']) {
      for (const value of [STATIC_KEY, `Bearer ${STATIC_KEY}`, `Bearer ${strange}`]) {
        const answer = await app.request('GET', '/', undefined, { [name]: value });
        expect(answer.status, name).toBe(401);
        expect(answer.text).not.toContain(value);
      }
    }
    for (const name of ['api_key', 'apiKey', 'access_token', 'token', 'authorization']) {
      for (const value of [STATIC_KEY, strange]) {
        expect((await send(undefined, 'GET', `/?${name}=${value}`)).status, name).toBe(401);
      }
    }
    const body = { api_key: STATIC_KEY, access_token: strange };
    expect((await send(undefined, 'POST', `${ML}/connectors/_create`, body)).status).toBe(401);
    for (const secret of [STATIC_KEY, strange]) expect(app.lines.join('')).not.toContain(secret);
  });

  it('does what its scope says and its roles allow, and never more', async () => {
    const { key } = await keyOf(ann, { scope: ['agent:read', 'settings:update', 'connector:*'] });
    const { key: reading } = await keyOf(`Bearer ${STATIC_KEY}`, { scope: ['connector:read'] });
    const held = async (text: string, method: string, path: string, body?: object): Promise<number> =>
      (await send(`Bearer ${text}`, method, path, body)).status;
    expect(await held(key, 'GET', `${ML}/agents/nothing`)).toBe(404);
    expect(await held(key, 'GET', `${ML}/connectors/nothing`)).toBe(404);
    expect(await held(key, 'POST', `${ML}/agents/_register`, {})).toBe(403);
    expect(await held(key, 'PUT', '/_cluster/settings', { persistent: {} })).toBe(403);
    expect(await held(key, 'POST', `${ML}/api_keys`, { name: 'x' })).toBe(403);
    expect(await held(reading, 'GET', `${ML}/connectors/nothing`)).toBe(404);
    expect(await held(reading, 'DELETE', `${ML}/connectors/nothing`)).toBe(403);
    for (const scope of [[], 'agent:read', [7], ['']]) {
      const answer = await send(ann, 'POST', `${ML}/api_keys`, { name: 'x', scope });
      expect(answer.status, JSON.stringify(scope)).toBe(400);
    }
    const above = await send(ann, 'POST', `${ML}/api_keys`, { name: 'x', roles: ['all_access'] });
    expect([above.status, above.text]).toEqual([400, expect.stringContaining('all_access')]);
  });

  it('of an administrator that is narrowed to users makes no administrator', async () => {
    const root = basic('root', PASSWORD);
    await user('root', { opendistro_security_roles: ['all_access'] });
    const { key } = await keyOf(root, { scope: ['user:*', 'role:*', 'role_mapping:*', 'api_key:*'] });
    const held = `Bearer ${key}`;
    for (const [path, body] of [
      [`${USERS}/mallory`, { password: PASSWORD, opendistro_security_roles: ['all_access'] }],
      [`${USERS}/root`, { password: 'another horse' }],
      ['/_plugins/_security/api/rolesmapping/all_access', { users: ['*'] }],
      ['/_plugins/_security/api/roles/mine', { cluster_permissions: ['*'] }],
      ['/_plugins/_security/api/roles/mine', { cluster_permissions: ['cluster:*'] }],
    ] as const) {
      expect((await send(held, 'PUT', path, body)).status, path).toBe(403);
    }
    expect((await send(held, 'DELETE', `${USERS}/root`)).status).toBe(403);
    expect((await send(held, 'POST', `${ML}/api_keys`, { name: 'x' })).status).toBe(403);
    expect((await send(root)).status).toBe(200);
  });
});

it('a password that was changed, or whose user was disabled, ends at once', async () => {
  const status = async (own: string) => (await send(own, 'GET', '/_plugins/_security/authinfo')).status;
  expect(await status(ann)).toBe(200);
  await operator('PUT', `${USERS}/ann`, { password: 'another horse' });
  expect(await status(ann)).toBe(401);
  const now = basic('ann', 'another horse');
  expect(await status(now)).toBe(200);
  await operator('PUT', `${USERS}/ann`, { attributes: { enabled: 'false' } });
  expect(await status(now)).toBe(401);
});
