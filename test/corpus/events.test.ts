import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import type { PlatformEvent } from '../../src/telemetry/events.ts';
import { openRig, type Rig } from '../agents/rig.ts';
import type { Reply } from '../support/fake-mcp-server.ts';

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

interface Documented {
  readonly always: readonly string[];
  readonly sometimes: readonly string[];
}

/** What a table of the chapter about events says: members by the names in the first cells of its rows. */
function table(heading: string): ReadonlyMap<string, Documented> {
  const [, chapter = ''] = read('docs/status-and-errors.md').split('\n## Events\n');
  const [, after = ''] = (chapter.split('\n## ')[0] ?? '').split(`| ${heading} | members | what |\n`);
  const [rows = ''] = after.split('\n\n');
  const words = (cell: string) => [...cell.matchAll(/`([a-z_]+\??)`/g)].map(([, word = '']) => word);
  return new Map(
    [...rows.matchAll(/^\| (`[^|]+) \|([^|]*)\|/gm)].flatMap(([, first = '', cell = '']) => {
      const members = words(cell.replace('its `event`', ''));
      const documented = {
        always: members.filter((name) => !name.endsWith('?')),
        sometimes: members.flatMap((name) => (name.endsWith('?') ? name.slice(0, -1) : [])),
      };
      return words(first).map((name) => [name, documented] as const);
    }),
  );
}

const TYPES = table('type');
const RUN = table('`event` of a run');

function documentedFor({ type, data }: Pick<PlatformEvent, 'type' | 'data'>): Documented {
  const own = TYPES.get(type) ?? { always: [], sometimes: [] };
  const more = type === 'run' ? RUN.get(String(data.event)) : undefined;
  return {
    always: [...own.always, ...(more?.always ?? [])],
    sometimes: [...own.sometimes, ...(more?.sometimes ?? [])],
  };
}

describe('the table of events', () => {
  let rig: Rig;
  const seen: Pick<PlatformEvent, 'type' | 'data'>[] = [];
  beforeEach(async () => {
    rig = await openRig();
    seen.length = 0;
    rig.services().events.listen(({ type, data }) => void seen.push({ type: type as PlatformEvent['type'], data }));
  });
  afterEach(() => rig.dispose());

  const tool = (name: string, description = 'first'): JsonObject => ({
    name,
    description,
    inputSchema: { type: 'object' },
  });
  const withProgress: Reply = ({ message }) => {
    const { progressToken } = (message as { params: { _meta: { progressToken: number } } }).params._meta;
    const notice = (params: JsonObject) =>
      JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken, ...params } });
    const done = '{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}';
    return { sse: [notice({ progress: 1 }), 300, notice({ progress: 2, total: 2 }), done] };
  };

  it('names every event of a run that is told', () => {
    const source = read('src/agents/runners/turn-events.ts');
    const [, said = ''] = source.match(/say\(event: ([^)]+)\)/) ?? [];
    const told = [...said.matchAll(/'([a-z_]+)'/g), ...source.matchAll(/publish\('([a-z_]+)'/g)];
    expect(told.length).toBeGreaterThan(8);
    expect([...RUN.keys()].sort()).toEqual(told.map(([, name]) => name).sort());
  });

  it('has exactly the members that are published', async () => {
    const server = await rig.server({ tools: [tool('free'), tool('asked'), tool('denied')] });
    server.on('tools/call', withProgress);
    const connectorId = await rig.connector('w', server.origin);
    const rules = [
      { tool: 'asked', permission: 'ask' },
      { tool: 'denied', permission: 'deny' },
    ];
    const agentId = await rig.agent([connectorId], { parameters: { tool_permissions: JSON.stringify(rules) } });
    rig.llm.reset({ tool: 'free', args: '{}' }, 'done');
    expect((await rig.ask(agentId, 'q')).text).toBe('done');

    rig.llm.reset({ tool: 'denied', args: '{}' }, { tool: 'asked', args: '{}' }, 'done');
    const body = { parameters: { question: 'q' } };
    const { task_id: taskId } = await rig.ok('POST', `/agents/${agentId}/_execute?async=true`, body);
    const requests = async () => (await rig.ok('GET', `/tasks/${String(taskId)}/_requests`)).requests as JsonObject[];
    await expect.poll(async () => (await requests()).length).toBe(1);
    const [request] = await requests();
    await rig.ok('POST', `/tasks/${String(taskId)}/_requests/${String(request?.request_id)}`, { action: 'approve' });
    await expect.poll(() => seen.some(({ data }) => data.event === 'completed' && data.task_id === taskId)).toBe(true);

    server.tools([tool('free', 'second'), tool('late')]);
    await rig.services().sessions.reset(connectorId, 'test');
    rig.llm.reset('done', { status: 500, body: { error: { message: 'no' } } });
    await rig.ask(agentId, 'q');
    await rig.ok('POST', `/agents/${agentId}/_pins/_approve`, { tools: ['*'] });
    await rig.ask(agentId, 'q');
    await server.stop();
    await rig.ok('GET', `/connectors/${connectorId}/_status?probe=true`);

    for (const event of seen) {
      const { always, sometimes } = documentedFor(event);
      const members = Object.keys(event.data).filter((name) => name !== 'time');
      expect(members, JSON.stringify(event)).toEqual(expect.arrayContaining([...always]));
      expect([...always, ...sometimes], JSON.stringify(event)).toEqual(expect.arrayContaining(members));
    }
    const types = [...TYPES].filter(([type]) => type !== 'lost');
    const ofRuns = [...RUN].filter(([event]) => event !== 'continued' && event !== 'suspended');
    for (const [kind, { sometimes }] of [...types, ...ofRuns]) {
      const alike = seen.filter(({ type, data }) => type === kind || (type === 'run' && data.event === kind));
      expect(alike.length, kind).toBeGreaterThan(0);
      for (const name of sometimes) {
        expect(
          alike.some(({ data }) => data[name] !== undefined),
          `${kind} without ${name} in any`,
        ).toBe(true);
      }
    }
    expect(seen.filter(({ data }) => data.cause === 'denied')).toMatchObject([
      { type: 'run', data: { event: 'tool_result', tool: 'denied', outcome: 'not_run' } },
    ]);
  });
});
