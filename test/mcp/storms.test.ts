import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import { createClock } from '../support/clock.ts';
import { type FakeMcpScript, type FakeMcpServer, type Reply, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { userPrincipal } from '../support/principals.ts';
import { openPool, type Pool } from './pool.ts';

const MINUTE = 60_000;
const LOST: Reply = { status: 404, body: { jsonrpc: '2.0', id: null, error: { code: -32001, message: 'no session' } } };

describe('a server that always fails is not asked by every use', () => {
  let pool: Pool;
  let clock = createClock();
  const servers: FakeMcpServer[] = [];

  async function serve(script: FakeMcpScript = {}, options: Parameters<Pool['add']>[2] = {}): Promise<FakeMcpServer> {
    const server = await startFakeMcpServer(script);
    servers.push(server);
    pool.add('weather', `${server.origin}/mcp`, { config: { max_retry_times: 0 }, ...options });
    return server;
  }
  const report = () => pool.sessions.report('weather');
  const probed = () => pool.sessions.report('weather', { probe: true });
  const use = () => pool.sessions.tools('weather');
  const failure = (work: Promise<unknown>) => work.then(() => undefined).catch((error: unknown) => error);

  /** One use each second; resolves with the codes they got. */
  async function useFor(seconds: number, once: () => Promise<unknown> = use): Promise<unknown[]> {
    const codes: unknown[] = [];
    for (let second = 0; second < seconds; second += 1) {
      codes.push(((await failure(once())) as { code?: string } | undefined)?.code);
      clock.advance(1000);
    }
    return codes;
  }

  beforeEach(async () => {
    clock = createClock();
    pool = await openPool({ sweepMs: 3_600_000 }, clock.now, { random: () => 0.5 });
  });
  afterEach(async () => {
    await pool.dispose();
    await Promise.all(servers.splice(0).map((server) => server.stop()));
  });

  describe.each<[string, FakeMcpScript['on'], string]>([
    ['auth_required', { '*': { status: 401 } }, 'auth_required'],
    ['forbidden', { '*': { status: 403 } }, 'forbidden'],
    ['wrong_path', { '*': { status: 404 } }, 'wrong_path'],
    ['method_not_allowed', { '*': { status: 405 } }, 'method_not_allowed'],
    ['a page', { '*': { status: 200, headers: { 'Content-Type': 'text/html' }, body: '<html>' } }, 'not_mcp'],
    ['a rate limit without a wait', { '*': { status: 429 } }, 'rate_limited'],
    ['a session that is lost at the list', { 'tools/list': LOST }, 'session_lost'],
    ['a list that is none', { 'tools/list': { result: { tools: 'none' } } }, 'tools_invalid'],
    ['a version nobody speaks', { initialize: { patch: { protocolVersion: '1999-01-01' } } }, 'version_unsupported'],
  ])('%s', (_name, on, code) => {
    it('is asked about 3 times and then ever more seldom; lines and transitions are as few', async () => {
      const server = await serve({ on: on ?? {} });
      const codes = await useFor(600);
      expect(new Set(codes)).toEqual(new Set([code]));
      const openings = server.of('server/discover').length;
      expect(openings).toBeGreaterThan(20);
      expect(openings).toBeLessThanOrEqual(28);
      const transitions = await pool.sessions.history('weather', 1000);
      expect(transitions).toHaveLength(2 * openings);
      expect(pool.lines.filter((line) => line.includes('MCP refused')).length).toBeLessThanOrEqual(openings);
      expect(pool.lines.length).toBeLessThan(200);
    });

    it('is used again seconds after a person has repaired it', async () => {
      const server = await serve({ on: on ?? {} });
      await useFor(3);
      expect(await failure(use())).toMatchObject({ code, nextRetryTime: expect.any(Number) });
      for (const method of Object.keys(on ?? {})) server.on(method, 'normal');
      clock.advance(2000);
      await use();
      expect((await report()).status).toBe('connected');
    });
  });

  it('tells the use that is refused when it asks again; the status, that nothing is tried by itself', async () => {
    const server = await serve({ on: { '*': { status: 403 } } });
    for (let attempt = 0; attempt < 3; attempt += 1) await failure(use());
    const asked = server.requests.length;
    expect(await failure(use())).toMatchObject({
      code: 'forbidden',
      nextRetryTime: clock.now() + 1000,
      retryAfterMs: 1000,
      message: expect.stringContaining('It is not asked again for 1 s.'),
    });
    expect((await report()).error).toMatchObject({ code: 'forbidden' });
    expect((await report()).error).not.toHaveProperty('next_retry_time');
    expect(server.requests).toHaveLength(asked);
    clock.advance(1000);
    await failure(use());
    expect(server.requests.length).toBeGreaterThan(asked);
  });

  it('obeys the wait of a rate limit for uses and probes, until a person reconnects', async () => {
    const server = await serve({ on: { '*': { status: 429, headers: { 'Retry-After': '600' } } } });
    for (let attempt = 0; attempt < 3; attempt += 1) await failure(use());
    const asked = server.requests.length;
    server.on('*', 'normal');
    clock.advance(599_000);
    expect(await failure(use())).toMatchObject({ code: 'rate_limited', statusCode: 503, retryAfterMs: 1000 });
    expect((await probed()).status).toBe('failed');
    expect(server.requests).toHaveLength(asked);
    expect((await pool.sessions.act('weather', 'reconnect', OPEN_PRINCIPAL)).status).toBe('connected');
  });

  it.each(['update', 'enable', 'probe'])('or has acted here: %s', async (how) => {
    const server = await serve({ on: { '*': { status: 403 } } });
    for (let attempt = 0; attempt < 8; attempt += 1) {
      await failure(use());
      clock.advance(15_000);
    }
    clock.advance(15_000);
    await failure(use());
    server.on('*', 'normal');
    expect(await failure(use())).toMatchObject({ code: 'forbidden' });
    if (how === 'update') await pool.update('weather', {});
    else if (how === 'probe') await probed();
    else {
      await pool.sessions.act('weather', 'disable', OPEN_PRINCIPAL);
      await pool.sessions.act('weather', 'enable', OPEN_PRINCIPAL);
    }
    await use();
    expect((await report()).status).toBe('connected');
  });

  it('by uses of a list that a rate limit refuses while the session stays', async () => {
    const server = await serve();
    await use();
    server.on('tools/list', { status: 429 });
    clock.advance(6 * MINUTE);
    const codes = await useFor(120);
    expect(new Set(codes)).toEqual(new Set(['rate_limited']));
    expect(server.of('tools/list').length).toBeLessThan(15);
    expect(server.of('initialize')).toHaveLength(1);
  });

  describe('where calls lose their session again and again', () => {
    const call = () => pool.call('weather', 'echo');

    it('it is failed, not idle, says when it is tried again, and counts for the breaker', async () => {
      const server = await serve({ on: { 'tools/call': LOST } });
      expect(await failure(call())).toMatchObject({ code: 'session_lost', delivered: 'no' });
      expect(await report()).toMatchObject({
        status: 'failed',
        error: { code: 'session_lost', next_retry_time: clock.now() + 15_000 },
        breaker: { state: 'closed', failures: 1 },
      });
      await failure(call());
      const codes = await useFor(60, call);
      expect(codes).toContain('breaker_open');
      expect(server.of('initialize').length).toBeLessThan(10);
      expect((await report()).status).toBe('failed');
      const moves = await pool.sessions.history('weather', 1000);
      expect(moves.filter(({ to }) => to === 'idle')).toHaveLength(1);
    });

    it('one that serves again is connected, and its past forgotten', async () => {
      const server = await serve({ on: { 'tools/call': [LOST, LOST, 'normal'] } });
      await failure(call());
      await call();
      expect(await report()).toMatchObject({ status: 'connected', breaker: { state: 'closed', failures: 0 } });
      server.forget();
      await call();
      expect((await report()).status).toBe('connected');
    });

    it('a probe that loses it too leaves it failed', async () => {
      await serve({ on: { 'tools/call': LOST, ping: LOST } });
      await failure(call());
      await probed();
      await probed();
      expect((await report()).status).toBe('failed');
    });
  });

  it('where each call ends the session that was opened for it: the breaker opens', async () => {
    const server = await serve({ on: { 'tools/call': { reset: true }, ping: { reset: true } } });
    const codes = await useFor(60, () => pool.call('weather', 'echo'));
    expect(codes).toContain('breaker_open');
    expect(server.of('initialize').length).toBeLessThan(10);
  });

  describe('a probe', () => {
    it('passes an open breaker, so that it tells the truth', async () => {
      const server = await serve();
      await server.stop();
      for (let attempt = 0; attempt < 3; attempt += 1) await failure(use());
      await server.start();
      expect(await failure(use())).toMatchObject({ code: 'breaker_open' });
      expect(await probed()).toMatchObject({ status: 'connected', breaker: { state: 'closed', failures: 0 } });
    });

    it('passes every 5 s at most, and does not put off the next try', async () => {
      const server = await serve({ on: { '*': { status: 503 } } });
      for (let attempt = 0; attempt < 3; attempt += 1) await failure(use());
      const { retry_time: retryTime } = (await report()).breaker;
      const asked = server.of('server/discover').length;
      for (let second = 0; second < 14; second += 1) {
        await Promise.all([probed(), probed(), probed()]);
        clock.advance(1000);
      }
      expect(server.of('server/discover')).toHaveLength(asked + 3);
      expect((await report()).breaker).toMatchObject({ state: 'open', retry_time: retryTime });
    });
  });

  describe('by callers with headers of their own', () => {
    const callAs = (name: string, token = `${name}-token-value`) =>
      pool.call('weather', 'echo', {}, { principal: userPrincipal(name), callerHeaders: { 'x-token': token } });
    const own = { passthroughHeaders: ['X-Token'], config: { max_retry_times: 0 } };

    it('a failure of the server counts for all of them, and is in the status', async () => {
      const server = await serve({ on: { '*': { status: 503 } } }, own);
      for (const name of ['ann', 'bob', 'cid'])
        expect(await failure(callAs(name))).toMatchObject({ code: 'server_error' });
      expect(await report()).toMatchObject({
        status: 'failed',
        error: { code: 'server_error', next_retry_time: clock.now() + 15_000 },
        breaker: { state: 'open', failures: 3 },
      });
      const asked = server.requests.length;
      for (const name of ['dan', 'eve', 'ann']) {
        expect(await failure(callAs(name))).toMatchObject({
          code: 'breaker_open',
          message: expect.stringContaining('HTTP 503'),
        });
      }
      expect(server.requests).toHaveLength(asked);
      server.on('*', 'normal');
      clock.advance(15_000);
      await callAs('eve');
      expect(await report()).toMatchObject({ status: 'idle', breaker: { state: 'closed', failures: 0 } });
      expect(await report()).not.toHaveProperty('error');
    });

    it('a credential that is refused is the matter of its caller', async () => {
      const server = await serve(
        { on: { '*': ({ headers }) => (headers['x-token'] === 'bad-token-1' ? { status: 401 } : 'normal') } },
        own,
      );
      const codes = await useFor(60, () => callAs('bob', 'bad-token-1'));
      expect(new Set(codes)).toEqual(new Set(['auth_required']));
      expect(server.of('server/discover').length).toBeLessThan(12);
      await callAs('ann');
      expect(await report()).toMatchObject({ status: 'idle', breaker: { state: 'closed', failures: 0 } });
    });

    it('a caller who can be served does not let all others ask', async () => {
      const server = await serve(
        { on: { '*': ({ headers }) => (headers['x-token'] === 'bad-token-1' ? { status: 503 } : 'normal') } },
        own,
      );
      await callAs('ann');
      await useFor(60, async () => {
        await callAs('ann');
        await callAs('bob', 'bad-token-1');
      });
      expect(server.requests.filter(({ headers }) => headers['x-token'] === 'bad-token-1').length).toBeLessThan(40);
    });

    it('a person who reconnects ends the waiting of all', async () => {
      const server = await serve({ on: { '*': { status: 403 } } }, own);
      for (let attempt = 0; attempt < 4; attempt += 1) await failure(callAs('ann'));
      server.on('*', 'normal');
      expect(await failure(callAs('ann'))).toMatchObject({ code: 'forbidden' });
      await pool.sessions.act('weather', 'reconnect', OPEN_PRINCIPAL);
      await callAs('ann');
    });
  });

  it('and none of its calls goes on when it is disabled, on a session that an update has let go neither', async () => {
    const server = await serve({ on: { 'tools/call': { hold: 'never' } } });
    const ended = failure(pool.call('weather', 'echo'));
    await server.seen('tools/call');
    await pool.update('weather', {});
    server.on('tools/call', 'normal');
    await pool.call('weather', 'echo');
    await pool.sessions.act('weather', 'disable', OPEN_PRINCIPAL);
    expect(await ended).toMatchObject({ code: 'outcome_unknown' });
    expect(server.openSessions()).toEqual([]);
  });
});
