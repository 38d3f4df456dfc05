import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import { type FakeMcpScript, type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { openPool, type Pool } from './pool.ts';

describe('what a person can do to an MCP connection', () => {
  let pool: Pool;
  const servers: FakeMcpServer[] = [];

  async function serve(script: FakeMcpScript = {}, config = {}): Promise<FakeMcpServer> {
    const server = await startFakeMcpServer(script);
    servers.push(server);
    pool.add('weather', `${server.origin}/mcp`, { config });
    return server;
  }
  const call = () =>
    pool.sessions.call('weather', { tool: 'echo', argumentsText: '{"text":"a"}', principal: OPEN_PRINCIPAL });

  beforeEach(async () => {
    pool = await openPool();
  });
  afterEach(async () => {
    await pool.dispose();
    await Promise.all(servers.splice(0).map((server) => server.stop()));
  });

  it('closes the session, refuses every use and stays so over an update and a restart, until it is enabled', async () => {
    const server = await serve();
    await pool.sessions.tools('weather');
    const disabled = await pool.sessions.act('weather', 'disable', OPEN_PRINCIPAL);
    expect(disabled).toMatchObject({ status: 'disabled', actions: ['enable'] });
    expect(server.of('DELETE')).toHaveLength(1);

    const refusal = { code: 'disabled', statusCode: 409, delivered: 'no' };
    await expect(call()).rejects.toMatchObject(refusal);
    await expect(pool.sessions.tools('weather')).rejects.toMatchObject(refusal);
    await pool.update('weather', {});
    expect(await pool.sessions.report('weather', { probe: true })).toMatchObject({ status: 'disabled' });
    const restarted = pool.restarted();
    expect(await restarted.report('weather')).toMatchObject({ status: 'disabled', since: disabled.since });
    expect(server.of('initialize')).toHaveLength(1);

    const enabled = await pool.sessions.act('weather', 'enable', OPEN_PRINCIPAL);
    expect(enabled).toMatchObject({ status: 'connected', tool_count: 1, actions: ['disable'] });
    await call();
    expect(server.of('initialize')).toHaveLength(2);
    expect(pool.audited.map(({ action }) => action)).toEqual(
      expect.arrayContaining(['connection.disable', 'connection.enable']),
    );
  });

  it('cuts a call under way when it is disabled', async () => {
    await serve({ on: { 'tools/call': { hold: 'never' } } });
    await pool.sessions.tools('weather');
    const running = call();
    const outcome = expect(running).rejects.toMatchObject({ delivered: 'unknown' });
    await expect.poll(() => servers[0]?.of('tools/call').length).toBe(1);
    await pool.sessions.act('weather', 'disable', OPEN_PRINCIPAL);
    await outcome;
    expect(await pool.sessions.report('weather')).toMatchObject({ status: 'disabled' });
  });

  it('refuses an action that the state does not offer, naming those that it does', async () => {
    await serve();
    await pool.sessions.tools('weather');
    await expect(pool.sessions.act('weather', 'enable', OPEN_PRINCIPAL)).rejects.toMatchObject({
      statusCode: 409,
      message: 'Connector weather is connected: only _disable is possible now, not _enable',
    });
    await expect(pool.sessions.act('weather', 'reconnect', OPEN_PRINCIPAL)).rejects.toMatchObject({ statusCode: 409 });
  });

  it('tells in the audit whether the connection could be opened', async () => {
    const server = await serve({}, { max_retry_times: 0 });
    await server.stop();
    expect(await pool.sessions.act('weather', 'reconnect', OPEN_PRINCIPAL)).toMatchObject({ status: 'failed' });
    await pool.sessions.act('weather', 'disable', OPEN_PRINCIPAL);
    await pool.sessions.act('weather', 'enable', OPEN_PRINCIPAL);
    await server.start();
    await pool.sessions.act('weather', 'reconnect', OPEN_PRINCIPAL);
    const rows = pool.audited.filter(({ action }) => action.startsWith('connection.'));
    expect(rows.map(({ action, outcome, detail }) => [action, outcome, detail])).toEqual([
      ['connection.reconnect', 'failed', 'connection_refused'],
      ['connection.disable', 'ok', undefined],
      ['connection.enable', 'failed', 'connection_refused'],
      ['connection.reconnect', 'ok', undefined],
    ]);
  });

  it('reconnects past an open breaker', async () => {
    const server = await serve({}, { max_retry_times: 0 });
    await server.stop();
    for (let attempt = 0; attempt < 3; attempt += 1) await expect(pool.sessions.tools('weather')).rejects.toThrow();
    expect(await pool.sessions.report('weather')).toMatchObject({ breaker: { state: 'open', failures: 3 } });
    await server.start();
    await expect(pool.sessions.tools('weather')).rejects.toMatchObject({ code: 'breaker_open' });
    const report = await pool.sessions.act('weather', 'reconnect', OPEN_PRINCIPAL);
    expect(report).toMatchObject({ status: 'connected', breaker: { state: 'closed', failures: 0 } });
  });

  it('keeps the time a failure began while it repeats, and starts anew once it has been overcome', async () => {
    const server = await serve({}, { max_retry_times: 0 });
    await pool.sessions.tools('weather');
    await server.stop();
    const first = await pool.sessions.report('weather', { probe: true });
    expect(first.status).toBe('failed');
    await new Promise((resolve) => setTimeout(resolve, 5));
    const second = await pool.sessions.report('weather', { probe: true });
    expect(second).toMatchObject({ status: 'failed', since: first.since });
    expect(await pool.restarted().report('weather')).toMatchObject({ status: 'failed', since: first.since });
    await server.start();
    await pool.sessions.report('weather', { probe: true });
    await server.stop();
    const again = await pool.sessions.report('weather', { probe: true });
    expect(again.since).toBeGreaterThan(first.since);
  });

  it('lists every MCP connector, used or not', async () => {
    const server = await serve();
    pool.add('unused', `${server.origin}/other`);
    await pool.sessions.tools('weather');
    const reports = await pool.sessions.reports();
    expect(reports.map(({ connector_id: id, status }) => [id, status])).toEqual([
      ['weather', 'connected'],
      ['unused', 'idle'],
    ]);
  });
});
