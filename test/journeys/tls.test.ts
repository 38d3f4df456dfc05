import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request } from 'node:https';
import { connect as connectPlain } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type TLSSocket } from 'node:tls';
import { Client } from '@opensearch-project/opensearch';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { startApp, type TestApp } from '../support/build-app.ts';
import { type Pems, privateAuthority, serverCertificate, writePair } from '../support/certificates.ts';
import { exchange } from '../support/edge.ts';

const STATIC_KEY = 'a-static-key-of-the-operator';
const USERS = '/_plugins/_security/api/internalusers';

let ca: Pems;
let folder: string;
let files: { cert: string; key: string };
const apps: TestApp[] = [];

beforeAll(async () => {
  ca = await privateAuthority();
  folder = await mkdtemp(join(tmpdir(), 'tenon-tls-journey-'));
  files = await writePair(folder, await serverCertificate(ca, 'first'));
});
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close();
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function start(config: Parameters<typeof startApp>[0] = {}): Promise<TestApp> {
  const app = await startApp({ ...config, config: { tls: files, ...config.config } });
  apps.push(app);
  return app;
}

interface Sent {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: unknown;
  readonly agent?: Agent;
}

function send({ port }: TestApp, path: string, { method = 'GET', headers = {}, body, agent }: Sent = {}) {
  return new Promise<{ status: number; text: string }>((resolve, reject) => {
    const address = { host: '127.0.0.1', port, servername: 'localhost' };
    const options = { ...address, path, method, ca: ca.cert, ...(agent === undefined ? {} : { agent }) };
    const type = body === undefined ? {} : { 'content-type': 'application/json' };
    const sent = request({ ...options, headers: { ...type, ...headers } }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
    });
    sent.on('error', reject);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

async function secureSocket(app: TestApp, options: object = {}): Promise<TLSSocket> {
  const socket = connect({ port: app.port, host: '127.0.0.1', ca: ca.cert, ...options });
  await once(socket, 'secureConnect');
  return socket;
}

const shownName = (socket: TLSSocket): string => String(socket.getPeerCertificate().subject.CN);

describe('a server with a certificate of a private CA', () => {
  it('is used by the official client, with name and password', async () => {
    const app = await start({ config: { apiKey: STATIC_KEY } });
    expect(app.url).toMatch(/^https:/);
    const body = { password: 'correct horse', opendistro_security_roles: ['ml_full_access'] };
    const headers = { authorization: `Bearer ${STATIC_KEY}` };
    expect((await send(app, `${USERS}/ann`, { method: 'PUT', headers, body })).status).toBe(201);

    const auth = { username: 'ann', password: 'correct horse' };
    const client = new Client({ node: app.url, auth, ssl: { ca: ca.cert } });
    const { body: info } = await client.info();
    expect(info.version.distribution).toBe('opensearch');
    const connector = { name: 'weather', version: 1, protocol: 'mcp_streamable_http', url: 'https://mcp.example.com' };
    const created = await client.transport.request({
      method: 'POST',
      path: '/_plugins/_ml/connectors/_create',
      body: { ...connector, credential: { token: 'CANARY-token' }, headers: { 'X-Token': '${credential.token}' } },
    });
    expect(created.statusCode).toBe(200);

    const wrong = new Client({ node: app.url, auth: { ...auth, password: 'wrong' }, ssl: { ca: ca.cert } });
    await expect(wrong.info()).rejects.toMatchObject({ statusCode: 401 });
    const stranger = new Client({ node: app.url, auth, maxRetries: 0 });
    await expect(stranger.info()).rejects.toThrow(/certificate|issuer/);
    await Promise.all([client.close(), wrong.close(), stranger.close()]);
    expect(app.lines.join('')).not.toMatch(/PRIVATE KEY|correct horse|CANARY/);
  });

  it('puts a renewed certificate in force for new connections and keeps those that are open', async () => {
    const place = await mkdtemp(join(folder, 'renewed-'));
    const tls = await writePair(place, await serverCertificate(ca, 'first'));
    const app = await start({ config: { apiKey: STATIC_KEY, tls } });
    const agent = new Agent({ ca: ca.cert, keepAlive: true, maxSockets: 1 });
    expect((await send(app, '/healthz', { agent })).status).toBe(200);
    const [open] = Object.values(agent.freeSockets).flatMap((sockets) => sockets ?? []);
    await writePair(place, await serverCertificate(ca, 'second'));
    const shown = async () => {
      const socket = await secureSocket(app);
      const name = shownName(socket);
      socket.destroy();
      return name;
    };
    for (let n = 0; n < 100 && (await shown()) === 'first'; n++) await sleep(100);
    expect(await shown()).toBe('second');
    expect((await send(app, '/healthz', { agent })).status).toBe(200);
    const [stillOpen] = Object.values(agent.freeSockets).flatMap((sockets) => sockets ?? []);
    expect(stillOpen).toBe(open);
    expect(shownName(open as TLSSocket)).toBe('first');
    agent.destroy();
  });

  it('speaks TLS 1.2 and 1.3, nothing older and no plain HTTP', async () => {
    const app = await start({ config: { apiKey: STATIC_KEY } });
    for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
      const socket = await secureSocket(app, { minVersion: version, maxVersion: version });
      expect(socket.getProtocol()).toBe(version);
      socket.destroy();
    }
    const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' };
    await expect(secureSocket(app, old)).rejects.toThrow();
    expect(await exchange(app.port, 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n')).toBe('');
    expect((await send(app, '/healthz')).status).toBe(200);
  });

  it('answers octets that are not HTTP inside TLS with a 400', async () => {
    const app = await start({ config: { apiKey: STATIC_KEY } });
    const socket = await secureSocket(app);
    let text = '';
    socket.setEncoding('utf8').on('data', (part: string) => {
      text += part;
    });
    socket.write('hello\r\n\r\n');
    await once(socket, 'close');
    expect(text).toMatch(/^HTTP\/1\.1 400 [\s\S]*illegal_argument_exception/);
  });

  it('closes at once, whoever holds a connection open, and lets a running request finish', async () => {
    const app = await start({ config: { apiKey: STATIC_KEY } });
    const silent = connectPlain(app.port, '127.0.0.1');
    await once(silent, 'connect');
    const idle = await secureSocket(app);
    const half = await secureSocket(app);
    const answered = new Promise<string>((resolve) => {
      let text = '';
      half.setEncoding('utf8').on('data', (part: string) => {
        text += part;
      });
      half.on('close', () => resolve(text));
    });
    const head = ['POST /_plugins/_ml/memory HTTP/1.1', 'Host: x', `Authorization: Bearer ${STATIC_KEY}`];
    half.write(`${[...head, 'Content-Type: application/json', 'Content-Length: 12'].join('\r\n')}\r\n\r\n{"name`);
    await sleep(200);
    const gone = Promise.all([once(silent, 'close'), once(idle, 'close')]);
    const closed = app.app.close();
    await gone;
    half.write('":"x"}');
    expect(await answered).toMatch(/^HTTP\/1\.1 200 /);
    await closed;
  });
});

describe('open mode over TLS', () => {
  it('keeps its rules: loopback alone, and no page of another origin', async () => {
    const app = await start();
    const ask = async (headers: Record<string, string>) => (await send(app, '/_cluster/health', { headers })).status;
    const own = `127.0.0.1:${app.port}`;
    expect(await ask({})).toBe(200);
    expect(await ask({ origin: `https://${own}` })).toBe(200);
    expect(await ask({ origin: `http://${own}` })).toBe(403);
    expect(await ask({ host: 'evil.example', origin: 'https://evil.example' })).toBe(403);
    expect(await ask({ 'x-forwarded-for': '127.0.0.1' })).toBe(403);
    await expect(start({ config: { host: '0.0.0.0' } })).rejects.toThrow(/^TENON_HOST is 0\.0\.0\.0/);
  });
});

describe('a start for a first try', () => {
  it('serves TLS with a certificate of its own', async () => {
    const app = await start({ config: { tls: undefined }, tlsSelfSigned: true });
    const socket = await secureSocket(app, { rejectUnauthorized: false });
    const { fingerprint256 } = socket.getPeerCertificate();
    socket.destroy();
    expect(app.lines.join('')).toContain(`SHA-256 ${fingerprint256}`);
    await expect(start({ tlsSelfSigned: true })).rejects.toThrow(/--tls-self-signed and TENON_TLS_CERT exclude/);
  });
});
