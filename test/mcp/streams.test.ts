import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FakeMcpScript, type FakeMcpServer, type Reply, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { openPool, type Pool, textOf } from './pool.ts';

const sse = { 'Content-Type': 'text/event-stream' };
const done = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"done"}]}}';

describe('streams of MCP servers', () => {
  let pool: Pool;
  const servers: FakeMcpServer[] = [];

  async function serve(script: FakeMcpScript, config = {}): Promise<FakeMcpServer> {
    const server = await startFakeMcpServer(script);
    servers.push(server);
    pool.add('weather', `${server.origin}/mcp`, { config });
    return server;
  }
  const onCall = (reply: Reply): FakeMcpScript => ({ on: { 'tools/call': reply } });

  beforeEach(async () => {
    pool = await openPool();
  });
  afterEach(async () => {
    await pool.dispose();
    await Promise.all(servers.splice(0).map((server) => server.stop()));
  });

  it('reads an event whose lines and characters are cut by chunks', async () => {
    await serve(
      onCall({
        headers: sse,
        chunks: [
          ': hi\r\n\r\nevent: message\r\nid: 1\r\ndata:{"jsonrpc":"2.0","id":ID,\r\nda',
          'ta: "result":{"content":[{"type":"text","text":"caf<C3>',
          '<A9>"}]}}\r\n',
          '\r\n',
        ],
      }),
    );
    const result = await pool.call('weather', 'echo', {});
    expect(result.content).toEqual([{ type: 'text', text: 'café' }]);
  });

  it('skips what comes before the reply, and answers a ping of the server', async () => {
    const server = await serve(
      onCall({
        headers: sse,
        chunks: [
          'id: 0\ndata:\n\n',
          'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n\n',
          'event: other\ndata: not json\n\n',
          'data: {"jsonrpc":"2.0","id":"srv-1","method":"ping"}\n\n',
          `data: ${done}\n\n`,
        ],
      }),
    );
    expect(textOf(await pool.call('weather', 'echo', {}))).toBe('done');
    const pong = await server.seen('(response)');
    expect(pong.message).toMatchObject({ id: 'srv-1', result: {} });
  });

  it('refuses a request it does not support at once, and the call goes on', async () => {
    const server = await serve({});
    server.on('tools/call', {
      sse: [
        '{"jsonrpc":"2.0","id":77,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":5}}',
        async () => {
          await server.seen('(response)');
          return done;
        },
      ],
    });
    expect(textOf(await pool.call('weather', 'echo', {}))).toBe('done');
    expect(server.of('(response)')[0]?.message).toMatchObject({ id: 77, error: { code: -32601 } });
  });

  it('fails at once when the stream ends before the reply', async () => {
    const server = await serve(onCall({ headers: sse, chunks: [': nothing\n\n'] }));
    await expect(pool.call('weather', 'echo', {})).rejects.toMatchObject({
      code: 'outcome_unknown',
      delivered: 'unknown',
    });
    expect(server.of('tools/call')).toHaveLength(1);
    expect((await pool.sessions.report('weather')).status).toBe('connected');
  });

  it('resumes a stream the server closed on purpose', async () => {
    const server = await serve(onCall({ headers: sse, chunks: ['retry: 20\nid: ev-1\ndata:\n\n'] }));
    server.on('GET', (request) =>
      request.headers['last-event-id'] === 'ev-1'
        ? { sse: [done.replace('ID', String(server.of('tools/call')[0]?.message?.id))] }
        : { status: 405 },
    );
    expect(textOf(await pool.call('weather', 'echo', {}))).toBe('done');
    expect(server.of('tools/call')).toHaveLength(1);
  });

  it('gives up an event beyond 4 MiB', async () => {
    await serve(onCall({ headers: sse, chunks: [`data: ${'x'.repeat(5 * 1024 * 1024)}`], hold: 'open' }));
    await expect(pool.call('weather', 'echo', {})).rejects.toThrow(/event larger than 4 MiB/);
  });

  it('asks for progress, and progress extends the wait', async () => {
    const server = await serve({}, { read_timeout: 1 });
    server.on('tools/call', (request) => {
      const params = request.message?.params as { _meta: { progressToken: number } };
      const progress = (n: number): string =>
        JSON.stringify({
          jsonrpc: '2.0',
          method: 'notifications/progress',
          params: { progressToken: params._meta.progressToken, progress: n },
        });
      return { sse: [progress(1), 600, progress(2), 600, progress(3), 600, done] };
    });
    const seen: number[] = [];
    const result = await pool.call('weather', 'echo', {}, { onProgress: ({ progress }) => seen.push(progress) });
    expect(textOf(result)).toBe('done');
    expect(seen).toEqual([1, 2, 3]);
  });

  it('ends a call at its absolute limit whatever the progress, and says so to the server', async () => {
    const server = await serve({}, { read_timeout: 1, max_total_timeout: 2 });
    server.on('tools/call', (request) => {
      const params = request.message?.params as { _meta: { progressToken: number } };
      const progress = { progressToken: params._meta.progressToken, progress: 1 };
      const text = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress', params: progress });
      return { sse: Array.from({ length: 60 }, () => [text, 100]).flat() };
    });
    await expect(pool.call('weather', 'echo', {})).rejects.toMatchObject({ statusCode: 504, delivered: 'unknown' });
    const cancelled = await server.seen('notifications/cancelled');
    expect(cancelled.message?.params).toMatchObject({ requestId: server.of('tools/call')[0]?.message?.id });
    expect((await pool.sessions.report('weather')).status).toBe('connected');
  });

  it('ends a silent call at read_timeout', async () => {
    const server = await serve(onCall({ hold: 'never' }), { read_timeout: 1 });
    await expect(pool.call('weather', 'echo', {})).rejects.toThrow(/read_timeout/);
    await server.seen('notifications/cancelled');
  });

  it('ends with the signal of the caller, closing the stream', async () => {
    const server = await serve(onCall({ sse: [], hold: 'open' }));
    const caller = new AbortController();
    const call = pool.call('weather', 'echo', {}, { signal: caller.signal });
    await server.seen('tools/call');
    caller.abort(new Error('the client left'));
    await expect(call).rejects.toThrow('the client left');
    await server.seen('notifications/cancelled');
    expect(pool.audited.at(-1)).toMatchObject({ outcome: 'cancelled' });
  });

  it('reads the list again after list_changed on the stream of a call', async () => {
    const tool = (name: string) => ({ name, inputSchema: { type: 'object' } });
    const server = await serve({ tools: [tool('a')] });
    server.on('tools/call', () => {
      server.tools([tool('b')]);
      return { sse: ['{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}', done] };
    });
    await pool.sessions.tools('weather');
    await pool.call('weather', 'a', {});
    const { tools } = await pool.sessions.tools('weather');
    expect(tools.map(({ name }) => name)).toEqual(['b']);
    expect((await pool.sessions.report('weather')).tools).toMatchObject([{ name: 'b', state: 'available' }]);
    expect(server.of('tools/list')).toHaveLength(2);
  });

  it('reads the list again after list_changed on the listening stream', async () => {
    const tool = (name: string) => ({ name, inputSchema: { type: 'object' } });
    const server = await serve({ tools: [tool('a')] });
    let announce = (_text: string): void => undefined;
    const announced = new Promise<string>((resolve) => {
      announce = resolve;
    });
    server.on('GET', { sse: [() => announced], hold: 'open' });
    await pool.sessions.tools('weather');
    await server.seen('GET');
    server.tools([tool('b')]);
    announce('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}');
    await expect.poll(async () => (await pool.sessions.tools('weather')).tools.map(({ name }) => name)).toEqual(['b']);
  });
});
