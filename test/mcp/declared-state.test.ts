import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import { type FakeMcpScript, type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { openPool, type Pool } from './pool.ts';

const DECLARED = { enabled: true, agents: [] } as const;
const PROBLEM = {
  code: 'invalid_config',
  message: 'Server "weather" names the variable WEATHER_KEY, which is not set.',
  remedy: 'Set WEATHER_KEY and restart.',
} as const;

describe('servers that the configuration file declares', () => {
  let pool: Pool;
  const servers: FakeMcpServer[] = [];

  async function serve(name: string, script: FakeMcpScript = {}, declared: object = {}): Promise<FakeMcpServer> {
    const server = await startFakeMcpServer(script);
    servers.push(server);
    const config = { max_retry_times: 0, connection_timeout: 2 };
    pool.add(name, `${server.origin}/mcp`, { declared: { ...DECLARED, ...declared }, config });
    return server;
  }
  const statusOf = async (name: string) => (await pool.sessions.report(name)).status;

  beforeEach(async () => {
    pool = await openPool();
  });
  afterEach(async () => {
    await pool.dispose();
    await Promise.all(servers.splice(0).map((server) => server.stop().catch(() => undefined)));
  });

  it('are connected at the start, all at the same time, and none waits for another', async () => {
    await serve('slow', { on: { '*': { hold: 'never' } } });
    await serve('good');
    const dead = await serve('dead');
    const off = await serve('off', {}, { enabled: false });
    await dead.stop();
    pool.sessions.start();
    await expect.poll(() => statusOf('good')).toBe('connected');
    await expect.poll(() => statusOf('dead')).toBe('failed');
    expect(await statusOf('slow')).toBe('connecting');
    expect(await pool.sessions.report('off')).toMatchObject({ status: 'disabled', actions: ['enable'] });
    expect(off.requests).toEqual([]);
    expect(await pool.sessions.report('good')).toMatchObject({ origin: 'config', transport: 'remote' });
    expect((await pool.sessions.history('good', 10)).at(-1)).toMatchObject({ from: 'idle', cause: 'start' });
  });

  it('are not contacted at the start while MCP is switched off', async () => {
    const server = await serve('good');
    pool.setEnabled(false);
    pool.sessions.start();
    expect(await statusOf('good')).toBe('idle');
    expect(server.requests).toEqual([]);
  });

  it('that cannot be used say why, and reconnecting says it again', async () => {
    const server = await serve('weather', {}, { problem: PROBLEM });
    pool.sessions.start();
    const report = { status: 'failed', error: PROBLEM, actions: ['reconnect', 'disable'] };
    const { since } = await pool.sessions.report('weather');
    expect(await pool.sessions.report('weather')).toMatchObject(report);
    expect(await pool.sessions.act('weather', 'reconnect', OPEN_PRINCIPAL)).toMatchObject({ ...report, since });
    await expect(pool.call('weather', 'echo')).rejects.toMatchObject({ code: 'invalid_config' });
    expect((await pool.sessions.report('weather')).error).not.toHaveProperty('next_retry_time');
    expect(server.requests).toEqual([]);
    expect(pool.lines.filter((line) => line.includes('MCP server not usable'))).toHaveLength(1);
  });

  it('tell the warnings of their entry before those of their server', async () => {
    const server = await startFakeMcpServer({ tools: [{ name: '' }, { name: 'a', inputSchema: { type: 'object' } }] });
    servers.push(server);
    const declared = { enabled: true, agents: [], warnings: ['not read: timout'] };
    pool.add('weather', `${server.origin}/mcp`, { declared });
    expect((await pool.sessions.report('weather')).warnings).toEqual(['not read: timout']);
    await pool.sessions.tools('weather');
    expect((await pool.sessions.report('weather')).warnings?.[0]).toBe('not read: timout');
  });

  it('are switched until the restart and no longer, whatever was stored', async () => {
    await serve('weather');
    await pool.sessions.tools('weather');
    await pool.sessions.act('weather', 'disable', OPEN_PRINCIPAL);
    await expect(pool.sessions.tools('weather')).rejects.toMatchObject({ code: 'disabled', statusCode: 409 });
    const restarted = pool.restarted();
    expect(await restarted.report('weather')).toMatchObject({ status: 'idle', tool_count: 1 });
    expect(await restarted.report('weather')).not.toHaveProperty('last_success_time');
    restarted.start();
    await expect.poll(async () => (await restarted.report('weather')).status).toBe('connected');
    const causes = (await restarted.history('weather', 10)).map(({ to, cause }) => `${to}: ${cause}`);
    expect(causes).toEqual([
      'connected: start',
      'connecting: start',
      'disabled: disable by open',
      'connected: first use',
      'connecting: first use',
    ]);
  });

  it('that were enabled by hand are disabled again by the restart', async () => {
    await serve('off', {}, { enabled: false });
    expect(await pool.sessions.act('off', 'enable', OPEN_PRINCIPAL)).toMatchObject({ status: 'connected' });
    expect(await pool.restarted().report('off')).toMatchObject({ status: 'disabled' });
  });

  it('that failed begin anew', async () => {
    const server = await serve('weather');
    await server.stop();
    await expect(pool.sessions.tools('weather')).rejects.toMatchObject({ code: 'connection_refused' });
    const restarted = pool.restarted();
    expect(await restarted.report('weather')).toMatchObject({ status: 'idle' });
    expect(await restarted.report('weather')).not.toHaveProperty('error');
    expect((await restarted.reports())[0]).toMatchObject({ status: 'idle' });
  });

  it('offer their tools under their own name, and say so', async () => {
    await serve('weather', { tools: [{ name: 'now', inputSchema: { type: 'object' } }] });
    await pool.sessions.tools('weather');
    expect((await pool.sessions.report('weather')).tools).toEqual([
      {
        name: 'now',
        offered_as: 'weather_now',
        state: 'available',
        reason: 'offered as weather_now: the tools of a declared server carry its name',
      },
    ]);
    expect(await pool.sessions.toolNamed('weather', 'weather_now')).toBe('now');
  });

  it('whose address changed with the restart do not show the tools of the old one', async () => {
    await serve('weather', { tools: [{ name: 'old', inputSchema: { type: 'object' } }] });
    await pool.sessions.tools('weather');
    await servers[0]?.stop();
    const next = await serve('weather', { on: { '*': { hold: 'never' } } });
    const restarted = pool.restarted();
    restarted.start();
    await next.seen('server/discover');
    expect(await restarted.report('weather')).toMatchObject({ status: 'connecting', tool_count: 0, tools: [] });
    await pool.sessions.reset('weather', 'end');
  });

  it('leave no state to a connector of the API that takes their name later', async () => {
    const server = await serve('weather');
    await server.stop();
    await expect(pool.sessions.tools('weather')).rejects.toMatchObject({ code: 'connection_refused' });
    pool.add('weather', `${server.origin}/mcp`);
    const report = await pool.restarted().report('weather');
    expect(report).toMatchObject({ origin: 'api', status: 'idle' });
    expect(report).not.toHaveProperty('error');
  });
});
