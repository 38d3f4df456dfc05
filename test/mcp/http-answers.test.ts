import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import { type FakeMcpScript, type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { openPool, type Pool, textOf } from './pool.ts';

const json = { 'Content-Type': 'application/json' };
const html = {
  status: 200,
  headers: { 'Content-Type': 'text/html' },
  body: '<!doctype html><title>SSO</title><input name=csrf value=Q7>',
};

describe('answers of MCP servers over HTTP', () => {
  let pool: Pool;
  const servers: FakeMcpServer[] = [];

  async function serve(
    script: FakeMcpScript = {},
    path = '/mcp',
    headers: Record<string, string> = {},
  ): Promise<FakeMcpServer> {
    const server = await startFakeMcpServer(script);
    servers.push(server);
    pool.add('weather', `${server.origin}${path}`, { headers });
    return server;
  }

  beforeEach(async () => {
    pool = await openPool();
  });
  afterEach(async () => {
    await pool.dispose();
    await Promise.all(servers.splice(0).map((server) => server.stop()));
  });

  it('names the full address of a 404 and the doubled path in it', async () => {
    const server = await serve({ path: '/mcp' }, '/mcp/mcp');
    const failed = await pool.sessions.tools('weather').catch((error: unknown) => error);
    expect(failed).toMatchObject({ code: 'wrong_path', statusCode: 502 });
    expect((failed as Error).message).toContain(`${server.origin}/mcp/mcp`);
    expect((failed as Error).message).toContain('doubled');
    expect((await pool.sessions.report('weather')).error?.message).toContain(`${server.origin}/mcp/mcp`);
  });

  it('follows 307 on the same origin with body, session and configured headers', async () => {
    const server = await serve(
      {
        on: {
          'POST /mcp': { status: 307, headers: { Location: '/mcp/' } },
        },
      },
      '/mcp',
      { 'X-Key': 'the-key' },
    );
    server.on('initialize', (request) =>
      request.path === '/mcp/' ? 'normal' : { status: 307, headers: { Location: '/mcp/' } },
    );
    for (const method of ['server/discover', 'notifications/initialized', 'tools/list', 'tools/call']) {
      server.on(method, (request) =>
        request.path === '/mcp/' ? 'normal' : { status: 307, headers: { Location: '/mcp/' } },
      );
    }
    expect(textOf(await pool.call('weather', 'echo', { a: 1 }))).toBe('echo: {"a":1}');
    const arrived = server.of('tools/call').find((request) => request.path === '/mcp/');
    expect(arrived?.headers).toMatchObject({ 'x-key': 'the-key', 'mcp-session-id': 's-1' });
    expect(arrived?.method).toBe('POST');
  });

  it('does not follow 301, and names where it points', async () => {
    const server = await serve({ on: { '*': { status: 301, headers: { Location: '/mcp/' } } } });
    await expect(pool.sessions.tools('weather')).rejects.toThrow(/\/mcp\//);
    expect(server.requests.filter((request) => request.path === '/mcp/')).toEqual([]);
  });

  it.each([{ status: 404 }, { status: 406 }, { status: 400, body: 'No sessionId' }, { status: 501 }, { status: 405 }])(
    'takes a refusal of the optional stream ($status) as "no stream here"',
    async (refusal) => {
      const server = await serve({ on: { GET: refusal } });
      await pool.call('weather', 'echo', {});
      await pool.call('weather', 'echo', {});
      expect((await pool.sessions.report('weather', { probe: true })).status).toBe('connected');
      expect(server.of('GET')).toHaveLength(1);
      expect(server.of('initialize')).toHaveLength(1);
    },
  );

  it('waits as long as a 429 says before it lists again', async () => {
    const server = await serve({ on: { 'tools/list': [{ status: 429, headers: { 'Retry-After': '1' } }, 'normal'] } });
    await pool.call('weather', 'echo', {});
    const [first, second] = server.of('tools/list');
    expect((second?.time ?? 0) - (first?.time ?? 0)).toBeGreaterThanOrEqual(990);
    expect(server.of('initialize')).toHaveLength(1);
  });

  it('reads the date form of Retry-After', async () => {
    const date = new Date(Date.now() + 2500).toUTCString();
    const server = await serve({ on: { initialize: [{ status: 503, headers: { 'Retry-After': date } }, 'normal'] } });
    await pool.call('weather', 'echo', {});
    const [first, second] = server.of('initialize');
    expect((second?.time ?? 0) - (first?.time ?? 0)).toBeGreaterThanOrEqual(1000);
  });

  it.each(['soon', '-5'])('keeps to its own ladder when Retry-After is "%s"', async (value) => {
    const server = await serve({ on: { initialize: [{ status: 503, headers: { 'Retry-After': value } }, 'normal'] } });
    await pool.call('weather', 'echo', {});
    expect(server.of('initialize')).toHaveLength(2);
  });

  it('fails at once, naming the wait, when the server asks for longer than there is', async () => {
    const server = await serve({ on: { initialize: { status: 503, headers: { 'Retry-After': '86400' } } } });
    await expect(pool.sessions.tools('weather')).rejects.toThrow(/86400 s/);
    expect(server.of('initialize')).toHaveLength(1);
  });

  it('says rate limited when the server keeps refusing', async () => {
    await serve({ on: { 'tools/list': { status: 429 } } });
    await expect(pool.sessions.tools('weather')).rejects.toMatchObject({ code: 'rate_limited', attempts: 4 });
  });

  it('tells a sign-in page from MCP and shows nothing of it', async () => {
    await serve({ on: { initialize: html } });
    const failed = await pool.sessions.tools('weather').catch((error: unknown) => error);
    expect(failed).toMatchObject({ code: 'not_mcp', statusCode: 502 });
    expect((failed as Error).message).toContain('not an MCP answer (text/html)');
    const report = await pool.sessions.report('weather');
    expect(report.status).toBe('failed');
    for (const text of [JSON.stringify(report), pool.lines.join('\n'), (failed as Error).message]) {
      expect(text).not.toMatch(/Q7|doctype/);
    }
  });

  it('takes HTML in answer to a call as a failure of that call', async () => {
    await serve({ on: { 'tools/call': html } });
    await expect(pool.call('weather', 'echo', {})).rejects.toThrow(/not an MCP answer \(text\/html\)/);
  });

  it.each([
    { name: '200 null', reply: { status: 200, headers: json, body: 'null' } },
    { name: '204', reply: { status: 204 } },
    { name: '200 without a body', reply: { status: 200, body: '' } },
    { name: '202 with a content type', reply: { status: 202, headers: json, body: '' } },
    { name: '200 with text', reply: { status: 200, headers: { 'Content-Type': 'text/plain' }, body: 'ok' } },
  ])('takes $name as success of a notification', async ({ reply }) => {
    await serve({ on: { 'notifications/initialized': reply } });
    expect(textOf(await pool.call('weather', 'echo', {}))).toBe('echo: {}');
  });

  it('waits for the end of notifications/initialized before it goes on', async () => {
    let initialized = false;
    await serve({
      on: {
        'notifications/initialized': async () => {
          await new Promise((done) => setTimeout(done, 300));
          initialized = true;
          return { status: 202 };
        },
        'tools/list': () => (initialized ? 'normal' : { error: { code: -32002, message: 'not initialized' } }),
      },
    });
    expect((await pool.sessions.tools('weather')).tools).toHaveLength(1);
  });

  it('accepts its own numeric id as a text', async () => {
    await serve({
      on: { initialize: { id: 'string' }, 'tools/list': { id: 'string' }, 'tools/call': { id: 'string' } },
    });
    expect(textOf(await pool.call('weather', 'echo', {}))).toBe('echo: {}');
  });

  it.each([
    { name: 'another id', reply: { id: 4711 }, reason: /id mismatch/ },
    { name: '202 without a reply', reply: { status: 202, headers: {} }, reason: /without the reply/ },
    {
      name: 'another id on a stream',
      reply: { sse: ['{"jsonrpc":"2.0","id":4711,"result":{}}'], hold: 'open' as const },
      reason: /id mismatch/,
    },
    { name: 'broken JSON', reply: { status: 200, headers: json, body: '{"jsonrpc":' }, reason: /not JSON/ },
  ])('fails at once on $name', async ({ reply, reason }) => {
    await serve({ on: { 'tools/call': reply } });
    await expect(pool.call('weather', 'echo', {})).rejects.toThrow(reason);
  });

  it.each([
    { status: 401, code: 'auth_required', statusCode: 409, state: 'auth_required' },
    { status: 403, code: 'forbidden', statusCode: 502, state: 'failed' },
    { status: 405, code: 'method_not_allowed', statusCode: 502, state: 'failed' },
    { status: 500, code: 'server_error', statusCode: 502, state: 'failed' },
  ])('reports $status as $code', async ({ status, code, statusCode, state }) => {
    await serve({ on: { '*': { status } } });
    await expect(pool.sessions.tools('weather')).rejects.toMatchObject({ code, statusCode });
    expect(await pool.sessions.report('weather')).toMatchObject({ status: state, error: { code } });
  });

  it('passes on the message of a JSON error without secrets', async () => {
    await serve(
      { on: { '*': { status: 403, headers: json, body: { error: { message: 'key s3cr3t-key is expired' } } } } },
      '/mcp',
      {
        'X-Key': 's3cr3t-key',
      },
    );
    await expect(pool.sessions.tools('weather')).rejects.toThrow(/key \[redacted\] is expired/);
    expect(pool.lines.join('\n')).not.toContain('s3cr3t-key');
  });

  it('refuses an answer beyond 8 MiB', async () => {
    await serve({
      on: { 'tools/call': { result: { content: [{ type: 'text', text: 'x'.repeat(9 * 1024 * 1024) }] } } },
    });
    await expect(pool.call('weather', 'echo', {})).rejects.toThrow(/larger than 8 MiB/);
  });

  it('sends the digits of the arguments as they were written', async () => {
    const server = await serve();
    await pool.sessions.call('weather', {
      tool: 'echo',
      argumentsText: '{"id":12345678901234567890,"x":1.0,"s":"$& ID \\u00e9"}',
      principal: OPEN_PRINCIPAL,
    });
    const body = server.of('tools/call')[0]?.body ?? '';
    expect(body).toContain('"arguments":{"id":12345678901234567890,"x":1.0,"s":"$& ID \\u00e9"}');
    expect(JSON.parse(body)).toMatchObject({ jsonrpc: '2.0', method: 'tools/call', params: { name: 'echo' } });
  });
});
