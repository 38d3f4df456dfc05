import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { DiscoveredTool } from '../../src/mcp/types.ts';
import type { Database } from '../../src/store/database.ts';
import { createToolPinStore, type ToolPinStore } from '../../src/store/tool-pins.ts';
import type { PlatformEvent } from '../../src/telemetry/events.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { createRedactor } from '../../src/telemetry/redactor.ts';
import { createToolPins, type MetTool, type ToolPins } from '../../src/tools/pins.ts';
import { sqliteDatabase } from '../support/databases.ts';

let database: Database;
let dispose: () => Promise<void>;
let store: ToolPinStore;
let pins: ToolPins;
let events: PlatformEvent[];
let lines: string[];

beforeEach(async () => {
  ({ database, dispose } = await sqliteDatabase());
  store = createToolPinStore(database);
  events = [];
  lines = [];
  const stream = { write: (line: string): void => void lines.push(line) };
  pins = createToolPins({
    store,
    events: { publish: (event) => void events.push(event) },
    log: createLogger({ level: 'info', redactor: createRedactor(), stream }),
  });
});
afterEach(() => dispose());

const met = (name: string, hash = 'h1', more: Partial<DiscoveredTool> = {}): MetTool => ({
  connectorId: 'c',
  tool: { name, description: hash, inputSchema: { type: 'object', properties: {} }, hash, ...more },
});
const states = async (trust: 'warn' | 'block', ...tools: MetTool[]) => {
  const review = await pins.review('a', trust, tools);
  return tools.map(({ connectorId, tool }) => review.of(connectorId, tool.name).state);
};
const warnings = () => lines.filter((line) => JSON.parse(line).level === 'warn').map((line) => JSON.parse(line).msg);

describe('definitions that an agent meets', () => {
  it('are pinned the first time, whatever the trust', async () => {
    expect(await states('block', met('send'), met('read'))).toEqual(['unchanged', 'unchanged']);
    expect((await store.list('a')).map(({ tool, hash }) => [tool, hash])).toEqual([
      ['read', 'h1'],
      ['send', 'h1'],
    ]);
    expect(events).toEqual([]);
    expect(lines.join()).toContain('MCP tools pinned for agent a: 2');
  });

  it('are noticed once when they change, and again when they change again', async () => {
    await states('warn', met('send'));
    expect(await states('warn', met('send', 'h2'))).toEqual(['changed']);
    expect(await states('warn', met('send', 'h2'))).toEqual(['changed']);
    expect(warnings()).toEqual([
      'MCP tool send is not as it was pinned: its description changed; it is offered all the same',
    ]);
    expect(events).toEqual([
      {
        type: 'pin',
        data: {
          agent_id: 'a',
          connector_id: 'c',
          tool: 'send',
          state: 'changed',
          trust: 'warn',
          members: ['description'],
          hash: 'h2',
        },
        scope: { connectorId: 'c' },
      },
    ]);
    await states('warn', met('send', 'h3'));
    expect(events).toHaveLength(2);
    expect(await states('warn', met('send'))).toEqual(['unchanged']);
  });

  it('that come later are pinned at once with warn, and noticed', async () => {
    await states('warn', met('send'));
    expect(await states('warn', met('send'), met('late'))).toEqual(['unchanged', 'unchanged']);
    expect(await states('block', met('send'), met('late'))).toEqual(['unchanged', 'unchanged']);
    expect(events.map(({ data }) => [data.tool, data.state])).toEqual([['late', 'new']]);
    expect(warnings()).toEqual([
      'MCP tool late appeared after the tools of its connector were pinned; it is offered all the same',
    ]);
  });

  it('that come later stay new where the agent blocks, until warn pins them', async () => {
    await states('block', met('send'));
    expect(await states('block', met('send'), met('late'))).toEqual(['unchanged', 'new']);
    expect(await states('block', met('late'))).toEqual(['new']);
    expect(events).toHaveLength(1);
    expect(warnings()).toEqual([
      'MCP tool late appeared after the tools of its connector were pinned; it is not offered until somebody approves it',
    ]);
    expect(await states('warn', met('late'))).toEqual(['unchanged']);
  });

  it('belong to their connector: those of another one are pinned for themselves', async () => {
    await states('block', met('send'));
    expect(await states('block', { ...met('send', 'h7'), connectorId: 'd' })).toEqual(['unchanged']);
    expect(await store.list('a')).toHaveLength(2);
  });

  it('tell what the pinned one said about itself', async () => {
    await states('warn', met('send', 'h1', { annotations: { destructiveHint: true } }));
    const review = await pins.review('a', 'warn', [met('send', 'h2', { annotations: { destructiveHint: false } })]);
    expect(review.of('c', 'send')).toEqual({
      state: 'changed',
      members: ['description', 'annotations'],
      annotations: { destructiveHint: true },
    });
  });

  it('are pinned once when two runs meet them at the same time', async () => {
    const [one, two] = await Promise.all([states('block', met('send', 'h1')), states('block', met('send', 'h2'))]);
    expect([one, two].flat().sort()).toEqual(['changed', 'unchanged']);
  });

  it('show no hidden character in the log', async () => {
    await states('warn', met('send'));
    await states('warn', met('send'), met('late\u202e\u200b'));
    expect(warnings()[0]).toContain('late\\u{202e}\\u{200b}');
  });
});

describe('a check', () => {
  const checked = async (...tools: MetTool[]) => {
    const review = await pins.check('a', 'block', tools);
    return tools.map(({ connectorId, tool }) => review.of(connectorId, tool.name).state);
  };

  it('compares and pins nothing, of a connector neither of which nothing is pinned', async () => {
    expect(await checked(met('send'))).toEqual(['new']);
    expect(await store.list('a')).toEqual([]);
    await states('block', met('send'));
    expect(await checked(met('send'), met('late'), { ...met('send'), connectorId: 'd' })).toEqual([
      'unchanged',
      'new',
      'new',
    ]);
    expect(await checked(met('send', 'h2'))).toEqual(['changed']);
    expect((await store.list('a')).map(({ tool, hash }) => [tool, hash])).toEqual([['send', 'h1']]);
    expect(warnings()).toHaveLength(1);
  });
});

describe('pins', () => {
  it('of a changed agent are added without touching those there are', async () => {
    await states('block', met('send'));
    await pins.adopt('a', [met('send', 'h2'), met('late', 'h5')]);
    expect(await states('block', met('send'), met('late', 'h5'))).toEqual(['unchanged', 'unchanged']);
  });

  it('are forgotten with their connector', async () => {
    await states('block', met('send'));
    await pins.forget('a', ['c']);
    expect(await states('block', met('send', 'h2'))).toEqual(['unchanged']);
  });
});
