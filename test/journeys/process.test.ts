import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';

const ROOT = new URL('../../', import.meta.url).pathname;
/** The bundle is what is shipped, so it is what is started here. */
const BUNDLE = `reports/bundle-${process.pid}`;

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

let folder: string;
const children = new Set<ChildProcess>();
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenon-process-'));
  execFileSync(process.execPath, ['scripts/build.mjs', BUNDLE], { cwd: ROOT, stdio: 'inherit' });
});
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL');
  await rm(folder, { recursive: true, force: true });
  await rm(join(ROOT, BUNDLE), { recursive: true, force: true });
});

function start(verbs: readonly string[], env: Record<string, string> = {}, name = 'main') {
  const own = {
    PATH: process.env['PATH'] ?? '',
    HOME: folder,
    TENON_PORT: '0',
    TENON_DATA_DIR: join(folder, name, 'data'),
    TENON_KEY_FILE: join(folder, `${name}-key`, 'master.key'),
  };
  const child = spawn(process.execPath, [`${BUNDLE}/main.js`, ...verbs], { cwd: ROOT, env: { ...own, ...env } });
  children.add(child);
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (text) => {
    stdout += text;
  });
  child.stderr.on('data', (text) => {
    stderr += text;
  });
  const ended = new Promise<Ended>((resolve) => {
    child.on('close', (code, signal) => {
      children.delete(child);
      resolve({ code, signal, stdout, stderr });
    });
  });
  const serving = new Promise<string>((resolve, reject) => {
    child.stdout.on('data', () => {
      const url = /serving on (http:\/\/[^"]+)/.exec(stdout)?.[1];
      if (url) resolve(url);
    });
    ended.then(({ stderr: said }) => reject(new Error(`ended before it served: ${said}`)), reject);
  });
  serving.catch(() => undefined);
  return { child, serving, ended };
}

async function post(url: string, body: unknown): Promise<Record<string, unknown>> {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  return (await response.json()) as Record<string, unknown>;
}

/** A connection that has had one answer and stays open. */
function keepAlive(url: string): Promise<{ closed: Promise<void> }> {
  return new Promise((resolve, reject) => {
    const { port } = new URL(url);
    const socket = connect(Number(port), '127.0.0.1', () => {
      socket.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
    });
    const closed = new Promise<void>((done) => socket.on('close', () => done()));
    socket.on('data', () => resolve({ closed }));
    socket.on('error', reject);
  });
}

describe('a server that is told to stop', () => {
  let mcp: FakeMcpServer;
  beforeAll(async () => {
    mcp = await startFakeMcpServer();
  });
  afterAll(() => mcp.stop());

  it('closes idle connections, ends MCP sessions with DELETE and exits with 0', async () => {
    const { child, serving, ended } = start(['serve']);
    const url = await serving;
    const { connector_id: id } = await post(`${url}/_plugins/_ml/connectors/_create`, {
      name: 'fake',
      version: 1,
      protocol: 'mcp_streamable_http',
      url: mcp.origin,
      credential: { token: 'CANARY-token-1' },
      headers: { Authorization: 'Bearer ${credential.token}' },
    });
    const tools = await fetch(`${url}/_plugins/_ml/connectors/${id}/tools`);
    expect(tools.status).toBe(200);
    const idle = await keepAlive(url);

    child.kill('SIGTERM');
    const forced = setTimeout(() => child.kill('SIGKILL'), 8000);
    const { code, signal, stdout, stderr } = await ended;
    clearTimeout(forced);
    await idle.closed;
    expect({ code, signal, stderr }).toEqual({ code: 0, signal: null, stderr: '' });
    expect(mcp.of('DELETE')).toHaveLength(1);
    expect(stdout).toContain('open mode');
    expect(stdout).not.toContain('CANARY-token-1');
  });

  it('lets a running request finish', async () => {
    const slow = await slowServer();
    const { child, serving, ended } = start(['serve'], {}, 'slow');
    const url = await serving;
    const model = await post(`${url}/_plugins/_ml/models/_register`, {
      name: 'slow',
      function_name: 'remote',
      connector: {
        name: 'slow',
        version: 1,
        protocol: 'http',
        credential: { key: 'k-value' },
        actions: [{ action_type: 'predict', method: 'POST', url: `${slow.url}/predict`, request_body: '{}' }],
      },
    });
    const answer = fetch(`${url}/_plugins/_ml/models/${model['model_id']}/_predict`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"parameters":{}}',
    });
    await slow.asked;
    child.kill('SIGTERM');
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(child.exitCode).toBeNull();
    slow.answer();
    const { status } = await answer;
    expect(status).toBe(200);
    expect((await ended).code).toBe(0);
    await slow.close();
  });
});

describe('a start that cannot be', () => {
  const refused = async (env: Record<string, string>, name: string): Promise<Ended> =>
    start(['serve'], env, name).ended;

  it('says in one line that only loopback is open, and what to configure', async () => {
    const { code, stderr } = await refused({ TENON_HOST: '0.0.0.0' }, 'elsewhere');
    expect(code).toBe(1);
    expect(stderr).toMatch(/^tenon: TENON_HOST is 0\.0\.0\.0.*TENON_API_KEY.*\n$/);
    await expect(stat(join(folder, 'elsewhere'))).rejects.toThrow();
  });
  it('names a variable that is wrong', async () => {
    const { code, stderr } = await refused({ TENON_PORT: 'nine' }, 'variable');
    expect([code, stderr]).toEqual([
      1,
      'tenon: TENON_PORT must be a port number from 0 to 65535 (0 takes a free one)\n',
    ]);
  });
  it('says that the port is taken', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => taken.once('listening', resolve));
    const address = taken.address() as { port: number };
    const { code, stderr } = await refused({ TENON_PORT: String(address.port) }, 'taken');
    taken.close();
    expect(code).toBe(1);
    expect(stderr).toMatch(new RegExp(`^tenon: Cannot listen on 127\\.0\\.0\\.1:${address.port}: .*EADDRINUSE.*\n$`));
  });
  it('says that the database was sealed under another key', async () => {
    const first = start(['serve'], { TENON_MASTER_KEY: 'a'.repeat(64) }, 'keys');
    const url = await first.serving;
    await post(`${url}/_plugins/_ml/connectors/_create`, {
      name: 'sealed',
      version: 1,
      protocol: 'mcp_streamable_http',
      url: 'http://127.0.0.1:1',
      credential: { token: 'some-token' },
      headers: { Authorization: 'Bearer ${credential.token}' },
    });
    first.child.kill('SIGTERM');
    expect((await first.ended).code).toBe(0);
    const { code, stderr } = await refused({ TENON_MASTER_KEY: 'b'.repeat(64) }, 'keys');
    expect(code).toBe(1);
    expect(stderr).toMatch(/^tenon: .*another master key.*\n$/);
  });
});

describe('the other verbs', () => {
  it('prints help and version, and refuses what it does not know', async () => {
    const [help, version, unknown] = await Promise.all([
      start(['--help']).ended,
      start(['--version']).ended,
      start(['fly']).ended,
    ]);
    expect(help).toMatchObject({ code: 0, stderr: '' });
    expect(help.stdout).toMatch(/serve.*\n.*migrate.*\n.*openapi/);
    expect(version.stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect(unknown).toMatchObject({ code: 1, stdout: '' });
    expect(unknown.stderr).toContain("no verb 'fly'");
  });
  it('migrates, once', async () => {
    expect((await start(['migrate'], {}, 'migrate').ended).stdout).toMatch(/^Applied 0001_/);
    expect((await start(['migrate'], {}, 'migrate').ended).stdout).toBe('The schema is up to date\n');
  });
});

/** A model provider that answers when the test says so. */
async function slowServer(): Promise<{
  url: string;
  asked: Promise<void>;
  answer: () => void;
  close: () => Promise<void>;
}> {
  let answer = (): void => undefined;
  let wasAsked = (): void => undefined;
  const asked = new Promise<void>((resolve) => {
    wasAsked = resolve;
  });
  const server = createServer((socket) => {
    socket.once('data', () => {
      answer = () =>
        socket.end(
          'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\nConnection: close\r\n\r\n{"ok":true}',
        );
      wasAsked();
    });
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as { port: number };
  return {
    url: `http://127.0.0.1:${port}`,
    asked,
    answer: () => answer(),
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}
