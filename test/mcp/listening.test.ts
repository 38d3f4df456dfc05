import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, Server as StatelessServer } from '@modelcontextprotocol/server';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/json.ts';
import { createReopening } from '../../src/mcp/session/reopening.ts';
import {
  type FakeMcpScript,
  type FakeMcpServer,
  type Reply,
  type ScriptedReply,
  startFakeMcpServer,
} from '../support/fake-mcp-server.ts';
import { serve as serveHandler } from '../support/mcp-peers.ts';
import { openPool, type Pool } from './pool.ts';

const tool = (name: string): JsonObject => ({ name, inputSchema: { type: 'object' } });
const notice = (method: string, subscription?: JsonValue): string =>
  JSON.stringify({
    jsonrpc: '2.0',
    method: `notifications/${method}`,
    params:
      subscription === undefined
        ? {}
        : {
            _meta: { 'io.modelcontextprotocol/subscriptionId': subscription },
            notifications: { toolsListChanged: true },
          },
  });

/** A text that is said when it is time. */
function later(): { text: Promise<string | undefined>; say: (text?: string) => void } {
  let say = (_text?: string): void => undefined;
  const text = new Promise<string | undefined>((resolve) => {
    say = resolve;
  });
  return { text, say };
}

describe('servers that tell of changes unasked', () => {
  let pool: Pool;
  const servers: FakeMcpServer[] = [];

  async function serve(script: FakeMcpScript): Promise<FakeMcpServer> {
    const server = await startFakeMcpServer({ tools: [tool('a')], ...script });
    servers.push(server);
    pool.add('weather', `${server.origin}/mcp`);
    return server;
  }
  const names = async (): Promise<string[]> => (await pool.sessions.tools('weather')).tools.map(({ name }) => name);

  beforeEach(async () => {
    pool = await openPool();
  });
  afterEach(async () => {
    await pool.dispose();
    await Promise.all(servers.splice(0).map((server) => server.stop()));
  });

  describe('in the session era', () => {
    it('are listened to once only when they refuse', async () => {
      const server = await serve({});
      await names();
      await server.seen('GET');
      await names();
      expect(server.of('GET')).toHaveLength(1);
      expect(server.of('tools/list')).toHaveLength(1);
    });

    it('have their list read again after the stream was lost, and are listened to again', async () => {
      const end = later();
      const server = await serve({});
      server.on('GET', [
        {
          sse: [
            async () => {
              await end.text;
              return undefined;
            },
          ],
        },
        { sse: [], hold: 'open' },
      ]);
      expect(await names()).toEqual(['a']);
      await server.seen('GET');
      server.tools([tool('b')]);
      expect(await names()).toEqual(['a']);
      end.say();
      await expect.poll(names).toEqual(['b']);
      const again = await server.seen('GET', 2);
      expect(again.headers['mcp-session-id']).toBe('s-1');
      expect(again.time - (server.of('GET')[0]?.time ?? 0)).toBeGreaterThan(400);
    });

    it('are asked to go on from the last event they gave', async () => {
      const server = await serve({});
      const type = { 'Content-Type': 'text/event-stream' };
      server.on('GET', [
        { headers: type, chunks: ['retry: 10\nid: ev-7\ndata:\n\n'] },
        { sse: [], hold: 'open' },
      ]);
      await names();
      const again = await server.seen('GET', 2);
      expect(again.headers['last-event-id']).toBe('ev-7');
    });

    it('are left alone after their end', async () => {
      const server = await serve({});
      server.on('GET', { sse: [], hold: 'open' });
      await names();
      await server.seen('GET');
      await pool.sessions.reset('weather', 'test');
      await server.seen('DELETE');
      expect(server.of('GET')).toHaveLength(1);
    });
  });

  describe('in the stateless era', () => {
    const script = (listen: Reply | readonly Reply[], capabilities: JsonObject = { tools: { listChanged: true } }) => ({
      modern: true,
      capabilities,
      on: {
        'subscriptions/listen': listen,
        'tools/list': { patch: { ttlMs: 600_000 } },
      },
    });
    /** Acknowledges, says what is given, and ends as the last part says. */
    const stream =
      (parts: NonNullable<ScriptedReply['sse']>, hold?: 'open'): Reply =>
      ({ message }) => ({
        sse: [notice('subscriptions/acknowledged', message?.id), ...parts],
        ...(hold && { hold }),
      });

    it('are listened to when they say that their list changes', async () => {
      const change = later();
      const server = await serve(script(stream([() => change.text], 'open')));
      expect(await names()).toEqual(['a']);
      const listen = await server.seen('subscriptions/listen');
      expect(listen.message?.params).toMatchObject({ notifications: { toolsListChanged: true } });
      expect(listen.headers['mcp-method']).toBe('subscriptions/listen');
      server.tools([tool('b')]);
      expect(await names()).toEqual(['a']);
      change.say(notice('tools/list_changed', listen.message?.id));
      await expect.poll(names).toEqual(['b']);
      expect(server.of('subscriptions/listen')).toHaveLength(1);
    });

    it('are not listened to when they do not say so', async () => {
      const server = await serve(script({ status: 500 }, { tools: {} }));
      await names();
      expect(server.of('subscriptions/listen')).toEqual([]);
    });

    it.each([
      ['an error', { error: { code: -32601, message: 'Method not found' } }],
      ['404', { status: 404, error: { code: -32601, message: 'Method not found' } }],
      ['a result at once', { result: { resultType: 'complete' } }],
    ] as [string, ScriptedReply][])('are used without such a stream when they answer with %s', async (_name, reply) => {
      const server = await serve(script(reply));
      expect(await names()).toEqual(['a']);
      await server.seen('subscriptions/listen');
      expect((await pool.sessions.report('weather')).status).toBe('connected');
      await pool.call('weather', 'a');
      expect(server.of('subscriptions/listen')).toHaveLength(1);
    });

    it.each([
      ['breaks off', undefined],
      ['ends as agreed', '{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete"}}'],
    ])('are listened to again when the stream %s, and their list is read again', async (_name, last) => {
      const end = later();
      const server = await serve(script([stream([() => end.text]), stream([], 'open')]));
      expect(await names()).toEqual(['a']);
      await server.seen('subscriptions/listen');
      server.tools([tool('b')]);
      end.say(last);
      await expect.poll(names).toEqual(['b']);
      const again = await server.seen('subscriptions/listen', 2);
      expect(again.message?.id).not.toBe(server.of('subscriptions/listen')[0]?.message?.id);
    });

    it('are left alone after the end of the session', async () => {
      const server = await serve(script(stream([], 'open')));
      await names();
      await server.seen('subscriptions/listen');
      await pool.sessions.close(200);
      await expect.poll(() => server.unanswered()).toBe(0);
      expect(server.of('subscriptions/listen')).toHaveLength(1);
      expect(server.requests.at(-1)?.rpc).not.toBe('notifications/cancelled');
    });

    it('are heard when they are of the second SDK generation', async () => {
      let offered = 'a';
      const handler = createMcpHandler(() => {
        const server = new StatelessServer(
          { name: 'changing', version: '1' },
          { capabilities: { tools: { listChanged: true } } },
        );
        server.setRequestHandler('tools/list', () => ({
          tools: [{ name: offered, inputSchema: { type: 'object' as const } }],
          ttlMs: 600_000,
          cacheScope: 'private' as const,
        }));
        return server;
      });
      const handle = toNodeHandler(handler);
      let listening = (): void => undefined;
      const heard = new Promise<void>((resolve) => {
        listening = resolve;
      });
      const peer = await serveHandler(async (request, response) => {
        if (request.headers['mcp-method'] === 'subscriptions/listen') {
          const write = response.write.bind(response);
          response.write = ((...args: Parameters<typeof write>) => {
            listening();
            return write(...args);
          }) as typeof response.write;
        }
        return handle(request as Parameters<typeof handle>[0], response);
      });
      try {
        pool.add('weather', peer.url);
        expect(await names()).toEqual(['a']);
        await heard;
        offered = 'b';
        expect(await names()).toEqual(['a']);
        handler.notify.toolsChanged();
        await expect.poll(names).toEqual(['b']);
      } finally {
        await peer.stop();
      }
    });
  });
});

describe('the wait before a stream is opened again', () => {
  it('grows, and ends after six streams in a row that did not last', () => {
    const reopening = createReopening(() => 0);
    expect(Array.from({ length: 7 }, () => reopening.ended())).toEqual([
      1000,
      2000,
      4000,
      8000,
      16_000,
      32_000,
      undefined,
    ]);
  });

  it('is up to half shorter by chance, and as long as the server asks, up to a minute', () => {
    const reopening = createReopening(() => 1);
    expect(reopening.ended()).toBe(500);
    expect(reopening.ended(5000)).toBe(5000);
    expect(reopening.ended(3_600_000)).toBe(60_000);
  });
});
