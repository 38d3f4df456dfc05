import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { type FakeMcpScript, type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { openPool, type Pool, textOf } from './pool.ts';

const tool = (name: string): JsonObject => ({ name, inputSchema: { type: 'object' } });

describe('status and lists of MCP connections', () => {
  let pool: Pool;
  const servers: FakeMcpServer[] = [];

  async function serve(script: FakeMcpScript = {}, config = {}): Promise<FakeMcpServer> {
    const server = await startFakeMcpServer(script);
    servers.push(server);
    pool.add('weather', `${server.origin}/mcp`, { config });
    return server;
  }

  beforeEach(async () => {
    pool = await openPool();
  });
  afterEach(async () => {
    await pool.dispose();
    await Promise.all(servers.splice(0).map((server) => server.stop()));
  });

  it('is idle, with what can be done, before the first use', async () => {
    const server = await serve();
    expect(await pool.sessions.report('weather')).toMatchObject({
      connector_id: 'weather',
      name: 'weather',
      origin: 'api',
      transport: 'remote',
      status: 'idle',
      tool_count: 0,
      tools: [],
      breaker: { state: 'closed', failures: 0 },
      actions: ['reconnect', 'disable'],
    });
    expect(server.requests).toEqual([]);
  });

  it('opens an idle connection and makes a round trip on an open one when it is probed', async () => {
    const server = await serve();
    const first = await pool.sessions.report('weather', { probe: true });
    expect(first).toMatchObject({ status: 'connected', tool_count: 1 });
    const second = await pool.sessions.report('weather', { probe: true });
    expect(server.of('ping')).toHaveLength(1);
    expect(second.last_success_time).toBeGreaterThanOrEqual(first.last_success_time ?? Number.POSITIVE_INFINITY);
    await server.stop();
    const third = await pool.sessions.report('weather', { probe: true });
    expect(third).toMatchObject({ status: 'failed', tool_count: 1, tools: [{ name: 'echo', state: 'known' }] });
    await server.start();
    expect(await pool.sessions.report('weather', { probe: true })).toMatchObject({ status: 'connected' });
  });

  it('opens a new session when a probe finds the old one lost', async () => {
    const server = await serve();
    await pool.sessions.tools('weather');
    server.forget();
    expect(await pool.sessions.report('weather', { probe: true })).toMatchObject({ status: 'connected' });
    expect(server.of('initialize')).toHaveLength(2);
  });

  it('takes a server that knows no ping as alive', async () => {
    await serve({ on: { ping: { error: { code: -32601, message: 'Method not found' } } } });
    await pool.sessions.tools('weather');
    expect(await pool.sessions.report('weather', { probe: true })).toMatchObject({ status: 'connected' });
  });

  it('stores each transition with its cause', async () => {
    const server = await serve();
    await pool.sessions.tools('weather');
    await server.stop();
    await pool.sessions.report('weather', { probe: true });
    const history = await pool.connections.history('weather', 10);
    expect(history.map(({ from, to }) => `${from} ${to}`)).toEqual([
      'connected failed',
      'connecting connected',
      'idle connecting',
    ]);
    expect(history[0]).toMatchObject({ cause: 'probe', message: expect.stringContaining('weather') });
    expect(history[2]).toMatchObject({ cause: 'first use' });
  });

  it('keeps failures over a restart; what was open is idle then', async () => {
    const server = await serve({ on: { '*': { status: 401 } } });
    await expect(pool.sessions.tools('weather')).rejects.toMatchObject({ action: 'authenticate', statusCode: 409 });
    const before = await pool.sessions.report('weather');
    expect(before.actions).toEqual(['disable']);
    const after = await pool.restarted().report('weather');
    expect(after).toMatchObject({ status: 'auth_required', since: before.since, error: { code: 'auth_required' } });
    server.on('*', 'normal');
    await pool.sessions.tools('weather');
    expect(await pool.sessions.report('weather')).not.toHaveProperty('error');
    const again = await pool.restarted().report('weather');
    expect(again).toMatchObject({ status: 'idle', tool_count: 1, protocol_version: '2025-11-25' });
    expect(again).not.toHaveProperty('error');
  });

  it('registers the tools it discovers', async () => {
    const server = await serve({ tools: [tool('a'), tool('b')] });
    await pool.sessions.tools('weather');
    server.tools([tool('b'), tool('c')]);
    await pool.sessions.reset('weather', 'test');
    await pool.sessions.tools('weather');
    const rows = await pool.mcpTools.list('weather');
    expect(rows.map(({ name, present }) => [name, present])).toEqual([
      ['b', true],
      ['c', true],
      ['a', false],
    ]);
    expect(rows[0]?.definition).toMatchObject({ name: 'b', inputSchema: { type: 'object', properties: {} } });
  });

  it('reads all pages', async () => {
    const page = (n: number): JsonObject => ({ tools: [tool(`t${n}`)], ...(n < 5 && { nextCursor: `c${n + 1}` }) });
    const server = await serve({
      on: {
        'tools/list': ({ message }) => {
          const cursor = (message?.params as JsonObject | undefined)?.cursor;
          return { result: page(typeof cursor === 'string' ? Number(cursor.slice(1)) : 1) };
        },
      },
    });
    const { tools, warnings } = await pool.sessions.tools('weather');
    expect(tools.map(({ name }) => name)).toEqual(['t1', 't2', 't3', 't4', 't5']);
    expect(warnings).toEqual([]);
    expect(server.of('tools/list')).toHaveLength(5);
  });

  it('does not follow pages in circles', async () => {
    const server = await serve({
      on: { 'tools/list': { result: { tools: [tool('a'), tool('b')], nextCursor: '2' } } },
    });
    expect((await pool.sessions.tools('weather')).tools.map(({ name }) => name)).toEqual(['a', 'b']);
    expect(server.of('tools/list').length).toBeLessThanOrEqual(3);
    expect((await pool.sessions.report('weather')).warnings?.[0]).toContain('circles');
  });

  it('stops after 64 pages', async () => {
    let n = 0;
    const server = await serve({
      on: {
        'tools/list': () => {
          n += 1;
          return { result: { tools: [tool(`t${n}`)], nextCursor: `c${n}` } };
        },
      },
    });
    const { tools, warnings } = await pool.sessions.tools('weather');
    expect(tools).toHaveLength(64);
    expect(warnings[0]).toContain('more than 64 pages');
    expect(server.of('tools/list')).toHaveLength(64);
  });

  it('starts again when a cursor is no longer valid', async () => {
    let refused = false;
    await serve({
      on: {
        'tools/list': ({ message }) => {
          const cursor = (message?.params as JsonObject | undefined)?.cursor;
          if (cursor === undefined) return { result: { tools: [tool('a')], nextCursor: 'next' } };
          if (refused) return { result: { tools: [tool('b')] } };
          refused = true;
          return { error: { code: -32602, message: 'bad cursor' } };
        },
      },
    });
    expect((await pool.sessions.tools('weather')).tools.map(({ name }) => name)).toEqual(['a', 'b']);
  });

  it('takes a server without tools as one with none', async () => {
    await serve({ capabilities: {}, on: { 'tools/list': { error: { code: -32601, message: 'Method not found' } } } });
    expect((await pool.sessions.tools('weather')).tools).toEqual([]);
    expect((await pool.sessions.report('weather')).status).toBe('connected');
  });

  it('says so when tools/list has no list', async () => {
    await serve({ on: { 'tools/list': { result: { tools: 'none' } } } });
    await expect(pool.sessions.tools('weather')).rejects.toMatchObject({ code: 'tools_invalid' });
  });

  it('shows the tools that are left out, and calls the others', async () => {
    const server = await serve({ tools: [tool('calendar.list'), { name: 'none' }] });
    expect(textOf(await pool.call('weather', 'calendar.list', {}))).toBe('calendar.list: {}');
    expect(server.of('tools/call')[0]?.message?.params).toMatchObject({ name: 'calendar.list' });
    expect(await pool.sessions.report('weather')).toMatchObject({
      tool_count: 1,
      tools: [
        { name: 'calendar.list', offered_as: 'weather_calendar_list', state: 'available' },
        { name: 'none', offered_as: '', state: 'left_out', reason: 'it has no inputSchema' },
      ],
      left_out: [{ name: 'none', reason: 'it has no inputSchema' }],
    });
  });

  it('says why a tool is offered under another name', async () => {
    await serve({ tools: [tool('echo'), tool('a b'), tool('a.b')] });
    await pool.sessions.tools('weather');
    const { tools } = await pool.sessions.report('weather');
    expect(tools[0]).toEqual({ name: 'echo', offered_as: 'echo', state: 'available' });
    expect(tools[1]).toMatchObject({
      name: 'a b',
      offered_as: 'weather_a_b',
      reason: 'offered as weather_a_b: its own name is not one that models take: 1 to 64 letters, digits, _ and -',
    });
    expect(tools[2]?.offered_as).toMatch(/^weather_a_b_[0-9a-f]{8}$/);
  });

  it('shows no tools of the server a connector led to before its address changed', async () => {
    const server = await serve({ tools: [tool('old')] });
    await pool.sessions.tools('weather');
    await pool.update('weather', {});
    expect(await pool.sessions.report('weather')).toMatchObject({ status: 'idle', tools: [{ name: 'old' }] });
    await pool.update('weather', { url: `${server.origin}/elsewhere` });
    const moved = await pool.sessions.report('weather');
    expect(moved).toMatchObject({ status: 'idle', tool_count: 0, tools: [] });
    expect(moved).not.toHaveProperty('protocol_version');
    expect(moved).not.toHaveProperty('last_success_time');
    expect((await pool.mcpTools.list('weather')).map(({ name, present }) => [name, present])).toEqual([['old', false]]);
    expect(await pool.restarted().report('weather')).toMatchObject({ status: 'idle', tool_count: 0 });
  });

  it('shows none of them either when the update came before the first use since the restart', async () => {
    const server = await serve({ tools: [tool('old')] });
    await pool.sessions.tools('weather');
    await pool.sessions.close(100);
    const restarted = pool.restarted();
    expect(await restarted.report('weather')).toMatchObject({ tools: [{ name: 'old', state: 'known' }] });
    await pool.update('weather', { url: `${server.origin}/elsewhere` });
    expect(await restarted.report('weather')).toMatchObject({ tool_count: 0, tools: [] });
  });

  it('reads the status of all connectors with as many queries as that of one', async () => {
    for (let n = 0; n < 50; n += 1) pool.add(`c${n}`, `http://127.0.0.1:9/${n}`);
    await serve();
    await pool.sessions.tools('weather');
    await pool.sessions.close(100);
    const asked: string[] = [];
    for (const [store, names] of [
      [pool.connections, ['state', 'states', 'history']],
      [pool.mcpTools, ['list', 'presentNames']],
    ] as const) {
      for (const name of names) {
        const real = (store as unknown as Record<string, (...values: unknown[]) => unknown>)[name];
        Object.assign(store, {
          [name]: (...values: unknown[]) => {
            asked.push(name);
            return real?.(...values);
          },
        });
      }
    }
    const restarted = pool.restarted();
    expect(await restarted.reports()).toHaveLength(51);
    expect((await restarted.reports()).at(-1)).toMatchObject({ connector_id: 'weather', tools: [{ name: 'echo' }] });
    expect(asked.sort()).toEqual(['presentNames', 'presentNames', 'states']);
  });

  it('lists those that are asked for', async () => {
    await serve();
    pool.add('other', 'http://127.0.0.1:9/');
    const reports = await pool.sessions.reports(({ id }) => id === 'other');
    expect(reports.map(({ connector_id: id }) => id)).toEqual(['other']);
  });

  it('has MCP in the line of each connect, retry, failure and close', async () => {
    await serve({ on: { initialize: [{ status: 503 }, 'normal'] } });
    await pool.sessions.tools('weather');
    await pool.sessions.reset('weather', 'agent deleted');
    const messages = pool.lines.map((line) => (JSON.parse(line) as { msg: string }).msg);
    expect(messages).toEqual([
      expect.stringMatching(/^MCP retry of connector "weather"/),
      expect.stringMatching(/^MCP connected to connector "weather"/),
      expect.stringMatching(/^MCP connection to connector "weather" closed: agent deleted/),
    ]);
  });
});
