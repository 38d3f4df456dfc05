import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import { startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { startRig } from './rig.ts';

const rig = startRig();

describe('a server that stops', () => {
  it('lets a run with a tool call under way end, stores its answer, then ends the session', async () => {
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const server = await rig.serve({ on: { 'tools/call': () => held.then(() => 'normal' as const) } });
    const agent = await rig.agent(await rig.connector(server.origin));
    rig.llm.reset({ tool: 'echo', args: '{"text":"x"}' }, ({ messages }) => String(messages.at(-1)?.content));
    const running = rig.ask(agent, 'go');
    await server.seen('tools/call');
    const restarted = rig.restart();
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(server.of('DELETE')).toEqual([]);
    release();
    const turn = await running;
    expect(turn).toMatchObject({ status: 200, answer: 'echo: {"text":"x"}' });
    await restarted;
    expect(server.of('DELETE').map(({ headers }) => headers['mcp-session-id'])).toEqual(['s-1']);
    const { messages } = await rig.ok('GET', `/memory/${turn.memoryId}/messages`);
    expect(messages).toMatchObject([{ input: 'go', response: 'echo: {"text":"x"}' }]);
    expect(await rig.connections(agent)).toMatchObject([{ status: 'idle', tools: ['echo'] }]);
  });

  it('is not held by servers that do not end their sessions, nor by their open streams', async () => {
    const servers = await Promise.all([
      rig.serve({ on: { DELETE: { hold: 'never' } } }),
      rig.serve({ on: { DELETE: { status: 405 }, GET: { sse: [': open'], hold: 'open' } } }),
      rig.serve({ on: { DELETE: { reset: true } } }),
      rig.serve({ on: { DELETE: { status: 500, body: 'no' } } }),
    ]);
    for (const { origin } of servers) {
      expect((await rig.call(await rig.connector(origin), 'echo', { text: 'x' })).status).toBe(200);
    }
    const gone = await startFakeMcpServer();
    expect((await rig.call(await rig.connector(gone.origin), 'echo', { text: 'x' })).status).toBe(200);
    await gone.stop();
    await rig.restart();
    for (const server of servers) expect(server.of('DELETE')).toHaveLength(1);
    expect((await rig.app.request('GET', '/healthz')).status).toBe(200);
  });

  it('ends idle connections at once and takes no new ones', async () => {
    const { port } = rig.app;
    const socket = connect(port, '127.0.0.1');
    const answered = new Promise((resolve) => socket.once('data', resolve));
    socket.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await answered;
    const silent = connect(port, '127.0.0.1');
    await new Promise((resolve) => silent.once('connect', resolve));
    const closed = Promise.all([socket, silent].map((open) => new Promise((resolve) => open.once('close', resolve))));
    await rig.restart();
    await closed;
    const late = connect(port, '127.0.0.1');
    await expect(new Promise((resolve, reject) => late.once('connect', resolve).once('error', reject))).rejects.toThrow(
      'ECONNREFUSED',
    );
  });

  it('opens nothing any more for a connect under way', async () => {
    const server = await rig.serve({ on: { initialize: { hold: 'never' } } });
    const id = await rig.connector(server.origin, { client_config: { max_retry_times: 0, connection_timeout: 1 } });
    const running = rig.call(id, 'echo', { text: 'x' });
    await server.seen('initialize');
    await rig.restart();
    expect([502, 503, 504]).toContain((await running).status);
    expect(server.of('tools/list')).toEqual([]);
    server.on('initialize', 'normal');
    expect((await rig.call(id, 'echo', { text: 'x' })).status).toBe(200);
  });
});
