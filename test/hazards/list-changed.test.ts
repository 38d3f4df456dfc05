import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import type { FakeMcpServer } from '../support/fake-mcp-server.ts';
import { startRig, until } from './rig.ts';

const rig = startRig();
const CHANGED = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';
const RESULT = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"ok"}]}}';
const tool = (name: string, more: JsonObject = {}): JsonObject => ({ name, inputSchema: { type: 'object' }, ...more });

/** Calls the first tool that is offered; resolves with what was offered. */
async function run(agent: string): Promise<readonly string[]> {
  rig.llm.reset(({ messages, toolNames: [first] }) =>
    messages.at(-1)?.role === 'tool' || first === undefined ? 'done' : { tool: first },
  );
  await rig.ask(agent, 'go');
  return rig.llm.requests[0]?.toolNames ?? [];
}
async function agentOf(server: FakeMcpServer): Promise<{ id: string; agent: string }> {
  const id = await rig.connector(server.origin);
  return { id, agent: await rig.agent(id) };
}
const shown = async (id: string): Promise<unknown[]> =>
  ((await rig.status(id)).tools as unknown as JsonObject[]).map(({ name }) => name);

describe('a list that changed', () => {
  it.each([1, 2, 50])(
    'in the middle of a call is read again before the next run, once for %i notices',
    async (times) => {
      const server = await rig.serve({ tools: [tool('a')] });
      server.on('tools/call', () => {
        server.tools([tool('b')]);
        return { sse: [...Array.from({ length: times }, () => CHANGED), RESULT] };
      });
      const { id, agent } = await agentOf(server);
      expect(await run(agent)).toEqual(['a']);
      server.on('tools/call', 'normal');
      expect(await run(agent)).toEqual(['b']);
      expect(await shown(id)).toEqual(['b']);
      expect(server.of('tools/list')).toHaveLength(2);
      expect(server.of('initialize')).toHaveLength(1);
    },
  );

  it('behind the result of a call is heard too', async () => {
    const server = await rig.serve({ tools: [tool('a')], on: { 'tools/call': { sse: [RESULT, CHANGED] } } });
    const { agent } = await agentOf(server);
    expect(await run(agent)).toEqual(['a']);
    server.tools([tool('b')]);
    await until(async () => (await run(agent)).includes('b'));
  });

  it('on the stream that listens is read again before the next run', async () => {
    let changed = (): void => undefined;
    const happens = new Promise<string>((resolve) => {
      changed = () => resolve(CHANGED);
    });
    const server = await rig.serve({ tools: [tool('a')], on: { GET: { sse: [() => happens], hold: 'open' } } });
    const { agent } = await agentOf(server);
    expect(await run(agent)).toEqual(['a']);
    server.tools([tool('b')]);
    changed();
    await until(async () => (await run(agent)).includes('b'));
    expect(server.of('initialize')).toHaveLength(1);
  });

  it('while it is being read is read once more', async () => {
    const page = (name: string, nextCursor?: string): JsonObject => ({
      tools: [tool(name)],
      ...(nextCursor && { nextCursor }),
    });
    const server = await rig.serve({
      on: {
        'tools/list': [
          { sse: [CHANGED, `{"jsonrpc":"2.0","id":ID,"result":${JSON.stringify(page('old'))}}`] },
          { result: page('new') },
        ],
      },
    });
    const { agent } = await agentOf(server);
    await run(agent);
    expect(await run(agent)).toEqual(['new']);
  });

  it('in only one definition is offered with the new one', async () => {
    const server = await rig.serve({ tools: [tool('a', { description: 'first' })] });
    const { agent } = await agentOf(server);
    server.on('tools/call', { sse: [CHANGED, RESULT] });
    await run(agent);
    server.tools([tool('a', { description: 'second' })]);
    await run(agent);
    const definition = rig.llm.requests[0]?.tools[0]?.function as JsonObject | undefined;
    expect(definition?.description).toBe('second');
  });

  it('and cannot be read any more leaves the model with what it can use, and says so', async () => {
    const server = await rig.serve({ tools: [tool('a')], on: { 'tools/call': { sse: [CHANGED, RESULT] } } });
    const { id, agent } = await agentOf(server);
    await run(agent);
    server.on('tools/list', { status: 500 });
    expect(await run(agent)).toEqual([]);
    expect(await rig.status(id)).toMatchObject({ status: 'failed', error: { code: 'server_error' } });
    server.on('tools/list', 'normal');
    expect(await run(agent)).toEqual(['a']);
  });

  it('to nothing is an empty list, not a failure', async () => {
    const server = await rig.serve({ tools: [tool('a')], on: { 'tools/call': { sse: [CHANGED, RESULT] } } });
    const { id, agent } = await agentOf(server);
    await run(agent);
    server.tools([]);
    expect(await run(agent)).toEqual([]);
    expect(await rig.status(id)).toMatchObject({ status: 'connected', tool_count: 0 });
  });

  it.each([
    'notifications/prompts/list_changed',
    'notifications/resources/list_changed',
    'notifications/tools/changed',
  ])('of another kind is no reason to read it again: %s', async (method) => {
    const server = await rig.serve({
      tools: [tool('a')],
      on: { 'tools/call': { sse: [JSON.stringify({ jsonrpc: '2.0', method }), RESULT] } },
    });
    const { agent } = await agentOf(server);
    await run(agent);
    await run(agent);
    expect(server.of('tools/list')).toHaveLength(1);
  });
});
