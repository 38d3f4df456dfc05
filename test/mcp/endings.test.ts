import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CONNECTOR_NOT_FOUND, INVALID_ARGUMENT } from '../../src/errors.ts';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import { type FakeMcpScript, type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { openPool, type Pool } from './pool.ts';

describe('MCP connections that end while they open', () => {
  let pool: Pool;
  const servers: FakeMcpServer[] = [];

  async function serve(script: FakeMcpScript = {}): Promise<FakeMcpServer> {
    const server = await startFakeMcpServer(script);
    servers.push(server);
    pool.add('weather', `${server.origin}/mcp`);
    return server;
  }
  /** No session is left at the server, and no row in the store. */
  async function expectNothingLeft(server: FakeMcpServer): Promise<void> {
    const ended = server.of('DELETE').map((request) => request.headers['mcp-session-id']);
    expect(ended).toEqual(server.of('initialize').map((_request, index) => `s-${index + 1}`));
    expect(await pool.connections.state('weather')).toBeUndefined();
    expect(await pool.mcpTools.list('weather')).toEqual([]);
  }

  beforeEach(async () => {
    pool = await openPool();
  });
  afterEach(async () => {
    await pool.dispose();
    await Promise.all(servers.splice(0).map((server) => server.stop()));
  });

  it.each(['initialize', 'notifications/initialized', 'tools/list'])(
    'leave nothing behind when the connector is deleted during %s; the use that raced is a 404',
    async (method) => {
      const server = await serve();
      server.on(method, () => new Promise((resolve) => setTimeout(resolve, 60, 'normal' as const)));
      const uses = Promise.allSettled([
        pool.sessions.tools('weather'),
        pool.call('weather', 'echo'),
        pool.sessions.report('weather', { probe: true }),
      ]);
      await server.seen(method);
      await pool.remove('weather');
      for (const use of await uses) expect(use).toMatchObject({ status: 'rejected', reason: { statusCode: 404 } });
      await server.seen('DELETE', server.of('initialize').length);
      await expectNothingLeft(server);
      expect(server.of('initialize')).toHaveLength(1);
    },
  );

  it('answer 404, not what is wrong with the remains, when the connector went before anyone was told', async () => {
    const server = await serve();
    const { load, mcpEndpoint } = pool.connectors;
    pool.connectors.mcpEndpoint = async () => {
      pool.connectors.load = async (id) => {
        throw new CONNECTOR_NOT_FOUND(id);
      };
      throw new INVALID_ARGUMENT('the credential cannot be opened');
    };
    await expect(pool.sessions.tools('weather')).rejects.toMatchObject({ statusCode: 404 });
    Object.assign(pool.connectors, { load, mcpEndpoint });
    await pool.remove('weather');
    await expectNothingLeft(server);
  });

  it('store nothing for a use that began before the deletion and came to its connection after it', async () => {
    const server = await serve();
    const { load } = pool.connectors;
    const stale = await load('weather');
    await pool.remove('weather');
    let first = true;
    pool.connectors.load = async (id) => {
      if (!first) return load(id);
      first = false;
      return stale;
    };
    await expect(pool.sessions.act('weather', 'disable', OPEN_PRINCIPAL)).rejects.toMatchObject({ statusCode: 404 });
    first = true;
    await expect(pool.sessions.tools('weather')).rejects.toMatchObject({ statusCode: 404 });
    pool.connectors.load = load;
    await expectNothingLeft(server);
  });

  it('let a connector of the same id begin afresh', async () => {
    const server = await serve();
    await pool.sessions.tools('weather');
    const removed = pool.remove('weather');
    const next = await serve();
    expect((await pool.sessions.tools('weather')).tools).toHaveLength(1);
    await removed;
    expect(server.of('DELETE')).toHaveLength(1);
    expect((await pool.sessions.report('weather')).status).toBe('connected');
    expect((await pool.connections.state('weather'))?.status).toBe('connected');
    expect(await pool.mcpTools.list('weather')).toHaveLength(1);
    expect(next.of('DELETE')).toHaveLength(0);
  });

  it.each(['tools/list', 'notifications/initialized'])(
    'are ended at the server before the shutdown is over, when it comes during %s',
    async (method) => {
      const server = await serve({ on: { [method]: { hold: 'never' } } });
      const use = pool.sessions.tools('weather');
      const failed = expect(use).rejects.toMatchObject({ statusCode: 503 });
      await server.seen(method);
      await pool.sessions.close(1000);
      expect(server.of('DELETE').map((request) => request.headers['mcp-session-id'])).toEqual(['s-1']);
      await failed;
      expect((await pool.connections.state('weather'))?.status).toBe('idle');
    },
  );

  it('are ended when the shutdown came before the server had answered initialize', async () => {
    const server = await serve();
    server.on('initialize', () => new Promise((resolve) => setTimeout(resolve, 300, 'normal' as const)));
    const use = expect(pool.sessions.tools('weather')).rejects.toMatchObject({ statusCode: 503 });
    await server.seen('initialize');
    await pool.sessions.close(1000);
    await use;
    expect(server.of('DELETE').map((request) => request.headers['mcp-session-id'])).toEqual(['s-1']);
  });

  it('are ended when the answer that opened them is of no use', async () => {
    const server = await serve({
      on: { initialize: { result: { protocolVersion: '1999-01-01' }, headers: { 'Mcp-Session-Id': 'odd' } } },
    });
    await expect(pool.sessions.tools('weather')).rejects.toMatchObject({ code: 'version_unsupported' });
    expect((await server.seen('DELETE')).headers['mcp-session-id']).toBe('odd');
  });

  it('do not hold up the shutdown when the server does not end them', async () => {
    const server = await serve({ on: { 'tools/list': { hold: 'never' }, DELETE: { hold: 'never' } } });
    const use = expect(pool.sessions.tools('weather')).rejects.toMatchObject({ statusCode: 503 });
    await server.seen('tools/list');
    await pool.sessions.close(100);
    await use;
    expect(server.of('DELETE')).toHaveLength(1);
  });
});
