import { createServer, type Server } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { createMissedStreams } from '../../src/mcp/connection/missed-streams.ts';
import type { OpenSession } from '../../src/mcp/connection/session-lifetimes.ts';
import { type FakeMcpScript, type FakeMcpServer, type Reply, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { openPool, type Pool } from './pool.ts';

const STREAM = { 'Content-Type': 'text/event-stream' };
/** Ends after an event from which it could be resumed. */
const ENDS: Reply = { headers: STREAM, chunks: ['retry: 10\nid: ev-1\ndata:\n\n'] };
const UNKNOWN = { code: 'outcome_unknown', delivered: 'unknown', statusCode: 502 };
const asks: Reply = {
  result: {
    resultType: 'input_required',
    requestState: 's',
    inputRequests: {
      where: {
        method: 'elicitation/create',
        params: { mode: 'form', message: 'Where?', requestedSchema: { type: 'object', properties: {} } },
      },
    },
  },
};

describe('what follows a call does not tell what became of it', () => {
  let pool: Pool;
  let silent: Server;
  const servers: FakeMcpServer[] = [];

  async function serve(script: FakeMcpScript, config = {}): Promise<FakeMcpServer> {
    const server = await startFakeMcpServer(script);
    servers.push(server);
    pool.add('bank', `${server.origin}/mcp`, { config: { connection_timeout: 1, ...config } });
    return server;
  }
  const tool = (annotations: JsonObject = {}): JsonObject[] => [
    { name: 'pay', inputSchema: { type: 'object' }, annotations },
  ];

  beforeEach(async () => {
    pool = await openPool();
    silent = createServer(() => undefined);
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  });
  afterEach(async () => {
    await pool.dispose();
    await Promise.all(servers.splice(0).map((server) => server.stop()));
    silent.close();
  });

  it.each<[string, (server: FakeMcpServer) => string]>([
    ['connection_refused', () => 'http://127.0.0.1:1/mcp'],
    ['dns_failed', () => 'http://no-such-host.invalid/mcp'],
    ['tls_failed', ({ port }) => `https://127.0.0.1:${port}/mcp`],
    ['connect_timeout', () => `https://127.0.0.1:${(silent.address() as { port: number }).port}/mcp`],
    ['address_refused', () => 'http://169.254.169.254/mcp'],
  ])('when its stream cannot be resumed: %s', { timeout: 15_000 }, async (_code, elsewhere) => {
    const server = await serve({ tools: tool() });
    const { mcpEndpoint } = pool.connectors;
    let lost = false;
    // Of the requests after the call the first goes astray; a repeated call would arrive.
    pool.connectors.mcpEndpoint = async (connector) => {
      const endpoint = await mcpEndpoint(connector);
      return {
        ...endpoint,
        origins: [...endpoint.origins, new URL(elsewhere(server)).origin],
        get url() {
          const { url } = endpoint;
          if (!lost) return url;
          lost = false;
          return elsewhere(server);
        },
      };
    };
    server.on('tools/call', () => {
      lost = true;
      return ENDS;
    });
    await expect(pool.call('bank', 'pay')).rejects.toMatchObject({
      ...UNKNOWN,
      message: expect.stringMatching(/ended the stream before it answered tools\/call and could not be asked/),
    });
    expect(server.of('tools/call')).toHaveLength(1);
    expect(pool.audited.at(-1)).toMatchObject({ outcome: 'unknown', detail: 'outcome_unknown' });
  });

  it.each<[string, Reply]>([
    ['the session is not known any more', { status: 404, error: { code: -32001, message: 'Session not found' } }],
    ['a credential is wanted', { status: 401 }],
    ['an error without an id', { sse: ['{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"no session"}}'] }],
    ['a busy server', { status: 429, headers: { 'Retry-After': '0' } }],
  ])('when its stream is refused to be resumed: %s', async (_name, reply) => {
    const server = await serve({ tools: tool(), on: { 'tools/call': ENDS } });
    server.on('GET', ({ headers }) => (headers['last-event-id'] === undefined ? 'normal' : reply));
    await expect(pool.call('bank', 'pay')).rejects.toMatchObject(UNKNOWN);
    expect(server.of('tools/call')).toHaveLength(1);
    expect(pool.audited.at(-1)).toMatchObject({ outcome: 'unknown' });
  });

  it('when it is repeated, because its tool only reads, and the server is gone then', async () => {
    const server = await serve({ tools: tool({ readOnlyHint: true }) }, { max_retry_times: 1 });
    server.on('tools/call', () => {
      setTimeout(() => void server.stop(), 0);
      return { reset: true };
    });
    await expect(pool.call('bank', 'pay')).rejects.toMatchObject({ code: 'connection_refused', delivered: 'unknown' });
    expect(pool.audited.at(-1)).toMatchObject({ outcome: 'unknown', detail: 'connection_refused' });
  });

  it('when the answers to its questions cannot be given', async () => {
    const server = await serve({ modern: true, tools: tool(), on: { 'tools/call': asks } }, { elicitation: 'ask' });
    const ask = async () => {
      await server.stop();
      return { where: { action: 'accept' as const, content: {} } };
    };
    await expect(pool.call('bank', 'pay', {}, { ask })).rejects.toMatchObject(UNKNOWN);
    expect(pool.audited.at(-1)).toMatchObject({ outcome: 'unknown' });
  });

  it('but a call that never left is known not to have run', async () => {
    const server = await serve({ tools: tool() });
    await pool.sessions.tools('bank');
    await server.stop();
    await expect(pool.call('bank', 'pay')).rejects.toMatchObject({ code: 'connection_refused', delivered: 'no' });
    expect(pool.audited.at(-1)).toMatchObject({ outcome: 'failed' });
  });

  describe('the end of the stream on which a server tells of changes', () => {
    const status = async () => (await pool.sessions.report('bank')).status;

    it('shows within seconds that the server is gone', async () => {
      const server = await serve({ on: { GET: { sse: [], hold: 'open' } } });
      await pool.sessions.tools('bank');
      await server.seen('GET');
      await server.stop();
      await expect.poll(status).toBe('failed');
      expect((await pool.sessions.history('bank', 1))[0]).toMatchObject({ cause: 'probe', code: 'connection_refused' });
      const told = pool.lines.filter((line) => line.includes('is read again before its next use'));
      expect(told).toEqual([expect.stringContaining('the stream on which its changes are told has ended')]);
      expect(told.join()).not.toContain('it changed');
    });

    it('is followed by a round trip that finds a server alive', async () => {
      const server = await serve({ on: { GET: [{ sse: [], hold: 'open' }, 'normal'] } });
      let end = (): void => undefined;
      const ended = new Promise<undefined>((resolve) => {
        end = () => resolve(undefined);
      });
      server.on('GET', [{ sse: [() => ended] }, 'normal']);
      await pool.sessions.tools('bank');
      await server.seen('GET');
      end();
      await server.seen('ping');
      await expect.poll(status).toBe('connected');
    });
  });
});

describe('streams that keep ending', () => {
  it('cause one round trip in ten seconds, and none for a session that is not used any more', () => {
    let time = 1_000_000;
    let current = true;
    let asked = 0;
    let stale = 0;
    const missed = createMissedStreams({
      now: () => time,
      markStale: () => {
        stale += 1;
      },
      isCurrent: () => current,
      ask: () => {
        asked += 1;
      },
    });
    const open = {} as OpenSession;
    missed(undefined);
    expect(asked).toBe(0);
    missed(open);
    missed(open);
    time += 9999;
    missed(open);
    expect(asked).toBe(1);
    time += 20_000;
    missed(open);
    expect(asked).toBe(2);
    time += 20_000;
    current = false;
    missed(open);
    expect([asked, stale]).toEqual([2, 6]);
  });
});
