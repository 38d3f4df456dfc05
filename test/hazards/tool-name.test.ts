import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import type { FakeMcpServer } from '../support/fake-mcp-server.ts';
import { reasonOf, startRig } from './rig.ts';

const rig = startRig();
const LEGAL = /^[a-zA-Z0-9_-]{1,64}$/;
const tool = (name: string, more: JsonObject = {}): JsonObject => ({
  name,
  inputSchema: { type: 'object', properties: {} },
  ...more,
});
const called = (server: FakeMcpServer): unknown[] =>
  server.of('tools/call').map(({ message }) => (message?.params as JsonObject | undefined)?.name);

/** Calls every offered tool, one a turn, then ends. */
function callEach(): void {
  rig.llm.reset(({ messages, toolNames }) => {
    const next = toolNames[messages.filter(({ role }) => role === 'tool').length];
    return next === undefined ? 'done' : { tool: next };
  });
}

describe('names that no model takes', () => {
  it.each<[string, string[]]>([
    [
      'dots, slashes, spaces, other letters, too long',
      ['calendar.list', 'user-profile/update', 'Get File', '日程', 'x'.repeat(70)],
    ],
    ['at the limit of 64', ['x'.repeat(64), 'x'.repeat(65), 'y'.repeat(63)]],
    ['the same after they are altered', ['a.b', 'a/b', 'a b', 'a_b']],
    ['the same once they are cut', [`${'x'.repeat(80)}1`, `${'x'.repeat(80)}2`, `${'x'.repeat(128)}`]],
    ['like the altered name of another', ['a.b', 'weather_a_b', 'weather_a.b']],
    ['quotes, dollars, percent, emoji', ['say "hi"', '$&', '100%', '🦉', 'a\\b', '../../etc']],
    ['differing in case only', ['Send', 'send', 'SEND']],
    ['names of the prototype', ['__proto__', 'constructor', 'toString']],
  ])('are offered in a legal form and called by their own: %s', async (_name, names) => {
    const server = await rig.serve({ tools: names.map((name) => tool(name)) });
    const id = await rig.connector(server.origin);
    const agent = await rig.agent(id);
    callEach();
    expect((await rig.ask(agent, 'go')).answer).toBe('done');
    expect(rig.llm.faults).toEqual([]);
    const offered = rig.llm.requests[0]?.toolNames ?? [];
    expect(offered).toHaveLength(names.length);
    for (const name of offered) expect(name).toMatch(LEGAL);
    expect(called(server)).toEqual(names);
    for (const [index, name] of names.entries()) if (LEGAL.test(name)) expect(offered[index]).toBe(name);
    expect((await rig.connections(agent))[0]?.tools).toEqual(offered);

    await rig.restart();
    callEach();
    expect((await rig.ask(agent, 'again')).answer).toBe('done');
    expect(rig.llm.requests[0]?.toolNames).toEqual(offered);
    expect(called(server).slice(names.length)).toEqual(names);
  });

  it('are shown in the status with what they are offered as', async () => {
    const server = await rig.serve({ tools: [tool('calendar.list'), tool('plain')] });
    const id = await rig.connector(server.origin, { name: 'my server' });
    await rig.status(id, '?probe=true');
    expect((await rig.status(id)).tools).toEqual([
      {
        name: 'calendar.list',
        offered_as: 'my_server_calendar_list',
        state: 'available',
        reason: expect.stringContaining('its own name is not one that models take'),
      },
      { name: 'plain', offered_as: 'plain', state: 'available' },
    ]);
    expect((await rig.call(id, 'calendar.list')).status).toBe(200);
    expect((await rig.call(id, 'my_server_calendar_list')).status).toBe(200);
    expect(called(server)).toEqual(['calendar.list', 'calendar.list']);
  });
});

describe('a name that two servers share', () => {
  it('reaches both, the same way after a restart and in another order', async () => {
    const servers = await Promise.all([1, 2].map(() => rig.serve({ tools: [tool('send'), tool('other')] })));
    const [first, second] = servers as [FakeMcpServer, FakeMcpServer];
    const one = await rig.connector(first.origin, { name: 'c1' });
    const two = await rig.connector(second.origin, { name: 'c2' });
    const agent = await rig.agent(one, two);
    callEach();
    expect((await rig.ask(agent, 'go')).answer).toBe('done');
    const offered = rig.llm.requests[0]?.toolNames ?? [];
    expect(new Set(offered).size).toBe(4);
    expect(called(first)).toEqual(['send', 'other']);
    expect(called(second)).toEqual(['send', 'other']);
    const [ofFirst] = offered;
    const ofSecond = String(offered[2]);
    expect(ofFirst).toBe('send');
    expect(ofSecond).toBe('c2_send');

    await rig.restart();
    for (const server of servers) server.tools([tool('other'), tool('send')]);
    const reversed = [two, one].map((id) => ({ type: 'MCPTool', parameters: { connector_id: id } }));
    await rig.ok('PUT', `/agents/${agent}`, { tools: reversed });
    rig.llm.reset({ calls: [{ tool: 'send' }, { tool: ofSecond }] }, 'done');
    expect((await rig.ask(agent, 'again')).answer).toBe('done');
    expect(new Set(rig.llm.requests[0]?.toolNames)).toEqual(new Set(offered));
    expect(called(first).slice(2)).toEqual(['send']);
    expect(called(second).slice(2)).toEqual(['send']);
  });

  it('stays with the first when the second learns it later', async () => {
    const first = await rig.serve({ tools: [tool('send')] });
    const second = await rig.serve({ tools: [tool('other')] });
    const one = await rig.connector(first.origin, { name: 'zz' });
    const two = await rig.connector(second.origin, { name: 'aa' });
    const agent = await rig.agent(two, one);
    callEach();
    await rig.ask(agent, 'go');
    expect(rig.llm.requests[0]?.toolNames).toEqual(['other', 'send']);
    second.tools([tool('send'), tool('other')]);
    await rig.ok('PUT', `/connectors/${two}`, { description: 'read again' });
    callEach();
    expect((await rig.ask(agent, 'again')).answer).toBe('done');
    expect(rig.llm.requests[0]?.toolNames).toEqual(['aa_send', 'other', 'send']);
    expect(called(first)).toEqual(['send', 'send']);
    expect(called(second)).toEqual(['other', 'send', 'other']);
  });

  it('reaches both though the connectors have one name too', async () => {
    const servers = await Promise.all([1, 2, 3].map(() => rig.serve({ tools: [tool('send')] })));
    const ids = await Promise.all(servers.map(({ origin }) => rig.connector(origin, { name: 'same' })));
    callEach();
    expect((await rig.ask(await rig.agent(...ids), 'go')).answer).toBe('done');
    expect(rig.llm.faults).toEqual([]);
    for (const server of servers) expect(called(server)).toEqual(['send']);
  });
});

describe('more than a model takes', () => {
  const offeredDescription = (): string =>
    String((rig.llm.requests[0]?.tools[0]?.function as JsonObject | undefined)?.description);
  const many = (count: number): JsonObject[] =>
    Array.from({ length: count }, (_, index) => tool(`t${String(index).padStart(3, '0')}`));

  it('tools end the run before the model is asked, with the counts and the remedy', async () => {
    const server = await rig.serve({ tools: many(150) });
    const id = await rig.connector(server.origin, { name: 'big' });
    const agent = await rig.agent(id);
    rig.llm.reset('done');
    const { status, body } = await rig.ask(agent, 'go');
    expect(status).toBe(400);
    expect(reasonOf({ body })).toMatch(/150 > 128.*"big".*150.*tool_filters/);
    expect(rig.llm.requests).toEqual([]);
    await rig.ok('PUT', `/agents/${agent}`, {
      tools: [{ type: 'MCPTool', parameters: { connector_id: id, tool_filters: ['t0[0-4].'] } }],
    });
    expect((await rig.ask(agent, 'go')).answer).toBe('done');
    expect(rig.llm.requests[0]?.toolNames).toHaveLength(50);
  });

  it('tools of several connectors are counted for each; as many as it takes are fine', async () => {
    const [big, small] = await Promise.all([rig.serve({ tools: many(100) }), rig.serve({ tools: many(29) })]);
    const one = await rig.connector(big.origin, { name: 'big' });
    const two = await rig.connector(small.origin, { name: 'small' });
    const agent = await rig.agent(one, two);
    rig.llm.reset('done');
    const { status, body } = await rig.ask(agent, 'go');
    expect(status).toBe(400);
    expect(reasonOf({ body })).toMatch(/129 > 128.*"big".*100.*"small".*29/);
    small.tools(many(28));
    await rig.ok('PUT', `/connectors/${two}`, { description: 'read again' });
    expect((await rig.ask(agent, 'go')).answer).toBe('done');
    expect(rig.llm.requests.map(({ toolNames }) => toolNames.length)).toEqual([128]);
  });

  it.each([3000, 1025, 1024])('a description of %i characters is cut where it has to be', async (length) => {
    const server = await rig.serve({ tools: [tool('t000', { description: 'd'.repeat(length) })] });
    const agent = await rig.agent(await rig.connector(server.origin));
    rig.llm.reset('done');
    expect((await rig.ask(agent, 'go')).answer).toBe('done');
    expect(rig.llm.faults).toEqual([]);
    const description = offeredDescription();
    expect(description.length).toBe(1024);
    expect(description.endsWith('…')).toBe(length > 1024);
  });

  it('a description is not cut inside a character', async () => {
    const server = await rig.serve({ tools: [tool('t000', { description: `x${'🦉'.repeat(600)}` })] });
    const agent = await rig.agent(await rig.connector(server.origin));
    rig.llm.reset('done');
    expect((await rig.ask(agent, 'go')).answer).toBe('done');
    expect(rig.llm.faults).toEqual([]);
    const description = offeredDescription();
    expect(description).toMatch(/^x(?:🦉)+…$/u);
  });
});
