import { createServer, type Server } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import { createClock } from '../support/clock.ts';
import { type FakeMcpScript, type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { openPool, type Pool } from './pool.ts';

const SWEEP_MS = 5;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DECLARED = { enabled: true, agents: [] } as const;

describe('connections that fail are tried again by themselves', () => {
  let pool: Pool;
  let clock = createClock();
  const servers: { stop(): Promise<void> }[] = [];

  async function serve(script: FakeMcpScript = {}, options: Parameters<Pool['add']>[2] = {}): Promise<FakeMcpServer> {
    const server = await startFakeMcpServer(script);
    servers.push({ stop: () => server.stop().catch(() => undefined) });
    pool.add('weather', `${server.origin}/mcp`, { config: { max_retry_times: 0 }, ...options });
    return server;
  }
  const report = () => pool.sessions.report('weather');
  const statusNow = async () => (await report()).status;
  /** Long enough for several looks at all connections. */
  const looks = () => sleep(10 * SWEEP_MS);

  beforeEach(async () => {
    clock = createClock();
    pool = await openPool({ sweepMs: SWEEP_MS }, clock.now, { random: () => 0.5 });
  });
  afterEach(async () => {
    await pool.dispose();
    await Promise.all(servers.splice(0).map((server) => server.stop()));
  });

  it('at the time the status names, and not before', async () => {
    const server = await serve();
    await pool.sessions.tools('weather');
    await server.stop();
    await report().then(() => pool.sessions.report('weather', { probe: true }));
    const { status, error } = await report();
    expect(status).toBe('failed');
    expect(error?.next_retry_time).toBe(clock.now() + 15_000);
    await server.start();
    clock.advance(14_999);
    await looks();
    expect(await statusNow()).toBe('failed');
    clock.advance(1);
    await expect.poll(statusNow).toBe('connected');
    expect(await report()).not.toHaveProperty('error');
    expect(server.of('initialize')).toHaveLength(2);
    const [last, before] = await pool.sessions.history('weather', 2);
    expect([before?.to, before?.cause, last?.to]).toEqual(['connecting', 'tried again', 'connected']);
  });

  it.each([
    ['auth_required', { status: 401 }, 'auth_required'],
    ['forbidden', { status: 403 }, 'failed'],
    ['wrong_path', { status: 404 }, 'failed'],
    ['not_mcp', { status: 200, headers: { 'Content-Type': 'text/html' }, body: '<html>' }, 'failed'],
  ] as const)('but not after %s, which waits for a person', async (code, reply, status) => {
    const server = await serve({ on: { '*': reply } }, { declared: DECLARED, config: { max_retry_times: 0 } });
    await expect(pool.sessions.tools('weather')).rejects.toMatchObject({ code });
    const asked = server.requests.length;
    server.on('*', 'normal');
    clock.advance(24 * HOUR);
    await looks();
    expect(server.requests).toHaveLength(asked);
    expect(await report()).toMatchObject({ status, error: { code } });
    expect((await report()).error).not.toHaveProperty('next_retry_time');
  });

  it('no sooner than the server asks', async () => {
    const server = await serve({ on: { '*': { status: 503, headers: { 'Retry-After': '600' } } } });
    await expect(pool.sessions.tools('weather')).rejects.toMatchObject({ code: 'server_error' });
    const asked = server.requests.length;
    expect((await report()).error?.next_retry_time).toBe(clock.now() + 600_000);
    server.on('*', 'normal');
    clock.advance(599_000);
    await looks();
    expect(server.requests).toHaveLength(asked);
    clock.advance(1000);
    await expect.poll(statusNow).toBe('connected');
  });

  it('and a wait a server asks for is no more than an hour', async () => {
    await serve({ on: { '*': { status: 429, headers: { 'Retry-After': '31536000' } } } }, { declared: DECLARED });
    await expect(pool.sessions.tools('weather')).rejects.toMatchObject({ code: 'rate_limited' });
    expect((await report()).error?.next_retry_time).toBe(clock.now() + HOUR);
  });

  it('for an hour after the last use where they come from the API', async () => {
    const server = await serve();
    await pool.sessions.tools('weather');
    await server.stop();
    await pool.sessions.report('weather', { probe: true });
    clock.advance(HOUR);
    await expect.poll(async () => (await report()).error?.attempts).toBe(1);
    expect((await report()).error).not.toHaveProperty('next_retry_time');
    await server.start();
    clock.advance(24 * HOUR);
    await looks();
    expect(await statusNow()).toBe('failed');
    await pool.sessions.tools('weather');
    expect(await statusNow()).toBe('connected');
  });

  it('but never while they are disabled', async () => {
    const server = await serve({}, { declared: DECLARED });
    await pool.sessions.tools('weather');
    await server.stop();
    await pool.sessions.report('weather', { probe: true });
    await pool.sessions.act('weather', 'disable', OPEN_PRINCIPAL);
    await server.start();
    clock.advance(24 * HOUR);
    await looks();
    expect(server.of('initialize')).toHaveLength(1);
    expect(await statusNow()).toBe('disabled');
  });

  it('and never while MCP is switched off', async () => {
    const server = await serve({}, { declared: DECLARED });
    await pool.sessions.tools('weather');
    await server.stop();
    await pool.sessions.report('weather', { probe: true });
    await server.start();
    pool.setEnabled(false);
    clock.advance(HOUR);
    await looks();
    expect(server.of('initialize')).toHaveLength(1);
    pool.setEnabled(true);
    await expect.poll(statusNow).toBe('connected');
  });

  describe('at a server that takes connections and drops them', () => {
    let dead: Server;
    let connections = 0;

    beforeEach(async () => {
      connections = 0;
      dead = createServer((socket) => {
        connections += 1;
        socket.on('error', () => undefined);
        socket.resetAndDestroy();
      });
      await new Promise<void>((resolve) => dead.listen(0, '127.0.0.1', resolve));
      servers.push({ stop: () => new Promise((resolve) => dead.close(() => resolve())) });
    });
    const url = () => `http://127.0.0.1:${(dead.address() as { port: number }).port}/mcp`;

    it('one attempt a minute at most, while nobody uses it', async () => {
      pool.add('weather', url(), { declared: DECLARED });
      pool.sessions.start();
      await expect.poll(statusNow).toBe('failed');
      const atStart = connections;
      const times: number[] = [];
      for (let second = 0; second < 3600; second += 20) {
        clock.advance(20_000);
        const seen = connections;
        await sleep(3 * SWEEP_MS);
        await expect.poll(statusNow).toBe('failed');
        if (connections > seen) times.push(clock.now());
      }
      expect(connections - atStart).toBeLessThanOrEqual(30);
      expect(times.length).toBeGreaterThan(10);
      for (const [at, time] of times.entries())
        if (at > 0) expect(time - (times[at - 1] ?? 0)).toBeGreaterThanOrEqual(MINUTE);
    });

    it('a bounded number in an hour for 500 agents that keep using it', async () => {
      pool.add('weather', url(), { config: { max_retry_times: 1, retry_backoff_millis: 1 } });
      let refused = 0;
      for (let second = 0; second < 3600; second += 30) {
        const uses = await Promise.allSettled(Array.from({ length: 500 }, () => pool.sessions.tools('weather')));
        refused += uses.filter(({ status }) => status === 'rejected').length;
        clock.advance(30_000);
      }
      expect(refused).toBe(120 * 500);
      expect(connections).toBeGreaterThan(10);
      expect(connections).toBeLessThanOrEqual(120);
      expect(pool.lines.length).toBeLessThan(1000);
    });
  });

  describe('when a local process exits', () => {
    const program = (life: string): string[] => [
      '-e',
      `process.stderr.write('pid ' + process.pid + '\\n');
       let rest = '';
       process.stdin.on('data', (chunk) => {
         rest += chunk;
         for (let end; (end = rest.indexOf('\\n')) >= 0; rest = rest.slice(end + 1)) answer(JSON.parse(rest.slice(0, end)));
       });
       function answer({ id, method, params }) {
         if (id === undefined) return;
         const result = {
           initialize: { protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'p', version: '1' } },
           'tools/list': { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] },
         }[method];
         const error = { code: -32601, message: 'Method not found' };
         process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result } : { error }) }) + '\\n');
         if (method === 'tools/list') { ${life} }
       }`,
    ];

    it('the status says so at once, and it is started again after a second', async () => {
      pool.addLocal('weather', program(''));
      pool.sessions.start();
      await expect.poll(statusNow).toBe('connected');
      expect(await report()).toMatchObject({ origin: 'config', transport: 'local', tool_count: 1 });
      const [line = ''] = (await report()).stderr ?? [];
      clock.advance(2 * MINUTE);
      process.kill(Number(line.replace('pid ', '')), 'SIGKILL');
      await expect.poll(statusNow).toBe('failed');
      const { error, stderr } = await report();
      expect(error).toMatchObject({ code: 'process_exited', next_retry_time: clock.now() + 1000 });
      expect(stderr).toEqual([line]);
      clock.advance(1000);
      await expect.poll(statusNow).toBe('connected');
      expect((await report()).stderr).not.toEqual([line]);
    });

    it('and one that keeps exiting is not started again and again', async () => {
      pool.addLocal('weather', program('setTimeout(() => process.exit(3), 5)'));
      pool.sessions.start();
      await expect.poll(async () => (await report()).error?.code).toBe('process_exited');
      for (let second = 0; second < 600; second += 10) {
        clock.advance(10_000);
        await sleep(3 * SWEEP_MS);
        await expect.poll(statusNow, { timeout: 5000 }).toBe('failed');
      }
      const starts = (await pool.sessions.history('weather', 1000)).filter(({ to }) => to === 'connecting').length;
      expect(starts).toBeGreaterThan(2);
      expect(starts).toBeLessThanOrEqual(12);
    });
  });
});

describe('late results of an opening', () => {
  let pool: Pool;
  const servers: FakeMcpServer[] = [];

  /** A server that does not answer `tools/list` until it is let go. */
  async function held(): Promise<{ server: FakeMcpServer; opening: Promise<unknown>; release: () => void }> {
    let release = (): void => undefined;
    const wait = new Promise<void>((resolve) => {
      release = resolve;
    });
    const server = await startFakeMcpServer({
      on: { 'tools/list': [() => wait.then(() => 'normal' as const), 'normal'] },
    });
    servers.push(server);
    pool.add('weather', `${server.origin}/mcp`);
    const opening = pool.sessions.tools('weather').catch((error: unknown) => error);
    await server.seen('tools/list');
    expect((await pool.sessions.report('weather')).status).toBe('connecting');
    return { server, opening, release };
  }

  beforeEach(async () => {
    pool = await openPool();
  });
  afterEach(async () => {
    await pool.dispose();
    await Promise.all(servers.splice(0).map((server) => server.stop()));
  });

  it('do not undo that it was disabled meanwhile', async () => {
    const { server, opening, release } = await held();
    await pool.sessions.act('weather', 'disable', OPEN_PRINCIPAL);
    release();
    expect(await opening).toMatchObject({ code: 'disabled' });
    await server.seen('DELETE');
    expect(await pool.sessions.report('weather')).toMatchObject({ status: 'disabled', tool_count: 0 });
    expect((await pool.sessions.history('weather', 10)).map(({ to }) => to)).toEqual(['disabled', 'connecting']);
  });

  it('are not those of the server an update has led to', async () => {
    const { opening, release } = await held();
    const other = await startFakeMcpServer({ tools: [{ name: 'other', inputSchema: { type: 'object' } }] });
    servers.push(other);
    await pool.update('weather', { url: `${other.origin}/mcp` });
    release();
    expect(await opening).toMatchObject({ tools: [{ name: 'other' }] });
    expect(await pool.sessions.report('weather')).toMatchObject({ status: 'connected', tools: [{ name: 'other' }] });
  });

  it('leave nothing of a connector that was deleted meanwhile', async () => {
    const { opening, release } = await held();
    await pool.remove('weather');
    release();
    expect(await opening).toMatchObject({ statusCode: 404 });
    expect(await pool.connections.state('weather')).toBeUndefined();
    expect(await pool.sessions.history('weather', 10)).toEqual([]);
  });
});
