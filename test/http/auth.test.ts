import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isLoopback, refusalInOpenMode } from '../../src/http/open-mode.ts';
import { type Edge, startEdge } from '../support/edge.ts';

const KEY = 'k-0123456789abcdef';
let open: Edge;
let keyed: Edge;
beforeAll(async () => {
  const start = (options: { apiKey?: string }): Promise<Edge> =>
    startEdge(async (app) => {
      app.get('/', async ({ principal }) => ({ principal: principal.id }));
      app.get('/oauth/callback', async () => ({}));
      app.get('/things', async ({ principal }) => ({ principal: principal.id }));
      app.post('/things', { config: { emptyBody: 'allowed' } }, async () => ({}));
      app.get('/healthz', { config: { public: true } }, async () => ({ status: 'ok' }));
    }, options);
  open = await start({});
  keyed = await start({ apiKey: KEY });
});
afterAll(async () => {
  await open.close();
  await keyed.close();
});

/** node:http sends exactly the headers it is given, `Host` too. */
function call(
  edge: Edge,
  headers: Record<string, string>,
  path = '/things',
  method = 'GET',
): Promise<{ status: number; headers: Record<string, unknown>; body: string }> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port: edge.port, path, method, headers }, (response) => {
      let body = '';
      response.on('data', (chunk) => {
        body += chunk;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body }));
    });
    sent.on('error', reject);
    sent.end();
  });
}

describe('open mode', () => {
  const port = (text: string): string => text.replace('PORT', String(open.port));

  it.each(['localhost:PORT', '127.0.0.1:PORT', '[::1]:PORT', 'LOCALHOST', '127.0.0.1', '[::1]', '127.1.2.3'])(
    'answers the host %s',
    async (host) => {
      const answer = await call(open, { host: port(host) });
      expect(answer).toMatchObject({ status: 200, body: '{"principal":"open"}' });
    },
  );
  it.each([
    'evil.example:PORT',
    'localhost:1',
    'localhost.evil.example:PORT',
    '10.0.0.1',
    '[::2]:PORT',
    ':PORT',
    'a:b:c',
  ])('refuses the host "%s"', async (host) => {
    const answer = await call(open, { host: port(host) });
    expect(answer.status).toBe(403);
    expect(answer.body).toContain('TENON_API_KEY');
  });
  it.each(['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip', 'via'])(
    'refuses a request with %s',
    async (name) => {
      const answer = await call(open, { [name]: '127.0.0.1' });
      expect(answer.status).toBe(403);
      expect(answer.body).toContain(name);
    },
  );
  it.each(['http://evil.example', 'http://localhost:PORT', 'https://127.0.0.1:PORT', 'null', 'http://127.0.0.1'])(
    'refuses the origin %s of a request to 127.0.0.1',
    async (origin) => {
      for (const method of ['GET', 'POST']) {
        expect((await call(open, { origin: port(origin) }, '/things', method)).status).toBe(403);
      }
    },
  );
  it('answers its own pages', async () => {
    const headers = { origin: port('http://127.0.0.1:PORT'), 'sec-fetch-site': 'same-origin' };
    expect((await call(open, headers, '/things', 'POST')).status).toBe(200);
    expect((await call(open, { 'sec-fetch-site': 'none' })).status).toBe(200);
  });
  it('refuses what a page of another site sends', async () => {
    expect((await call(open, { 'sec-fetch-site': 'cross-site' })).status).toBe(403);
    expect((await call(open, { 'sec-fetch-site': 'cross-site' }, '/things', 'POST')).status).toBe(403);
  });
  it.each(['/', '/oauth/callback'])('lets a link from another site lead to %s', async (path) => {
    const link = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };
    expect((await call(open, link, path)).status).toBe(200);
    expect((await call(open, { ...link, host: 'evil.example' }, path)).status).toBe(403);
    expect((await call(open, { ...link, 'sec-fetch-dest': 'iframe' }, path)).status).toBe(403);
    expect((await call(open, { ...link, 'sec-fetch-mode': 'no-cors' }, path)).status).toBe(403);
    expect((await call(open, link, '/things')).status).toBe(403);
  });
  it('ignores basic credentials, as the official clients send them', async () => {
    const authorization = `Basic ${Buffer.from('admin:admin').toString('base64')}`;
    expect(await call(open, { authorization })).toMatchObject({ status: 200, body: '{"principal":"open"}' });
  });
  it('sends no CORS header', async () => {
    const answer = await call(open, {});
    expect(Object.keys(answer.headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
  });
  it.each([
    'X-Original-Forwarded-For',
    'X-Originating-IP',
    'Client-IP',
    'X-Envoy-External-Address',
    'Fastly-Client-IP',
    'X-Original-Host',
    'X_Forwarded_For',
    'CDN-Loop',
    'CF-Ray',
    'CF-Connecting-IP',
    'True-Client-IP',
    'X-Azure-ClientIP',
    'Proxy-Client-IP',
    'WL-Proxy-Client-IP',
    'X-Scheme',
    'X-Nginx-Proxy',
    'Front-End-Https',
    'DO-Connecting-IP',
    'X-Amzn-Trace-Id',
    'X-Request-Start',
  ])('takes %s for the mark of a proxy', async (name) => {
    const answer = await call(open, { [name]: '203.0.113.9' });
    expect(answer.status).toBe(403);
    expect(answer.body).toContain(`header ${name.toLowerCase()}`);
  });
  it('refuses several hosts, in either order', async () => {
    for (const hosts of [
      ['127.0.0.1', 'evil.example'],
      ['evil.example', '127.0.0.1'],
    ]) {
      const fields = hosts.map((host) => `Host: ${host}\r\n`).join('');
      for (const edge of [open, keyed]) {
        const answer = await edge.raw(`GET /things HTTP/1.1\r\n${fields}Connection: close\r\n\r\n`);
        expect(answer).toMatch(/^HTTP\/1\.1 400 /);
        expect(answer).toContain('more than one Host header');
      }
    }
  });
  it.each([
    ['http://evil.example/things', 403],
    ['https://evil.example:PORT/things', 403],
    ['http://127.0.0.1@evil.example/things', 403],
    ['http://localhost:1/things', 403],
    ['http://127.0.0.1:PORT/things', 200],
    ['HTTP://localhost/things', 200],
  ])('answers the request line of GET %s with %i', async (target, status) => {
    const answer = await open.raw(`GET ${port(target)} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
  });
  it('refuses a request without a host', async () => {
    for (const head of ['GET /things HTTP/1.0\r\n\r\n', 'GET /things HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n']) {
      expect(await open.raw(head)).toMatch(/^HTTP\/1\.1 403 /);
    }
  });
  it('refuses on unknown paths as well', async () => {
    expect((await call(open, { host: 'evil.example' }, '/nowhere')).status).toBe(403);
  });
  it('answers loopback peers only', () => {
    const from = (peer: string | undefined): string | undefined =>
      refusalInOpenMode({ method: 'GET', target: '/', headers: { host: 'localhost' }, peer, localPort: 9200 });
    for (const peer of ['127.0.0.1', '::1', '::ffff:127.0.0.1']) expect(from(peer)).toBeUndefined();
    for (const peer of ['10.0.0.2', '::ffff:10.0.0.2', 'fe80::1', undefined]) expect(from(peer)).toContain('loopback');
  });
  it('knows what loopback is', () => {
    expect(['localhost', '127.0.0.1', '::1', '[::1]', '127.9.9.9'].map(isLoopback)).toEqual(Array(5).fill(true));
    const others = ['0.0.0.0', '::', '192.168.1.1', 'example.org', '127.0.0.1.example.org', '2130706433', '127.1'];
    expect(others.map(isLoopback)).toEqual(Array(7).fill(false));
  });
});

describe('with a static key', () => {
  it.each([`Bearer ${KEY}`, `bearer ${KEY}`, `ApiKey ${KEY}`])('answers "%s"', async (authorization) => {
    const answer = await call(keyed, { authorization, host: 'tenon.example' });
    expect(answer).toMatchObject({ status: 200, body: '{"principal":"api_key"}' });
  });
  it.each([undefined, 'Bearer', `Bearer ${KEY}x`, `Bearer ${KEY.slice(1)}`, `Basic ${KEY}`, KEY, 'Bearer a b'])(
    'refuses "%s"',
    async (authorization) => {
      for (const path of ['/things', '/', '/nowhere']) {
        const answer = await call(keyed, authorization === undefined ? {} : { authorization }, path);
        expect(answer.status).toBe(401);
        const refused = /^Bearer [^ ]+$/.test(authorization ?? '');
        expect(answer.headers['www-authenticate']).toBe(
          refused ? 'Bearer realm="tenon", error="invalid_token"' : 'Bearer realm="tenon"',
        );
        expect(JSON.parse(answer.body)).toMatchObject({ error: { type: 'security_exception' }, status: 401 });
        expect(answer.body).not.toContain(KEY);
      }
    },
  );
  it('answers probes without it', async () => {
    expect((await call(keyed, {}, '/healthz')).status).toBe(200);
  });
  it('refuses before it reads a body', async () => {
    const answer = await keyed.raw(
      'POST /things HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\nConnection: close\r\n\r\n',
    );
    expect(answer).toMatch(/^HTTP\/1\.1 401 /);
  });
});
