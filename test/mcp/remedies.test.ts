import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { reportError } from '../../src/http/error-report.ts';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import { seconds } from '../../src/mcp/failures.ts';
import { limitNameOf, remedyFor } from '../../src/mcp/remedies.ts';
import { type FakeMcpScript, type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { openPool, type Pool } from './pool.ts';

const DECLARED = { enabled: true, agents: [], limitsOfTimeout: ['connection_timeout', 'read_timeout'] } as const;

describe('remedies', () => {
  let pool: Pool;
  const servers: FakeMcpServer[] = [];

  async function serve(script: FakeMcpScript, config = {}, path = '/mcp'): Promise<FakeMcpServer> {
    const server = await startFakeMcpServer(script);
    servers.push(server);
    const all = { max_retry_times: 0, ...config };
    pool.add('stored', `${server.origin}${path}`, { config: all });
    pool.add('declared', `${server.origin}${path}`, { config: all, declared: DECLARED });
    return server;
  }
  async function errorOf(id: string) {
    await pool.sessions.tools(id).catch(() => undefined);
    const { error } = await pool.sessions.report(id);
    if (error === undefined) throw new Error(`${id} has no error`);
    return error;
  }

  beforeEach(async () => {
    pool = await openPool();
  });
  afterEach(async () => {
    await pool.dispose();
    await Promise.all(servers.splice(0).map((server) => server.stop()));
  });

  it('of a wrong credential name the record of a stored connector, the file of a declared one', async () => {
    await serve({ on: { '*': { status: 401 } } });
    expect((await errorOf('stored')).remedy).toContain('PUT');
    const { remedy } = await errorOf('declared');
    expect(remedy).toMatch(/headers.*configuration file, and restart.*probe=true/);
    expect(remedy).not.toMatch(/PUT|_reconnect/);
    expect((await pool.sessions.report('declared')).actions).toEqual(['disable']);
    await expect(pool.sessions.act('declared', 'reconnect', OPEN_PRINCIPAL)).rejects.toThrow(
      'Connector declared is auth_required: only _disable is possible now, not _reconnect',
    );
  });

  it('of a wrong path say how the address is made', async () => {
    await serve({ path: '/other' }, {}, '/mcp/mcp');
    const [stored, declared] = [await errorOf('stored'), await errorOf('declared')];
    expect(stored.remedy).toContain('parameters.endpoint');
    expect(stored.message).toContain('appended to the url');
    expect(declared.remedy).toContain('The url of the entry is the whole address');
    expect(declared.message).toContain('the path is doubled ("/mcp/mcp")');
    expect(declared.message).not.toContain('appended');
  });

  it('of a server that is not there say that it can be tried at once', async () => {
    const server = await serve({});
    await server.stop();
    for (const id of ['stored', 'declared']) {
      expect((await errorOf(id)).remedy).toMatch(/when you have started it, POST \S+_reconnect tries at once/);
    }
  });

  it.each(['initialize', 'tools/list'])('of a silent %s name the limit that was reached', async (method) => {
    await serve({ on: { [method]: { hold: 'never' } } }, { connection_timeout: 1, retry_timeout_seconds: 5 });
    const [stored, declared] = [await errorOf('stored'), await errorOf('declared')];
    expect(stored).toMatchObject({ code: 'response_timeout' });
    expect([stored.message, stored.remedy].join()).toMatch(/client_config.connection_timeout.*connection_timeout/);
    expect(declared.message).toContain('`timeout` of its entry');
    expect(declared.remedy).toContain('`timeout` of its entry');
    expect(declared.remedy).not.toContain('client_config');
  });

  it('of an opening that took all its time name that limit', async () => {
    await serve({ on: { initialize: { hold: 'never' } } }, { connection_timeout: 9, retry_timeout_seconds: 1 });
    const { message, remedy } = await errorOf('stored');
    expect(message).toContain('(client_config.retry_timeout_seconds)');
    expect(remedy).toContain('client_config.retry_timeout_seconds');
  });

  it('of a silent call name the limit that was reached', async () => {
    await serve({ on: { 'tools/call': { hold: 'never' } } }, { read_timeout: 1 });
    await expect(pool.call('stored', 'echo')).rejects.toThrow('(client_config.read_timeout)');
    await expect(pool.call('declared', 'echo')).rejects.toThrow('(`timeout` of its entry in the configuration file)');
  });

  it('differ for a program of this machine', () => {
    expect(remedyFor('stream_broken', 'local')).toContain('stderr');
    expect(remedyFor('response_timeout', 'local')).toContain('stderr');
    expect(remedyFor('address_refused', 'declared')).toContain('no setting allows');
    expect(remedyFor('address_refused')).toContain('settings');
  });

  it('keep the name of a limit that client_config sets', () => {
    expect(limitNameOf({ declared: { ...DECLARED, limitsOfTimeout: ['read_timeout'] } }, 'connection_timeout')).toBe(
      'client_config.connection_timeout',
    );
    expect(limitNameOf({ declared: DECLARED }, 'max_total_timeout')).toBe('client_config.max_total_timeout');
  });

  it('come with the cause code, and when it is tried again', async () => {
    const server = await serve({});
    await pool.sessions.tools('declared');
    await server.stop();
    const error: unknown = await pool.call('declared', 'echo').catch((failed: unknown) => failed);
    const { next_retry_time: planned = 0 } = (await pool.sessions.report('declared')).error ?? {};
    expect(error).toMatchObject({ code: 'connection_refused', nextRetryTime: planned });
    const { reason } = reportError(error);
    expect(reason).toMatch(/tries at once.*\[connection_refused, next attempt to connect in \d+ s\]$/);
  });
});

describe('a failure that repeats', () => {
  it('keeps the time it began when a person has it tried again, and the next success ends it', async () => {
    let time = 1_000_000;
    const pool = await openPool({}, () => time);
    const server = await startFakeMcpServer();
    pool.add('weather', `${server.origin}/mcp`, { config: { max_retry_times: 0 } });
    const since = async () => (await pool.sessions.report('weather')).since;
    try {
      await server.stop();
      await expect(pool.sessions.tools('weather')).rejects.toThrow();
      const began = await since();
      time += 5000;
      const again = await pool.sessions.act('weather', 'reconnect', OPEN_PRINCIPAL);
      expect(again).toMatchObject({ status: 'failed', since: began });
      await server.start();
      time += 5000;
      await pool.sessions.act('weather', 'reconnect', OPEN_PRINCIPAL);
      expect(await since()).toBe(time);
      await server.stop();
      time += 5000;
      await pool.sessions.report('weather', { probe: true });
      expect(await since()).toBe(time);
    } finally {
      await pool.dispose();
      await server.stop();
    }
  });
});

it('a wait that is no second is told in milliseconds', () => {
  expect([0, 30, 49.6, 120, 1000, 1500].map(seconds)).toEqual(['0 ms', '30 ms', '50 ms', '0.1 s', '1 s', '1.5 s']);
});
