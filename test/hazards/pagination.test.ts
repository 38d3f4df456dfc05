import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/json.ts';
import type { RecordedRequest, Reply } from '../support/fake-mcp-server.ts';
import { startRig } from './rig.ts';

const rig = startRig();
const tool = (name: string): JsonObject => ({ name, inputSchema: { type: 'object', properties: {} } });
const page = (names: readonly string[], nextCursor?: JsonValue): Reply => ({
  result: { tools: names.map(tool), ...(nextCursor !== undefined && { nextCursor }) },
});
const cursorOf = ({ message }: RecordedRequest): JsonValue | undefined =>
  (message?.params as JsonObject | undefined)?.cursor;

async function offered(pages: Reply, more: { modern?: boolean } = {}) {
  const server = await rig.serve({ on: { 'tools/list': pages }, ...more });
  const id = await rig.connector(server.origin);
  const agent = await rig.agent(id);
  rig.llm.reset('done');
  expect((await rig.ask(agent, 'go')).answer).toBe('done');
  return { server, id, agent, names: rig.llm.requests[0]?.toolNames };
}

describe('the pages of a list', () => {
  it('are all read, in order, each with the cursor of the one before', async () => {
    const pages: Record<string, Reply> = { '': page(['a'], 'one'), one: page(['b'], 'two/ä?'), 'two/ä?': page(['c']) };
    const { server, names } = await offered((request) => pages[String(cursorOf(request) ?? '')] ?? { status: 400 });
    expect(names).toEqual(['a', 'b', 'c']);
    expect(server.of('tools/list').map(cursorOf)).toEqual([undefined, 'one', 'two/ä?']);
  });

  it('that lead to themselves are left, with each tool once and a warning', async () => {
    const { server, id, agent, names } = await offered(page(['a', 'b'], '2'));
    expect(names).toEqual(['a', 'b']);
    expect(server.of('tools/list').length).toBeLessThanOrEqual(3);
    for (const shown of [await rig.status(id), ...(await rig.connections(agent))]) {
      expect(shown).toMatchObject({ status: 'connected', tool_count: 2 });
      expect(shown.warnings).toEqual([
        expect.stringMatching(/circles/),
        expect.stringMatching(/"a", "b" more than once/),
      ]);
    }
  });

  it('that lead back to an earlier one are left too', async () => {
    const next: Record<string, string> = { '': '1', 1: '2', 2: '1' };
    const { server, names } = await offered((request) => {
      const cursor = String(cursorOf(request) ?? '');
      return page([`t${cursor}`], next[cursor] ?? '1');
    });
    expect(names).toEqual(['t', 't1', 't2']);
    expect(server.of('tools/list').length).toBeLessThanOrEqual(4);
  });

  it('that never end are cut, with a warning', async () => {
    const { server, id, names } = await offered((request) => {
      const number = Number(cursorOf(request) ?? 0);
      return page([`t${number}`], String(number + 1));
    });
    expect(names?.length).toBe(server.of('tools/list').length);
    expect(names?.length).toBeLessThanOrEqual(128);
    expect((await rig.status(id)).warnings).toEqual([expect.stringMatching(/more than 64 pages/)]);
  });

  it.each<[string, JsonValue]>([
    ['an empty text', ''],
    ['null', null],
    ['a number', 2],
    ['an object', { page: 2 }],
    ['false', false],
  ])('end with a cursor that is %s', async (_name, cursor) => {
    const { server, id, names } = await offered(page(['a', 'b'], cursor));
    expect(names).toEqual(['a', 'b']);
    expect(server.of('tools/list')).toHaveLength(1);
    expect(await rig.status(id)).toMatchObject({ status: 'connected', tool_count: 2 });
  });

  it('are asked for again when one of them fails: no half list is taken for the whole', async () => {
    let failures = 0;
    const { server, id, names } = await offered((request) => {
      if (cursorOf(request) === undefined) return page(['a'], 'next');
      failures += 1;
      return failures === 1 ? { status: 500 } : page(['b']);
    });
    expect(names).toEqual(['a', 'b']);
    expect(server.of('tools/list')).toHaveLength(4);
    expect(await rig.status(id)).toMatchObject({ status: 'connected', tool_count: 2 });
  });

  it('are no list when one of them stays broken', async () => {
    const server = await rig.serve({
      on: {
        'tools/list': (request) => (cursorOf(request) === undefined ? page(['a'], 'next') : { result: { tools: 'x' } }),
      },
    });
    const id = await rig.connector(server.origin, { client_config: { max_retry_times: 0 } });
    expect((await rig.send('GET', `/connectors/${id}/tools`)).status).toBe(502);
    expect(await rig.status(id)).toMatchObject({ status: 'failed', tool_count: 0, error: { code: 'tools_invalid' } });
  });

  it('are read from the start again when a cursor has expired, and given up when it always does', async () => {
    const expired: Reply = { error: { code: -32602, message: 'Invalid cursor' } };
    let refusals = 0;
    const once = await offered((request) => {
      if (cursorOf(request) === undefined) return page(['a'], 'next');
      refusals += 1;
      return refusals === 1 ? expired : page(['b']);
    });
    expect(once.names).toEqual(['a', 'b']);
    const always = await offered((request) => (cursorOf(request) === undefined ? page(['a'], 'next') : expired));
    expect(always.names).toEqual([]);
    expect(JSON.stringify((await rig.status(always.id)).error)).toMatch(/cursor/);
    expect(always.server.of('tools/list').length).toBeLessThanOrEqual(8);
  });

  it('are all read in the stateless era too', async () => {
    const closing = { resultType: 'complete', ttlMs: 60_000, cacheScope: 'private' };
    const { server, names } = await offered(
      (request) => ({
        result: {
          tools: [tool(cursorOf(request) === undefined ? 'a' : 'b')],
          ...(cursorOf(request) === undefined && { nextCursor: 'next' }),
          ...closing,
        },
      }),
      { modern: true },
    );
    expect(names).toEqual(['a', 'b']);
    expect(server.of('tools/list').map(cursorOf)).toEqual([undefined, 'next']);
  });
});
