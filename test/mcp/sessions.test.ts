import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MCP_DISABLED } from '../../src/errors.ts';
import { createClock } from '../support/clock.ts';
import { type FakeMcpScript, type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { openPool, type Pool, textOf } from './pool.ts';

describe('the pool of MCP sessions', () => {
  let pool: Pool;
  const servers: FakeMcpServer[] = [];

  async function serve(script: FakeMcpScript = {}, config = {}, name = 'weather'): Promise<FakeMcpServer> {
    const server = await startFakeMcpServer(script);
    servers.push(server);
    pool.add(name, `${server.origin}/mcp`, { config });
    return server;
  }
  const statusNow = async (name = 'weather') => (await pool.sessions.report(name)).status;

  beforeEach(async () => {
    pool = await openPool();
  });
  afterEach(async () => {
    await pool.dispose();
    await Promise.all(servers.splice(0).map((server) => server.stop()));
  });

  it('opens one session whatever the number of uses, and keeps it', async () => {
    const server = await serve();
    await Promise.all([1, 2, 3, 4, 5].map(() => pool.sessions.tools('weather')));
    await Promise.all([1, 2, 3].map((n) => pool.call('weather', 'echo', { n })));
    expect(server.of('initialize')).toHaveLength(1);
    expect(server.of('tools/list')).toHaveLength(1);
    expect(server.of('tools/call')).toHaveLength(3);
    const report = await pool.sessions.report('weather');
    expect(report).toMatchObject({ status: 'connected', tool_count: 1, protocol_version: '2025-11-25' });
    expect(report.actions).toEqual(['disable']);
  });

  it('keeps the session id out of every report, row and line', async () => {
    await serve({ on: { initialize: 'normal' } });
    await pool.call('weather', 'echo', {});
    const shown = [await pool.sessions.report('weather'), await pool.connections.states(), pool.audited, pool.lines];
    expect(JSON.stringify(shown)).not.toContain('s-1');
  });

  it('replaces a session the server lost and sends the refused call once more', async () => {
    const server = await serve();
    await pool.call('weather', 'echo', { n: 1 });
    server.forget();
    expect(textOf(await pool.call('weather', 'echo', { n: 2 }))).toBe('echo: {"n":2}');
    expect(server.of('initialize')).toHaveLength(2);
    expect(server.of('initialize')[1]?.headers['mcp-session-id']).toBeUndefined();
    const taken = server.of('tools/call').filter((request) => request.headers['mcp-session-id'] === 's-2');
    expect(taken).toHaveLength(1);
    expect(pool.lines.filter((line) => line.includes('MCP session lost'))).toHaveLength(1);
  });

  it('replaces a session once for many calls that lose it together', async () => {
    const server = await serve();
    await pool.call('weather', 'echo', {});
    server.forget();
    const results = await Promise.all([1, 2, 3, 4].map((n) => pool.call('weather', 'echo', { n })));
    expect(results.map(textOf)).toEqual([1, 2, 3, 4].map((n) => `echo: {"n":${n}}`));
    expect(server.of('initialize')).toHaveLength(2);
  });

  it('takes 400 about the session as its loss', async () => {
    const server = await serve();
    await pool.call('weather', 'echo', {});
    server.on('tools/call', (request) =>
      request.headers['mcp-session-id'] === 's-1'
        ? { status: 400, body: { jsonrpc: '2.0', error: { code: -32000, message: 'No valid session ID' }, id: null } }
        : 'normal',
    );
    expect(textOf(await pool.call('weather', 'echo', {}))).toBe('echo: {}');
    expect(server.of('initialize')).toHaveLength(2);
  });

  it('gives up when the new session is lost at once', async () => {
    const server = await serve();
    await pool.call('weather', 'echo', {});
    server.on('tools/call', { status: 404 });
    await expect(pool.call('weather', 'echo', {})).rejects.toMatchObject({ code: 'session_lost', delivered: 'no' });
    expect(server.of('tools/call')).toHaveLength(3);
  });

  it('shows the loss of a server before the reply, and picks it up when it is back', async () => {
    const server = await serve();
    await pool.call('weather', 'echo', {});
    await server.stop();
    await expect(pool.call('weather', 'echo', {})).rejects.toMatchObject({ statusCode: 502 });
    expect(await pool.sessions.report('weather')).toMatchObject({
      status: 'failed',
      error: { code: 'connection_refused', remedy: expect.stringContaining('Start the server') },
      actions: ['reconnect', 'disable'],
    });
    await server.start();
    expect(textOf(await pool.call('weather', 'echo', { back: true }))).toBe('echo: {"back":true}');
    expect(await statusNow()).toBe('connected');
  });

  it('never sends a call twice whose outcome is unknown', async () => {
    const server = await serve({ on: { 'tools/call': { reset: true } } });
    await expect(pool.call('weather', 'echo', {})).rejects.toMatchObject({
      code: 'outcome_unknown',
      delivered: 'unknown',
      message: expect.stringContaining('outcome of the call is unknown'),
    });
    expect(server.of('tools/call')).toHaveLength(1);
    expect(pool.audited.at(-1)).toMatchObject({ outcome: 'unknown', detail: 'outcome_unknown' });
  });

  it.each(['readOnlyHint', 'idempotentHint'])('sends a broken call again when the tool has %s', async (hint) => {
    const server = await serve({
      tools: [{ name: 'look', inputSchema: { type: 'object' }, annotations: { [hint]: true } }],
      on: { 'tools/call': [{ reset: true }, 'normal'] },
    });
    expect(textOf(await pool.call('weather', 'look', {}))).toBe('look: {}');
    expect(server.of('tools/call')).toHaveLength(2);
  });

  it('sends a call again that was refused by a rate limit', async () => {
    const server = await serve({ on: { 'tools/call': [{ status: 429, headers: { 'Retry-After': '0' } }, 'normal'] } });
    expect(textOf(await pool.call('weather', 'echo', {}))).toBe('echo: {}');
    expect(server.of('tools/call')).toHaveLength(2);
  });

  it('gives a JSON-RPC error of a call to the model', async () => {
    await serve({ on: { 'tools/call': { error: { code: -32603, message: 'out of order' } } } });
    const result = await pool.call('weather', 'echo', {});
    expect(result.isError).toBe(true);
    expect(textOf(result)).toContain('out of order');
    expect(pool.audited.at(-1)).toMatchObject({ outcome: 'tool_error' });
  });

  it('passes structuredContent, isError and unknown content on as they are', async () => {
    const content = [{ type: 'hologram', data: 'x' }];
    await serve({ on: { 'tools/call': { result: { content, structuredContent: { n: 1 }, isError: true } } } });
    expect(await pool.call('weather', 'echo', {})).toMatchObject({
      content,
      structuredContent: { n: 1 },
      isError: true,
    });
  });

  it('audits each call without its arguments', async () => {
    await serve();
    await pool.call('weather', 'echo', { b: 'private', a: 1 }, { agentId: 'agent-1' });
    await pool.call('weather', 'echo', { a: 1, b: 'private' }, { agentId: 'agent-1' });
    const [first, second] = pool.audited;
    expect(first).toMatchObject({ principal: 'open', action: 'tool_call', outcome: 'ok', agentId: 'agent-1' });
    expect(first).toMatchObject({ connectorId: 'weather', tool: 'echo', argumentsHash: second?.argumentsHash });
    expect(first?.bytes).toBeGreaterThan(0);
    expect(JSON.stringify([pool.audited, pool.lines])).not.toContain('private');
  });

  it('closes the session of a changed connector with DELETE and opens another', async () => {
    const server = await serve();
    await pool.call('weather', 'echo', {});
    await pool.update('weather', { headers: { 'X-Key': 'new-key' } });
    expect(server.of('DELETE')[0]?.headers['mcp-session-id']).toBe('s-1');
    expect(await statusNow()).toBe('idle');
    await pool.call('weather', 'echo', {});
    expect(server.of('tools/call')[1]?.headers).toMatchObject({ 'x-key': 'new-key', 'mcp-session-id': 's-2' });
  });

  it('lets a call finish on the session it began on when the connector changes', async () => {
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const server = await serve({
      on: {
        'tools/call': async () => {
          await held;
          return 'normal' as const;
        },
      },
    });
    const call = pool.call('weather', 'echo', { slow: true });
    await server.seen('tools/call');
    await pool.update('weather', {});
    expect(server.of('DELETE')).toHaveLength(0);
    release();
    expect(textOf(await call)).toBe('echo: {"slow":true}');
    await server.seen('DELETE');
  });

  it('drops an opening that was overtaken by a change', async () => {
    const other = await startFakeMcpServer();
    servers.push(other);
    let reached = (): void => undefined;
    const opening = new Promise<void>((resolve) => {
      reached = resolve;
    });
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    await serve({
      on: {
        'tools/list': async () => {
          reached();
          await held;
          return 'normal' as const;
        },
      },
    });
    const list = pool.sessions.tools('weather');
    await opening;
    other.tools([{ name: 'moved', inputSchema: { type: 'object' } }]);
    await pool.update('weather', { url: `${other.origin}/mcp` });
    release();
    expect((await list).tools.map(({ name }) => name)).toEqual(['moved']);
    expect((await pool.sessions.report('weather')).tools).toMatchObject([{ name: 'moved' }]);
  });

  it('forgets a deleted connector', async () => {
    const server = await serve();
    await pool.sessions.tools('weather');
    await pool.remove('weather');
    expect(server.of('DELETE')).toHaveLength(1);
    expect(await pool.connections.state('weather')).toBeUndefined();
    expect(await pool.mcpTools.list('weather')).toEqual([]);
    await expect(pool.sessions.tools('weather')).rejects.toMatchObject({ statusCode: 404 });
  });

  it('closes every session with DELETE at shutdown, cutting calls that do not end', async () => {
    const server = await serve({ on: { 'tools/call': { hold: 'never' } } });
    const call = pool.call('weather', 'echo', {});
    const failed = expect(call).rejects.toBeInstanceOf(Error);
    await server.seen('tools/call');
    await pool.sessions.close(100);
    await failed;
    expect(server.of('DELETE')).toHaveLength(1);
    expect((await pool.connections.state('weather'))?.status).toBe('idle');
    await expect(pool.sessions.tools('weather')).rejects.toMatchObject({ statusCode: 503 });
  });

  it.each([
    ['no object', '[1]'],
    ['no JSON', '{'],
    ['a bottomless object', `{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`],
  ])('refuses %s as arguments before anything is sent', async (_name, argumentsText) => {
    const server = await serve();
    await expect(pool.call('weather', 'echo', {}, { argumentsText })).rejects.toMatchObject({ statusCode: 400 });
    expect(server.requests).toEqual([]);
  });

  it('is switched off by its setting', async () => {
    const server = await serve();
    pool.setEnabled(false);
    await expect(pool.sessions.tools('weather')).rejects.toBeInstanceOf(MCP_DISABLED);
    await expect(pool.call('weather', 'echo', {})).rejects.toBeInstanceOf(MCP_DISABLED);
    expect(server.requests).toEqual([]);
  });

  it('opens a breaker after three failed openings, names its cause, and closes it on reset', async () => {
    const server = await serve({}, { max_retry_times: 0 });
    await server.stop();
    for (let round = 0; round < 3; round += 1) {
      await expect(pool.sessions.tools('weather')).rejects.toMatchObject({ code: 'connection_refused' });
    }
    await expect(pool.sessions.tools('weather')).rejects.toMatchObject({
      code: 'breaker_open',
      statusCode: 503,
      message: expect.stringContaining('ECONNREFUSED'),
    });
    const report = await pool.sessions.report('weather');
    expect(report).toMatchObject({ status: 'failed', breaker: { state: 'open', failures: 3 } });
    expect(report.error?.next_retry_time).toBe(report.breaker.retry_time);
    await pool.sessions.reset('weather', 'reconnect');
    await server.start();
    expect((await pool.sessions.tools('weather')).tools).toHaveLength(1);
    expect((await pool.sessions.report('weather')).breaker).toEqual({ state: 'closed', failures: 0 });
  });
});

describe('sessions over time', () => {
  const clock = createClock();
  const servers: FakeMcpServer[] = [];
  let pool: Pool;

  async function serve(name: string, script: FakeMcpScript = {}): Promise<FakeMcpServer> {
    const server = await startFakeMcpServer(script);
    servers.push(server);
    pool.add(name, `${server.origin}/mcp`);
    return server;
  }

  beforeEach(async () => {
    pool = await openPool({ sweepMs: 10, maxSessions: 2 }, clock.now);
  });
  afterEach(async () => {
    await pool.dispose();
    await Promise.all(servers.splice(0).map((server) => server.stop()));
  });

  it('closes an idle session with DELETE; the list stays good while it is fresh', async () => {
    const server = await serve('a', { modern: false });
    await pool.sessions.tools('a');
    clock.advance(899_000);
    await server.seen('ping');
    expect(server.of('DELETE')).toHaveLength(0);
    clock.advance(2000);
    await server.seen('DELETE');
    await expect.poll(async () => (await pool.sessions.report('a')).status).toBe('idle');
    expect((await pool.connections.history('a', 1))[0]).toMatchObject({ from: 'connected', to: 'idle', cause: 'idle' });
  });

  it('asks a server that was silent for a minute, once a minute', async () => {
    const server = await serve('a');
    await pool.sessions.tools('a');
    clock.advance(59_000);
    await new Promise((done) => setTimeout(done, 50));
    expect(server.of('ping')).toHaveLength(0);
    clock.advance(2000);
    await server.seen('ping');
    await new Promise((done) => setTimeout(done, 50));
    expect(server.of('ping')).toHaveLength(1);
  });

  it('notices by itself that a silent server is gone', async () => {
    const server = await serve('a');
    await pool.sessions.tools('a');
    await server.stop();
    clock.advance(61_000);
    await expect.poll(async () => (await pool.sessions.report('a')).status).toBe('failed');
  });

  it('reads the list again when it is older than five minutes', async () => {
    const server = await serve('a');
    await pool.sessions.tools('a');
    clock.advance(299_000);
    await pool.sessions.tools('a');
    expect(server.of('tools/list')).toHaveLength(1);
    clock.advance(2000);
    await pool.sessions.tools('a');
    expect(server.of('tools/list')).toHaveLength(2);
  });

  it('closes the session unused the longest when there are too many', async () => {
    const oldest = await serve('a');
    await serve('b');
    await serve('c');
    for (const name of ['a', 'b', 'c']) {
      await pool.sessions.tools(name);
      clock.advance(10);
    }
    await oldest.seen('DELETE');
    await expect.poll(async () => (await pool.sessions.report('a')).status).toBe('idle');
    expect((await pool.sessions.report('c')).status).toBe('connected');
  });
});
