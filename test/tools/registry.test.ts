import { createServer } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { openRig, paramsOf, type Rig, toolMessages } from '../agents/rig.ts';
import type { FakeMcpServer } from '../support/fake-mcp-server.ts';

let rig: Rig;
beforeEach(async () => {
  rig = await openRig('final');
});
afterEach(() => rig.dispose());

const tool = (name: string, more: JsonObject = {}): JsonObject => ({
  name,
  inputSchema: { type: 'object', properties: {} },
  ...more,
});
const offered = (request = 0): readonly string[] => rig.llm.requests[request]?.toolNames ?? [];
const called = (server: FakeMcpServer): unknown[] => server.of('tools/call').map((request) => paramsOf(request).name);
const closedPort = async (): Promise<string> => {
  const server = await rig.server();
  await server.stop();
  return server.origin;
};

describe('names', () => {
  it('that no model takes are offered in a legal form and called by their own', async () => {
    const names = ['calendar.list', 'user-profile/update', 'Get File', '日程', 'x'.repeat(70)];
    const server = await rig.server({ tools: names.map((name) => tool(name)) });
    const agent = await rig.agent([await rig.connector('office', server.origin)]);
    await rig.ask(agent, 'what have you got?');
    expect(offered()).toHaveLength(5);
    rig.llm.reset({ calls: offered().map((name) => ({ tool: name })) }, 'done');
    expect((await rig.ask(agent, 'all, please')).text).toBe('done');
    expect(called(server).sort()).toEqual([...names].sort());
    expect(rig.llm.faults).toEqual([]);
  });

  it('that two servers share stay apart, also after a restart and in another order', async () => {
    const one = await rig.server({ tools: [tool('send')] });
    const two = await rig.server({ tools: [tool('send')] });
    const c1 = await rig.connector('mail', one.origin);
    const c2 = await rig.connector('chat', two.origin);
    const agent = await rig.agent([c1, c2]);
    await rig.ask(agent, 'q');
    expect(offered()).toEqual(['send', 'chat_send']);
    await rig.restart();
    const tools = [c2, c1].map((connector_id) => ({ type: 'MCPTool', parameters: { connector_id } }));
    await rig.ok('PUT', `/agents/${agent}`, { tools });
    rig.llm.reset({ tool: 'chat_send' }, 'done');
    await rig.ask(agent, 'q');
    expect([...offered()].sort()).toEqual(['chat_send', 'send']);
    expect([called(one), called(two)]).toEqual([[], ['send']]);
  });

  it('give the newcomer the prefix when a tool appears later', async () => {
    const one = await rig.server({ tools: [tool('a')] });
    const two = await rig.server({ tools: [tool('send')] });
    const agent = await rig.agent([
      await rig.connector('first', one.origin),
      await rig.connector('second', two.origin),
    ]);
    await rig.ask(agent, 'q');
    one.tools([tool('a'), tool('send')]);
    await rig.restart();
    await rig.ask(agent, 'q');
    expect(offered(1)).toEqual(['a', 'first_send', 'send']);
  });

  it('are stored once when two requests meet the tools at the same time', async () => {
    const server = await rig.server({ tools: [tool('a'), tool('b.c')] });
    const agent = await rig.agent([await rig.connector('w', server.origin)]);
    const replies = await Promise.all([1, 2, 3].map((n) => rig.ask(agent, `q${n}`)));
    expect(replies.map((reply) => reply.status)).toEqual([200, 200, 200]);
    expect(new Set(rig.llm.requests.map((request) => request.toolNames.join()))).toEqual(new Set(['a,w_b_c']));
  });
});

describe('what is offered', () => {
  it('is what filters match from end to end, with the descriptions of the agent', async () => {
    const server = await rig.server({
      tools: ['get', 'get_all', 'set'].map((name) => tool(name, { description: 'd' })),
    });
    const c = await rig.connector('w', server.origin);
    const agent = await rig.agent([], {
      parameters: {
        mcp_connectors: [
          { mcp_connector_id: c, tool_filters: ['get.*', '^nothing'], tool_descriptions: [{ get: 'gets one' }] },
        ],
      },
    });
    await rig.ask(agent, 'q', { 'get_all.description': 'gets all' });
    const tools = rig.llm.requests[0]?.tools.map((item) => item.function as JsonObject);
    expect(tools?.map(({ name, description }) => [name, description])).toEqual([
      ['get', 'gets one'],
      ['get_all', 'gets all'],
    ]);
    const { mcp_connections: connections } = await rig.ok('GET', `/agents/${agent}`);
    expect(connections).toMatchObject([
      {
        tool_count: 2,
        tools: ['get', 'get_all'],
        warnings: ['tool_filters: "^nothing" matches no tool of this connector; a pattern must match the whole name'],
      },
    ]);
  });

  it('is each tool once when several entries name its connector', async () => {
    const server = await rig.server({ tools: ['a', 'b', 'c'].map((name) => tool(name)) });
    const c = await rig.connector('w', server.origin);
    const agent = await rig.agent([
      { connector_id: c, tool_filters: '["a"]' },
      { connector_id: c, tool_filters: '["a","b"]' },
    ]);
    await rig.ask(agent, 'q');
    expect(offered()).toEqual(['a', 'b']);
  });

  it('is the selection of the caller, by offered or own name', async () => {
    const server = await rig.server({ tools: ['a.b', 'c', 'd'].map((name) => tool(name)) });
    const agent = await rig.agent([await rig.connector('w', server.origin)]);
    await rig.ask(agent, 'q', { selected_tools: ['a.b', 'd'] });
    await rig.ask(agent, 'q', { selected_tools: '["w_a_b"]' });
    expect([offered(0), offered(1)]).toEqual([['w_a_b', 'd'], ['w_a_b']]);
    expect((await rig.ask(agent, 'q', { selected_tools: 'c' })).status).toBe(400);
  });

  it('has short descriptions', async () => {
    const server = await rig.server({ tools: [tool('a', { description: 'd'.repeat(3000) })] });
    const agent = await rig.agent([await rig.connector('w', server.origin)]);
    expect((await rig.ask(agent, 'q')).status).toBe(200);
    expect(rig.llm.faults).toEqual([]);
  });

  it('is never more than a model takes: the error counts them per connector', async () => {
    const many = (prefix: string, count: number) =>
      Array.from({ length: count }, (_, index) => tool(`${prefix}${String(index).padStart(3, '0')}`));
    const big = await rig.server({ tools: many('t', 100) });
    const small = await rig.server({ tools: many('u', 50) });
    const c1 = await rig.connector('big', big.origin);
    const c2 = await rig.connector('small', small.origin);
    const agent = await rig.agent([c1, c2]);
    const reply = await rig.ask(agent, 'q');
    expect(reply.status).toBe(400);
    expect(reply.body).toEqual({
      status: 400,
      error: {
        type: 'IllegalArgumentException',
        reason: 'Invalid Request',
        details: `The agent offers more tools than a model takes (150 > 128): connector "big" (${c1}) 100, connector "small" (${c2}) 50. Name the ones that are needed with tool_filters, or with selected_tools in the request`,
      },
    });
    expect(rig.llm.requests).toHaveLength(0);
    const selected = await rig.agent([c1, { connector_id: c2, tool_filters: '["u00.","u01.","u02[0-7]"]' }]);
    expect((await rig.ask(selected, 'q')).status).toBe(200);
    expect(offered()).toHaveLength(128);
  });

  it('is refused for a tool type nobody serves, and while MCP is switched off', async () => {
    const unserved = await rig.agent([], { tools: [{ type: 'VectorDBTool' }] });
    expect((await rig.ask(unserved, 'q')).body).toEqual({
      status: 400,
      error: {
        type: 'IllegalArgumentException',
        reason: 'Invalid Request',
        details: 'Tool type not found: VectorDBTool',
      },
    });
    const server = await rig.server();
    const agent = await rig.agent([await rig.connector('w', server.origin)]);
    await rig.ok('PUT', '/_cluster/settings', { transient: { 'plugins.ml_commons.mcp_connector_enabled': false } });
    expect((await rig.ask(agent, 'q')).status).toBe(500);
    expect(server.requests).toHaveLength(0);
  });
});

describe('a connector that fails', () => {
  it('never blocks the others: the model, the caller and the status are told', async () => {
    const silent = createServer((socket) => socket.on('error', () => undefined));
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const { port } = silent.address() as { port: number };
    const good = await rig.server();
    const ids = [
      await rig.connector('good', good.origin),
      await rig.connector('closed', await closedPort()),
      await rig.connector('silent', `http://127.0.0.1:${port}`, {
        client_config: { max_retry_times: 0, connection_timeout: 1 },
      }),
      await rig.connector('gone', good.origin),
    ];
    const agent = await rig.agent(ids);
    await rig.ok('DELETE', `/connectors/${ids[3]}`);
    rig.llm.reset({ tool: 'echo', args: '{"text":"hi"}' }, 'done');
    try {
      const reply = await rig.ask(agent, 'q');
      expect(reply.text).toBe('done');
      expect(toolMessages(rig.llm, 1)).toEqual(['echo: {"text":"hi"}']);
      const system = String(rig.llm.requests[0]?.messages[0]?.content);
      expect(system).toContain('"closed" (connection_refused)');
      expect(system).toContain('"silent" (');
      expect(system).toContain('(not_found)');
      expect(system).not.toContain('"good"');
      const warning = reply.headers.get('warning') ?? '';
      expect(warning).toContain(
        `299 tenon "The tools of connector \\"closed\\" (${ids[1]}) are missing (connection_refused): `,
      );
      expect(warning).toContain(`(${ids[3]}) are missing (not_found): Failed to find connector`);
      const { mcp_connections: connections } = await rig.ok('GET', `/agents/${agent}`);
      expect(connections).toMatchObject([
        { connector_id: ids[0], status: 'connected', tool_count: 1 },
        { connector_id: ids[1], status: 'failed', tool_count: 0, error: { code: 'connection_refused' } },
        { connector_id: ids[2], status: 'failed' },
        { connector_id: ids[3], name: ids[3], status: 'failed', tools: [], error: { code: 'not_found' } },
      ]);
    } finally {
      silent.close();
    }
  });

  it('makes the run fail when it is required', async () => {
    const origin = await closedPort();
    const agent = await rig.agent([{ connector_id: await rig.connector('w', origin), required: true }]);
    const reply = await rig.ask(agent, 'q');
    expect(reply.status).toBe(502);
    expect(reply.body).toMatchObject({
      status: 502,
      error: { type: 'OpenSearchStatusException', reason: 'System Error', details: expect.stringContaining('w') },
    });
    expect(rig.llm.requests).toHaveLength(0);
    const unknown = await rig.agent([{ connector_id: 'nobody', required: 'true' }]);
    expect((await rig.ask(unknown, 'q')).status).toBe(404);
  });

  it('that is no MCP connector is named', async () => {
    const { connector_id: id } = await rig.ok('POST', '/connectors/_create', {
      name: 'plain',
      version: 1,
      protocol: 'http',
      credential: { key: 'a-secret-key' },
      actions: [{ action_type: 'predict', method: 'POST', url: rig.llm.url, request_body: '{}' }],
    });
    const agent = await rig.agent([String(id)]);
    const reply = await rig.ask(agent, 'q');
    expect(reply.status).toBe(200);
    expect(reply.headers.get('warning')).toContain('is of protocol http');
  });

  it('hands over to its fallback: same names, the other server', async () => {
    const one = await rig.server({ tools: [tool('get'), tool('put')] });
    const two = await rig.server({ tools: [tool('get'), tool('put'), tool('other')] });
    const c1 = await rig.connector('main', one.origin);
    const c2 = await rig.connector('spare', two.origin);
    const agent = await rig.agent([{ connector_id: c1, fallback_connector_id: c2 }]);
    await rig.ask(agent, 'q');
    expect(offered()).toEqual(['get', 'put']);
    await one.stop();
    rig.llm.reset({ tool: 'put' }, 'done');
    expect((await rig.ask(agent, 'while the list is still known')).text).toBe('done');
    expect(called(two)).toEqual(['put']);
    await rig.restart();
    rig.llm.reset({ tool: 'get' }, 'done');
    const reply = await rig.ask(agent, 'after a restart');
    expect(reply.headers.get('warning')).toBeNull();
    expect(offered()).toEqual(['get', 'put']);
    expect(called(two)).toEqual(['put', 'get']);
    two.tools([tool('get')]);
    await rig.restart();
    const lacking = await rig.ask(agent, 'q');
    expect(offered(2)).toEqual(['get']);
    expect(lacking.headers.get('warning')).toContain('The fallback connector has no tool named put');
    await two.stop();
    await rig.restart();
    expect((await rig.ask(agent, 'q')).headers.get('warning')).toContain('The fallback connector failed too');
  });
});
