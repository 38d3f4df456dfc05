import { request as httpRequest, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import httpProxy from 'http-proxy';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type StartOptions, startApp, type TestApp } from '../support/build-app.ts';
import { basic, countingHasher } from '../support/identity.ts';

const PASSWORD = 'correct horse';
const PUBLIC_NAME = 'tenon.example';

interface Seen {
  readonly status: number;
  readonly text: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}
interface Asked {
  readonly port: number;
  readonly path?: string;
  readonly method?: string;
  readonly host?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

let app: TestApp;
const proxies: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const proxy of proxies.splice(0)) await proxy.close();
  await app.close();
});

async function start(options: StartOptions = {}): Promise<void> {
  app = await startApp({ hasher: countingHasher(), ...options });
}

/** A proxy on a port of its own in front of the server; resolves with the port. */
async function proxyWith(options: httpProxy.ServerOptions, prepare?: (proxy: httpProxy) => void): Promise<number> {
  const proxy = httpProxy.createProxyServer({ target: app.url, ...options });
  // Callers may leave, and the server may refuse before it has read everything.
  proxy.on('error', (_error, _request, response) => void response.end());
  prepare?.(proxy);
  proxy.listen(0, '127.0.0.1');
  const { _server: server } = proxy as unknown as { _server: Server };
  if (!server.listening) await new Promise((resolve) => server.once('listening', resolve));
  proxies.push({
    async close() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => proxy.close(() => resolve()));
    },
  });
  return (server.address() as AddressInfo).port;
}

function ask({ port, path = '/', method = 'GET', host, headers = {}, body }: Asked): Promise<Seen> {
  return new Promise((resolve, reject) => {
    const all = { ...headers, ...(host === undefined ? {} : { host }) };
    const request = httpRequest({ host: '127.0.0.1', port, path, method, headers: all, agent: false });
    request.on('error', reject);
    request.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (part: string) => {
        text += part;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text, headers: response.headers }));
    });
    request.end(body);
  });
}

const refusal = (text: RegExp) => ({ status: 403, text: expect.stringMatching(text) });

describe('open mode behind a proxy', () => {
  beforeEach(() => start());

  it('answers a direct caller, and no caller whom a proxy announces', async () => {
    expect((await ask({ port: app.port })).status).toBe(200);
    const port = await proxyWith({ xfwd: true, changeOrigin: true });
    const text = /forwarded by a proxy \(header x-forwarded-.*tenon users add.*TENON_API_KEY/;
    for (const path of ['/', '/healthz', '/readyz', '/_plugins/_ml/connectors/_status', '/nowhere']) {
      expect(await ask({ port, path }), path).toMatchObject(refusal(text));
    }
    const headers = { 'content-type': 'application/json' };
    const created = await ask({ port, path: '/_plugins/_ml/connectors/_create', method: 'POST', headers, body: '{"a' });
    expect(created).toMatchObject(refusal(text));
  });

  it.each(['Forwarded', 'Via', 'X-Forwarded-Host', 'X-Real-IP', 'CF-Connecting-IP', 'True-Client-IP'])(
    'refuses what a proxy forwards with %s alone',
    async (name) => {
      const port = await proxyWith({ changeOrigin: true }, (proxy) => {
        proxy.on('proxyReq', (forwarded) => forwarded.setHeader(name, name === 'Via' ? '1.1 edge' : '127.0.0.1'));
      });
      expect(await ask({ port })).toMatchObject(refusal(/forwarded by a proxy/));
    },
  );

  it('refuses what a silent proxy forwards under the name that it was called by', async () => {
    const port = await proxyWith({});
    for (const host of [PUBLIC_NAME, `${PUBLIC_NAME}:${port}`, `localhost:${port}`, `127.0.0.1:${port}`]) {
      expect(await ask({ port, host }), host).toMatchObject(refusal(/Host header/));
    }
  });

  it('refuses a page whose name was pointed at this machine', async () => {
    for (const host of [
      `rebound.example:${app.port}`,
      `localhost.rebound.example:${app.port}`,
      `127.0.0.1.rebound.example:${app.port}`,
      `127.0.0.1@rebound.example`,
      `localhost.:${app.port}`,
      `2130706433:${app.port}`,
      `0.0.0.0:${app.port}`,
      `[::]:${app.port}`,
      '169.254.169.254',
    ]) {
      const headers = { origin: `http://${host}`, 'sec-fetch-site': 'same-origin' };
      expect(await ask({ port: app.port, host, headers }), host).toMatchObject(refusal(/Host header/));
    }
    for (const host of [`localhost:${app.port}`, `127.0.0.1:${app.port}`, `[::1]:${app.port}`, 'LOCALHOST']) {
      expect((await ask({ port: app.port, host })).status, host).toBe(200);
    }
  });

  it('believes no name and password that a proxy passes on', async () => {
    const port = await proxyWith({ xfwd: true, changeOrigin: true });
    const headers = { authorization: basic('admin', 'admin') };
    expect((await ask({ port, headers })).status).toBe(403);
    expect((await ask({ port: app.port, headers })).status).toBe(200);
  });
});

describe('a server with users behind a proxy', () => {
  beforeEach(async () => {
    await start({ config: { firstAdmin: { name: 'root', password: PASSWORD }, publicUrl: `https://${PUBLIC_NAME}` } });
    const path = '/_plugins/_security/api/internalusers/ann';
    const made = await app.request('PUT', path, { password: PASSWORD }, { authorization: basic('root', PASSWORD) });
    expect(made.status).toBe(201);
  });
  const root = { authorization: basic('root', PASSWORD) };

  it.each<[string, httpProxy.ServerOptions]>([
    ['that announces itself', { xfwd: true, changeOrigin: true }],
    ['that passes on the public name', { xfwd: true }],
    ['that says nothing', {}],
  ])('works %s', async (_what, options) => {
    const port = await proxyWith(options);
    const host = PUBLIC_NAME;
    expect((await ask({ port, host, path: '/healthz' })).status).toBe(200);
    const stranger = await ask({ port, host });
    expect(stranger.status).toBe(401);
    expect(String(stranger.headers['www-authenticate'])).toContain('Basic realm="tenon"');
    expect((await ask({ port, host, headers: root })).status).toBe(200);

    const headers = { ...root, 'content-type': 'application/json' };
    const path = '/_plugins/_ml/api_keys';
    const made = await ask({ port, host, path, method: 'POST', headers, body: '{"name":"ci"}' });
    expect(made.status, made.text).toBe(200);
    const { api_key: key } = JSON.parse(made.text) as { api_key: string };
    const held = { authorization: `Bearer ${key}` };
    expect((await ask({ port, host, path: '/_plugins/_ml/connectors/_status', headers: held })).status).toBe(200);
  });

  it('lets nobody in for the address or user that a header claims', async () => {
    const port = await proxyWith({});
    for (const [name, value] of [
      ['x-forwarded-for', '127.0.0.1'],
      ['forwarded', 'for=127.0.0.1;host=localhost'],
      ['x-real-ip', '127.0.0.1'],
      ['x-forwarded-user', 'root'],
      ['x-remote-user', 'root'],
      ['x-proxy-user', 'root'],
      ['x-proxy-roles', 'all_access'],
      ['opendistro_security_impersonate_as', 'root'],
    ]) {
      const headers = { [String(name)]: String(value) };
      expect((await ask({ port, headers })).status, name).toBe(401);
      const own = { ...headers, authorization: basic('ann', PASSWORD) };
      const seen = await ask({ port, headers: own, path: '/_plugins/_security/authinfo' });
      expect(JSON.parse(seen.text), name).toMatchObject({ user_name: 'ann', roles: [], remote_address: '127.0.0.1' });
    }
  });

  it('slows the name that somebody guesses, not everybody behind the proxy', async () => {
    const port = await proxyWith({ xfwd: true });
    const wrong = { authorization: basic('ann', 'guess') };
    for (let guess = 0; guess < 5; guess++) expect((await ask({ port, headers: wrong })).status).toBe(401);
    const slowed = await ask({ port, headers: wrong });
    expect([slowed.status, slowed.headers['retry-after']]).toEqual([429, '1']);
    expect((await ask({ port, headers: root })).status).toBe(200);
  });
});
