import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { type FakeMcpScript, type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { openPool, type Pool, textOf } from './pool.ts';

const sse = { 'Content-Type': 'text/event-stream' };
const event = (message: JsonObject): string => `data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`;
const pings = (count: number): string =>
  Array.from({ length: count }, (_, index) => event({ id: `p${index}`, method: 'ping' })).join('');
const changed = event({ method: 'notifications/tools/list_changed' });
const reply = 'data: {"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"done"}]}}\n\n';
const bottomless = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;

describe('a server that sends too much', () => {
  let pool: Pool;
  const servers: FakeMcpServer[] = [];

  async function serve(script: FakeMcpScript, config = {}): Promise<FakeMcpServer> {
    const server = await startFakeMcpServer(script);
    servers.push(server);
    pool.add('weather', `${server.origin}/mcp`, { config: { max_retry_times: 0, ...config } });
    return server;
  }
  const failureOf = (work: Promise<unknown>): Promise<unknown> => work.catch((error: unknown) => error);

  beforeEach(async () => {
    pool = await openPool();
  });
  afterEach(async () => {
    await pool.dispose();
    await Promise.all(servers.splice(0).map((server) => server.stop()));
  });

  it.each([
    ['requests', pings(3000)],
    ['notifications', event({ method: 'notifications/message', params: { level: 'info', data: 'x' } }).repeat(3000)],
    ['changes of its list', changed.repeat(3000)],
  ])('of %s beside the reply is refused', async (_name, flood) => {
    const server = await serve({ on: { 'tools/list': { headers: sse, chunks: [flood, reply] } } });
    expect(await failureOf(pool.sessions.tools('weather'))).toMatchObject({
      code: 'invalid_response',
      statusCode: 502,
      message: expect.stringContaining('connector "weather" at '),
    });
    expect((await pool.sessions.report('weather')).error?.message).toContain('more than 1000 messages of its own');
    expect(server.of('(response)').length).toBeLessThanOrEqual(1000);
  });

  it('of messages in one JSON answer is refused', async () => {
    const notice = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}';
    const body = `[${`${notice},`.repeat(3000)}{"jsonrpc":"2.0","id":"<same>","result":{"tools":[]}}]`;
    await serve({
      on: {
        'tools/list': ({ message }) => ({
          headers: { 'Content-Type': 'application/json' },
          body: body.replace('"<same>"', JSON.stringify(message?.id)),
        }),
      },
    });
    await expect(pool.sessions.tools('weather')).rejects.toThrow(/more than 1000 messages/);
  });

  it('does not hold up the rest of the process, nor get its answers all at once', async () => {
    let turns = 0;
    let open = 0;
    let most = 0;
    const server = await serve({ on: { 'tools/call': { headers: sse, chunks: [pings(900), reply] } } });
    server.on('(response)', async () => {
      open += 1;
      most = Math.max(most, open);
      await new Promise((done) => setTimeout(done, 5));
      open -= 1;
      return { status: 202 };
    });
    await pool.sessions.tools('weather');
    let counting = true;
    const count = (): void => {
      turns += 1;
      if (counting) setImmediate(count);
    };
    setImmediate(count);
    expect(textOf(await pool.call('weather', 'echo'))).toBe('done');
    counting = false;
    expect(turns).toBeGreaterThan(900 / 64);
    await server.seen('(response)', 100);
    expect(most).toBeLessThanOrEqual(8);
  });

  it('takes thousands of notices of progress, as of a long call', async () => {
    const server = await serve({});
    server.on('tools/call', ({ message }) => {
      const { progressToken } = (message as { params: { _meta: JsonObject } } | undefined)?.params._meta ?? {};
      const params = { progressToken: progressToken ?? null, progress: 1 };
      return { headers: sse, chunks: [event({ method: 'notifications/progress', params }).repeat(3000), reply] };
    });
    expect(textOf(await pool.call('weather', 'echo'))).toBe('done');
  });

  it('on its listening stream loses that stream, and its list is read again', async () => {
    let flood = (_text: string): void => undefined;
    const flooded = new Promise<string>((resolve) => {
      flood = resolve;
    });
    const server = await serve({});
    const text = JSON.stringify({
      jsonrpc: '2.0',
      method: 'notifications/message',
      params: { level: 'info', data: '' },
    });
    server.on('GET', { sse: [() => flooded], hold: 'open' });
    await pool.sessions.tools('weather');
    await server.seen('GET');
    flood(Array.from({ length: 2000 }, () => text).join('\n\ndata: '));
    await expect
      .poll(async () => {
        await pool.sessions.tools('weather');
        return server.of('tools/list').length;
      })
      .toBe(2);
    expect(textOf(await pool.call('weather', 'echo'))).toBe('echo: {}');
    expect((await pool.sessions.report('weather')).status).toBe('connected');
  });

  it('is heard once when it says many times that its list changed', async () => {
    await serve({ on: { 'tools/call': { headers: sse, chunks: [changed.repeat(900), reply] } } });
    await pool.sessions.tools('weather');
    await pool.call('weather', 'echo');
    expect(pool.lines.filter((line) => line.includes('tool list of'))).toHaveLength(1);
  });

  it('has one time limit for all pages', async () => {
    let page = 0;
    const server = await serve(
      {
        on: {
          'tools/list': () => {
            page += 1;
            const tools = [{ name: `t${page}`, inputSchema: { type: 'object' } }];
            return { result: { tools, nextCursor: `c${page}` }, delayMs: 400 };
          },
        },
      },
      { retry_timeout_seconds: 1 },
    );
    expect(await failureOf(pool.sessions.tools('weather'))).toMatchObject({
      code: 'response_timeout',
      statusCode: 504,
    });
    expect(server.of('tools/list').length).toBeLessThanOrEqual(3);
  });

  it('has one size limit for all pages', async () => {
    let page = 0;
    const pad = 'x'.repeat(7 * 1024 * 1024);
    const server = await serve({
      on: {
        'tools/list': () => {
          page += 1;
          return { result: { tools: [{ name: `t${page}`, _meta: { pad } }], nextCursor: `c${page}` } };
        },
      },
    });
    await expect(pool.sessions.tools('weather')).rejects.toThrow(/tool list larger than 32 MiB/);
    expect(server.of('tools/list')).toHaveLength(5);
  });

  it('does not fill the status with what is left out', async () => {
    await serve({ on: { 'tools/list': { result: { tools: Array.from({ length: 20_000 }, () => 0) } } } });
    const { leftOut, warnings } = await pool.sessions.tools('weather');
    expect(leftOut).toHaveLength(512);
    expect(warnings).toEqual([
      'tools/list has more than 10000 entries; the rest is left out',
      '9488 more tools are left out for reasons of their own',
    ]);
  });

  it.each([
    ['tools/list', `{"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"a","inputSchema":{"x":${bottomless}}}]}}`],
    ['tools/call', `{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"x":${bottomless}}}}`],
    ['initialize', `{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-11-25","capabilities":${bottomless}}}`],
    ['server/discover', `{"jsonrpc":"2.0","id":ID,"result":{"capabilities":${bottomless}}}`],
  ])('too deep in answer to %s is refused, as JSON and as a stream', async (method, text) => {
    for (const headers of [{ 'Content-Type': 'application/json' }, sse]) {
      const server = await serve({});
      await pool.sessions.reset('weather', 'test');
      server.on(method, ({ message }) => {
        const body = text.replace('ID', JSON.stringify(message?.id));
        return headers === sse ? { headers, chunks: [`data: ${body}\n\n`] } : { headers, body };
      });
      expect(await failureOf(pool.call('weather', 'echo'))).toMatchObject({
        statusCode: 502,
        message: expect.stringMatching(/connector "weather" at .*nested deeper than 1000 levels/),
      });
      await pool.update('weather', {});
    }
  });

  it('too deep in a refusal is a refusal', async () => {
    const body = `{"error":${bottomless}}`;
    await serve({ on: { 'tools/list': { status: 403, headers: { 'Content-Type': 'application/json' }, body } } });
    expect(await failureOf(pool.sessions.tools('weather'))).toMatchObject({ code: 'forbidden', statusCode: 502 });
  });
});
