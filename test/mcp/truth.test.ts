import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FakeMcpServer, type Reply, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { openPool, type Pool, textOf } from './pool.ts';

const json = { 'Content-Type': 'application/json' };
const rpc = (code: number): Reply => ({ error: { code, message: 'no' } });

/** What a server answers from one moment on, whatever it is asked. */
const BROKEN: readonly [string, Reply, string, string][] = [
  ['401', { status: 401 }, 'auth_required', 'auth_required'],
  ['403', { status: 403 }, 'failed', 'forbidden'],
  ['400', { status: 400 }, 'failed', 'invalid_response'],
  ['405', { status: 405 }, 'failed', 'method_not_allowed'],
  ['406', { status: 406 }, 'failed', 'invalid_response'],
  ['410', { status: 410 }, 'failed', 'invalid_response'],
  ['415', { status: 415 }, 'failed', 'invalid_response'],
  ['500', { status: 500 }, 'failed', 'server_error'],
  ['an empty 200', { status: 200, headers: json, body: '' }, 'failed', 'invalid_response'],
  ['202', { status: 202 }, 'failed', 'invalid_response'],
  ['204', { status: 204 }, 'failed', 'invalid_response'],
  [
    'another id',
    { status: 200, headers: json, body: '{"jsonrpc":"2.0","id":9999,"result":{}}' },
    'failed',
    'invalid_response',
  ],
  ['broken JSON', { status: 200, headers: json, body: '{{{' }, 'failed', 'not_mcp'],
  ['HTML', { status: 200, headers: { 'Content-Type': 'text/html' }, body: '<html>' }, 'failed', 'not_mcp'],
  ['error -32600', rpc(-32600), 'failed', 'invalid_response'],
  ['error -32601', rpc(-32601), 'failed', 'invalid_response'],
];

describe('the status of an MCP connection is true', () => {
  let pool: Pool;
  const servers: FakeMcpServer[] = [];

  async function connected(script: { modern?: boolean } = {}): Promise<FakeMcpServer> {
    const server = await startFakeMcpServer(script);
    servers.push(server);
    pool.add('weather', `${server.origin}/mcp`, { config: { max_retry_times: 0, read_timeout: 2 } });
    await pool.call('weather', 'echo');
    return server;
  }
  const statusNow = async () => {
    const { status, error } = await pool.sessions.report('weather');
    return [status, error?.code];
  };

  beforeEach(async () => {
    pool = await openPool();
  });
  afterEach(async () => {
    await pool.dispose();
    await Promise.all(servers.splice(0).map((server) => server.stop()));
  });

  it.each(BROKEN)(
    'when every request gets %s: before the reply of the first call',
    async (_name, reply, status, code) => {
      const server = await connected();
      server.on('*', reply);
      await expect(pool.call('weather', 'echo')).rejects.toBeInstanceOf(Error);
      expect(await statusNow()).toEqual([status, code]);
      server.on('*', 'normal');
      expect(textOf(await pool.call('weather', 'echo'))).toBe('echo: {}');
      expect(await statusNow()).toEqual(['connected', undefined]);
    },
  );

  it.each(BROKEN.filter(([name]) => name !== 'error -32601'))(
    'when a probe gets %s',
    async (_name, reply, status, code) => {
      const server = await connected();
      server.on('*', reply);
      expect(await pool.sessions.report('weather', { probe: true })).toMatchObject({ status, error: { code } });
    },
  );

  it.each(BROKEN.filter(([name]) => name !== 'error -32601'))(
    'in the stateless era, when every request gets %s',
    async (_name, reply, status, code) => {
      const server = await connected({ modern: true });
      server.on('*', reply);
      await expect(pool.call('weather', 'echo')).rejects.toBeInstanceOf(Error);
      expect(await statusNow()).toEqual([status, code]);
      server.on('*', 'normal');
      await pool.call('weather', 'echo');
      server.on('*', reply);
      expect(await pool.sessions.report('weather', { probe: true })).toMatchObject({ status, error: { code } });
    },
  );

  it('knows a server of the stateless era that answers', async () => {
    const server = await connected({ modern: true });
    server.on('tools/call', { status: 403 });
    await expect(pool.call('weather', 'echo')).rejects.toMatchObject({ code: 'forbidden' });
    expect(await statusNow()).toEqual(['connected', undefined]);
    expect((await pool.sessions.report('weather', { probe: true })).status).toBe('connected');
  });

  it.each(BROKEN.filter(([name]) => !['401', '405'].includes(name)))(
    'when only one request gets %s, and the server answers others',
    async (_name, reply) => {
      const server = await connected();
      server.on('tools/call', reply);
      await expect(pool.call('weather', 'echo')).rejects.toBeInstanceOf(Error);
      expect(await statusNow()).toEqual(['connected', undefined]);
      expect(server.of('initialize')).toHaveLength(1);
    },
  );

  it('when the server knows neither the call nor ping', async () => {
    const server = await connected();
    for (const method of ['tools/call', 'ping']) server.on(method, rpc(-32601));
    await expect(pool.call('weather', 'echo')).rejects.toMatchObject({ delivered: 'no' });
    expect(await statusNow()).toEqual(['failed', 'invalid_response']);
  });

  it('when the list can no longer be read', async () => {
    const server = await connected();
    server.on('tools/list', { status: 403 });
    server.on('tools/call', {
      sse: ['{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}', '{"jsonrpc":"2.0","id":ID,"result":{}}'],
    });
    await pool.call('weather', 'echo');
    await expect(pool.sessions.tools('weather')).rejects.toMatchObject({ code: 'forbidden' });
    expect(await statusNow()).toEqual(['failed', 'forbidden']);
    await server.seen('DELETE');
  });

  it('when a probe meets a rate limit: the server is there, and its session stays', async () => {
    const server = await connected();
    server.on('ping', { status: 429 });
    expect((await pool.sessions.report('weather', { probe: true })).status).toBe('connected');
    server.on('tools/call', { status: 403 });
    await expect(pool.call('weather', 'echo')).rejects.toMatchObject({ code: 'forbidden' });
    expect(await statusNow()).toEqual(['connected', undefined]);
    expect([server.of('initialize').length, server.of('DELETE').length]).toEqual([1, 0]);
  });

  it('and a session that is given up is ended at the server', async () => {
    const server = await connected();
    server.on('ping', { status: 400 });
    expect((await pool.sessions.report('weather', { probe: true })).status).toBe('failed');
    expect((await server.seen('DELETE')).headers['mcp-session-id']).toBe('s-1');
  });
});
