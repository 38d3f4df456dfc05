import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { createClock } from '../support/clock.ts';
import { type FakeMcpScript, type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { openPool, type Pool } from './pool.ts';

const SWEEP_MS = 5;
const DECLARED = { enabled: true, agents: [] } as const;
const CHANGED = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';
const tool = (name: string): JsonObject => ({ name, inputSchema: { type: 'object' } });

/** Events of a stream as a test says them, one after the other. */
function spoken(): { events: (() => Promise<string | undefined>)[]; say: (text: string) => void } {
  const waiting: ((text: string) => void)[] = [];
  const events = Array.from({ length: 1000 }, () => () => new Promise<string>((resolve) => waiting.push(resolve)));
  const said: string[] = [];
  const say = (text: string): void => {
    said.push(text);
    const next = waiting.shift();
    if (next === undefined) throw new Error(`nobody listens for ${said.length} events`);
    next(text);
  };
  return { events, say };
}

describe('what is done for connections that nobody uses', () => {
  let pool: Pool;
  let clock = createClock();
  const published: { type: string; data: JsonObject }[] = [];
  const servers: FakeMcpServer[] = [];

  async function serve(script: FakeMcpScript = {}): Promise<FakeMcpServer> {
    const server = await startFakeMcpServer(script);
    servers.push(server);
    return server;
  }
  const report = (id = 'weather') => pool.sessions.report(id);
  const toolsNow = async () => (await report()).tools.map(({ name }) => name);

  beforeEach(async () => {
    clock = createClock();
    published.length = 0;
    pool = await openPool({ sweepMs: SWEEP_MS }, clock.now, {
      random: () => 0.5,
      events: { publish: ({ type, data }) => void published.push({ type, data }) },
    });
  });
  afterEach(async () => {
    await pool.dispose();
    await Promise.all(servers.splice(0).map((server) => server.stop()));
  });

  it('those that are due first are tried first, however many fail again; the others are overdue, and say so', async () => {
    const hole = await serve({ on: { '*': { status: 503 } } });
    const holes = Array.from({ length: 25 }, (_, index) => `hole${index}`);
    const config = { max_retry_times: 0, connection_timeout: 3 };
    for (const id of holes) pool.add(id, `${hole.origin}/mcp`, { declared: DECLARED, config });
    const server = await serve({ on: { '*': { status: 503 } } });
    pool.add('weather', `${server.origin}/mcp`, { declared: DECLARED, config });
    for (const id of holes) await pool.sessions.report(id);
    await expect(pool.sessions.tools('weather')).rejects.toThrow();
    clock.advance(1000);
    await Promise.all(holes.map((id) => pool.sessions.tools(id).catch(() => undefined)));
    hole.on('*', { hold: 'never' });
    server.on('*', 'normal');
    clock.advance(60_000);
    await expect.poll(async () => (await report()).status).toBe('connected');
    const reports = await Promise.all(holes.map((id) => report(id)));
    const trying = reports.filter(({ status }) => status === 'connecting');
    expect(trying.length).toBeLessThanOrEqual(20);
    const waiting = reports.filter(({ status }) => status === 'failed');
    expect(waiting.length).toBeGreaterThanOrEqual(5);
    expect(new Set(waiting.map(({ error }) => error?.next_retry_time))).toEqual(new Set([clock.now()]));
    pool.setEnabled(false);
    expect((await report(waiting[0]?.connector_id)).error).not.toHaveProperty('next_retry_time');
  });

  describe('a server that answers none of our requests is found out', () => {
    it('though it speaks on the listening stream', async () => {
      const { events, say } = spoken();
      const server = await serve({ on: { GET: { sse: events, hold: 'open' } } });
      pool.add('weather', `${server.origin}/mcp`, { config: { max_retry_times: 0 } });
      await pool.sessions.tools('weather');
      await server.seen('GET');
      server.on('ping', { status: 500 });
      clock.advance(59_999);
      say('{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}');
      await sleep(4 * SWEEP_MS);
      say('{"jsonrpc":"2.0","id":"q-1","method":"ping"}');
      await server.seen('(response)');
      await sleep(4 * SWEEP_MS);
      expect((await report()).status).toBe('connected');
      clock.advance(1);
      await expect.poll(async () => (await report()).status).toBe('failed');
    });

    it('though its process speaks, unless that is progress of our call', async () => {
      pool.addLocal(
        'weather',
        [
          '-e',
          `let rest = '', call;
           const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n');
           process.stdin.on('data', (chunk) => {
             rest += chunk;
             for (let end; (end = rest.indexOf('\\n')) >= 0; rest = rest.slice(end + 1)) take(JSON.parse(rest.slice(0, end)));
           });
           function take({ id, method, params }) {
             if (id === undefined || method === 'ping') return;
             if (method === 'tools/call') { call = { id, token: params._meta?.progressToken }; return; }
             const result = {
               initialize: { protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'p', version: '1' } },
               'tools/list': { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] },
             }[method];
             say({ id, ...(result ? { result } : { error: { code: -32601, message: 'Method not found' } }) });
           }
           let ticks = 0;
           setInterval(() => {
             ticks += 1;
             if (call) say({ method: 'notifications/progress', params: { progressToken: call.token, progress: ticks } });
             else say({ method: 'notifications/message', params: { level: 'info', data: 'x' } });
             if (call && ticks > 200) { say({ id: call.id, result: { content: [] } }); call = undefined; ticks = -1e9; }
           }, 10);`,
        ],
        { config: { connection_timeout: 1, max_retry_times: 0 } },
      );
      await pool.sessions.tools('weather');
      const call = pool.call('weather', 'echo', {}, { onProgress: () => undefined });
      const minutes = async () => {
        for (let tenth = 0; tenth < 20; tenth += 1) {
          clock.advance(10_000);
          await sleep(30);
        }
      };
      await minutes();
      expect((await report()).status).toBe('connected');
      await call;
      await minutes();
      await expect.poll(async () => (await report()).status, { timeout: 5000 }).toBe('failed');
    });
  });

  describe('a list that its server says has changed', () => {
    let server: FakeMcpServer;
    let say: (text: string) => void;

    beforeEach(async () => {
      const stream = spoken();
      say = stream.say;
      server = await serve({ tools: [tool('a')], on: { GET: { sse: stream.events, hold: 'open' } } });
      pool.add('weather', `${server.origin}/mcp`, { config: { max_retry_times: 0 } });
      await pool.sessions.tools('weather');
      await server.seen('GET');
    });
    /** Resolves when the notice was taken in. */
    async function change(): Promise<void> {
      say(CHANGED);
      await expect.poll(() => pool.lines.some((line) => line.includes('it changed'))).toBe(true);
    }

    it('is read again a second later: in the status, the store and the events', async () => {
      published.length = 0;
      server.tools([tool('b')]);
      await change();
      await sleep(4 * SWEEP_MS);
      expect(await toolsNow()).toEqual(['a']);
      clock.advance(1000);
      await expect.poll(toolsNow).toEqual(['b']);
      const rows = await pool.mcpTools.list('weather');
      expect(rows.map(({ name, present }) => [name, present])).toContainEqual(['b', true]);
      await expect
        .poll(() => published.filter(({ type }) => type === 'tools').map(({ data }) => data))
        .toEqual([expect.objectContaining({ added: ['b'], removed: ['a'] })]);
      expect(server.of('initialize')).toHaveLength(1);
    });

    it('is read every 10 s at most, however often it says so', async () => {
      for (let tenth = 0; tenth < 600; tenth += 1) {
        say(CHANGED);
        await sleep(1);
        clock.advance(100);
      }
      await sleep(4 * SWEEP_MS);
      const readings = server.of('tools/list').length - 1;
      expect(readings).toBeGreaterThanOrEqual(3);
      expect(readings).toBeLessThanOrEqual(6);
    });

    it('is read by a probe at once', async () => {
      server.tools([tool('b')]);
      await change();
      const { tools } = await pool.sessions.report('weather', { probe: true });
      expect(tools.map(({ name }) => name)).toEqual(['b']);
      await change();
      for (let probe = 0; probe < 5; probe += 1) await pool.sessions.report('weather', { probe: true });
      expect(server.of('tools/list')).toHaveLength(2);
    });

    it('and cannot be read any more makes it fail though nobody uses it', async () => {
      server.on('tools/list', { status: 500 });
      await change();
      clock.advance(1000);
      await expect.poll(async () => (await report()).error?.code).toBe('server_error');
    });

    it('and is refused by a rate limit is read later', async () => {
      server.tools([tool('b')]);
      server.on('tools/list', [{ status: 429 }, 'normal']);
      await change();
      clock.advance(1000);
      await server.seen('tools/list', 2);
      await sleep(4 * SWEEP_MS);
      expect(await toolsNow()).toEqual(['a']);
      clock.advance(10_000);
      await expect.poll(toolsNow).toEqual(['b']);
    });
  });
});
