import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FakeMcpScript, type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { openPool, type Pool, textOf } from './pool.ts';

describe('protocol versions', () => {
  let pool: Pool;
  const servers: FakeMcpServer[] = [];

  async function serve(script: FakeMcpScript, protocol_version = 'auto'): Promise<FakeMcpServer> {
    const server = await startFakeMcpServer(script);
    servers.push(server);
    pool.add('weather', `${server.origin}/mcp`, { config: { protocol_version } });
    return server;
  }

  beforeEach(async () => {
    pool = await openPool();
  });
  afterEach(async () => {
    await pool.dispose();
    await Promise.all(servers.splice(0).map((server) => server.stop()));
  });

  it('speaks the stateless era with a server that has it', async () => {
    const server = await serve({ modern: true });
    expect(textOf(await pool.call('weather', 'echo', { a: 1 }))).toBe('echo: {"a":1}');
    expect(server.of('initialize')).toEqual([]);
    expect(server.of('tools/call')[0]?.headers).toMatchObject({
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': 'echo',
    });
    expect(await pool.sessions.report('weather', { probe: true })).toMatchObject({
      status: 'connected',
      protocol_version: '2026-07-28',
    });
    expect(server.of('server/discover')).toHaveLength(2);
    expect(server.of('GET')).toEqual([]);
    await pool.sessions.reset('weather', 'test');
    expect(server.of('DELETE')).toEqual([]);
  });

  it('closes the stream of a cancelled call in the stateless era, without a notice', async () => {
    const server = await serve({ modern: true, on: { 'tools/call': { sse: [], hold: 'open' } } });
    const caller = new AbortController();
    const call = pool.call('weather', 'echo', {}, { signal: caller.signal });
    await server.seen('tools/call');
    caller.abort(new Error('gone'));
    await expect(call).rejects.toThrow('gone');
    expect(server.of('notifications/cancelled')).toEqual([]);
  });

  it('completes lax answers of the stateless era and marks the server', async () => {
    const tools = [{ name: 'echo', inputSchema: { type: 'object' } }, { name: 'bad' }];
    await serve({
      modern: true,
      on: {
        'tools/list': { result: { tools } },
        'tools/call': { result: { content: [{ type: 'text', text: 'ok' }] } },
      },
    });
    const list = await pool.sessions.tools('weather');
    expect(list.tools.map(({ name }) => name)).toEqual(['echo']);
    expect(list.leftOut).toEqual([{ name: 'bad', reason: 'it has no inputSchema' }]);
    expect(textOf(await pool.call('weather', 'echo', {}))).toBe('ok');
    expect(await pool.sessions.report('weather')).toMatchObject({
      status: 'connected',
      warnings: expect.arrayContaining([expect.stringContaining('without resultType')]),
      left_out: [{ name: 'bad' }],
    });
  });

  it('mirrors annotated parameters in headers and leaves out tools with a wrong annotation', async () => {
    const schema = (header: string, type = 'string') => ({
      type: 'object',
      properties: { region: { type, 'x-mcp-header': header } },
    });
    const server = await serve({
      modern: true,
      tools: [
        { name: 'good', inputSchema: schema('Region') },
        { name: 'space', inputSchema: schema('My Region') },
        { name: 'number', inputSchema: schema('Region', 'number') },
      ],
    });
    await pool.call('weather', 'good', { region: 'eu' });
    expect(server.of('tools/call')[0]?.headers['mcp-param-region']).toBe('eu');
    const { leftOut } = await pool.sessions.tools('weather');
    expect(leftOut.map(({ name }) => name)).toEqual(['space', 'number']);
  });

  it('reads the list again and calls once more when headers and definition are at odds', async () => {
    const mismatch = { status: 400, error: { code: -32020, message: 'HeaderMismatch' } };
    const server = await serve({ modern: true, on: { 'tools/call': [mismatch, 'normal'] } });
    expect(textOf(await pool.call('weather', 'echo', {}))).toBe('echo: {}');
    expect(server.of('tools/list')).toHaveLength(2);
    expect(server.of('tools/call')).toHaveLength(2);
  });

  it.each([500, 502])('tries the session era once when the probe is answered %i', async (status) => {
    const server = await serve({ on: { 'server/discover': { status } } });
    expect(textOf(await pool.call('weather', 'echo', {}))).toBe('echo: {}');
    expect(server.of('server/discover')).toHaveLength(1);
    expect(server.of('initialize')).toHaveLength(1);
  });

  it.each([
    ['202 and nothing', { status: 202 }],
    ['200 and an empty batch', { body: [] }],
    ['200 and another id', { result: {}, id: 'other' }],
  ])('tries the session era once when the probe is answered %s', async (_name, reply) => {
    const server = await serve({ on: { 'server/discover': reply } });
    expect(textOf(await pool.call('weather', 'echo', {}))).toBe('echo: {}');
    expect(server.of('initialize')).toHaveLength(1);
  });

  it('remembers the era of a server', async () => {
    const server = await serve({});
    await pool.call('weather', 'echo', {});
    server.forget();
    await pool.call('weather', 'echo', {});
    expect(server.of('initialize')).toHaveLength(2);
    expect(server.of('server/discover')).toHaveLength(1);
  });

  it('uses the newest common version when the server offers another one', async () => {
    const server = await serve({ on: { initialize: { patch: { protocolVersion: '2025-03-26' } } } });
    await pool.call('weather', 'echo', {});
    expect(server.of('tools/list')[0]?.headers['mcp-protocol-version']).toBe('2025-03-26');
    expect((await pool.sessions.report('weather')).protocol_version).toBe('2025-03-26');
  });

  it('retries with a version that a refusal lists', async () => {
    const refusal = 'Bad Request: Unsupported protocol version (supported versions: 2025-06-18, 2025-03-26)';
    const server = await serve({
      on: { initialize: [{ status: 400, body: refusal }, { patch: { protocolVersion: '2025-06-18' } }] },
    });
    await pool.call('weather', 'echo', {});
    expect(server.of('initialize')[1]?.message?.params).toMatchObject({ protocolVersion: '2025-06-18' });
    expect(server.of('tools/call')[0]?.headers['mcp-protocol-version']).toBe('2025-06-18');
  });

  it('names the versions of both sides when there is none in common', async () => {
    const server = await serve({ on: { initialize: { patch: { protocolVersion: '1999-01-01' } } } });
    const failed = await pool.sessions.tools('weather').catch((error: unknown) => error);
    expect(failed).toMatchObject({ code: 'version_unsupported', statusCode: 502 });
    expect((failed as Error).message).toContain('1999-01-01');
    expect((failed as Error).message).toContain('2025-11-25');
    expect(server.of('initialize')).toHaveLength(1);
    expect(await pool.sessions.report('weather')).toMatchObject({
      status: 'failed',
      error: { code: 'version_unsupported' },
    });
  });

  it('goes over to the stateless era when the refusal of initialize names it', async () => {
    const data = { supported: ['2026-07-28'], requested: '2025-11-25' };
    const server = await serve({
      on: { initialize: { status: 400, error: { code: -32022, message: 'Unsupported protocol version', data } } },
    });
    expect(textOf(await pool.call('weather', 'echo', {}))).toBe('echo: {}');
    expect(server.of('initialize')).toHaveLength(1);
    expect((await pool.sessions.report('weather')).protocol_version).toBe('2026-07-28');
  });

  it('says which versions the server names when only the session era may be spoken', async () => {
    const server = await serve({ modern: true }, 'legacy');
    const failed = await pool.sessions.tools('weather').catch((error: unknown) => error);
    expect(failed).toMatchObject({ code: 'version_unsupported' });
    expect((failed as Error).message).toContain('2026-07-28');
    expect(server.requests.length).toBeLessThanOrEqual(2);
  });

  it('speaks a given revision without asking', async () => {
    const stateless = await serve({ modern: true }, '2026-07-28');
    await pool.call('weather', 'echo', {});
    expect(stateless.of('server/discover')).toEqual([]);
    const session = await serve({ protocolVersion: '2025-06-18' }, '2025-06-18');
    await pool.sessions.reset('weather', 'test');
    await pool.call('weather', 'echo', {});
    expect(session.of('initialize')[0]?.message?.params).toMatchObject({ protocolVersion: '2025-06-18' });
  });
});
