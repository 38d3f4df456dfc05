import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import type { FakeMcpScript, FakeMcpServer } from '../support/fake-mcp-server.ts';
import { startTwoUsers } from '../support/two-users.ts';
import { openRig, type Rig } from './rig.ts';

let rig: Rig;
const servers: FakeMcpServer[] = [];
beforeAll(async () => {
  rig = await openRig('done');
});
afterAll(() => rig.dispose());

const tool = (name: string, more: JsonObject = {}): JsonObject => ({
  name,
  inputSchema: { type: 'object', properties: {} },
  ...more,
});
const PAY = [tool('pay')];
const NOBODY = 'nosuchnosuchnosuch12';
const on = (connector_id: string, more: JsonObject = {}): JsonObject => ({ connector_id, ...more });
const backed = (connector_id: string, fallback_connector_id: string): JsonObject => ({
  connector_id,
  fallback_connector_id,
});

async function server(tools: readonly JsonObject[] = PAY, more: FakeMcpScript = {}): Promise<FakeMcpServer> {
  const started = await rig.server({ tools, ...more });
  servers.push(started);
  return started;
}
/** A server and its connector. */
async function made(tools: readonly JsonObject[] = PAY) {
  const started = await server(tools);
  return { server: started, id: await rig.connector(`c${servers.length}`, started.origin) };
}
/** The same, its list read once. */
async function listed(tools: readonly JsonObject[] = PAY) {
  const one = await made(tools);
  await rig.ok('GET', `/connectors/${one.id}/tools`);
  return one;
}
const act = (id: string, action: 'enable' | 'disable') => rig.ok('POST', `/connectors/${id}/_${action}`);
/** The next use reads the list again. */
async function anew({ id }: { id: string }): Promise<void> {
  await act(id, 'disable');
  await act(id, 'enable');
}
const setting = (name: string, value: boolean | string | null) =>
  rig.ok('PUT', '/_cluster/settings', { transient: { [`plugins.ml_commons.${name}`]: value } });
const rule = (permission: string, more: JsonObject = {}): JsonObject => ({
  parameters: { tool_permissions: [{ tool: 'pay', permission, ...more }] },
});
const many = (count: number) => Array.from({ length: count }, (_, index) => tool(index === 0 ? 'pay' : `t${index}`));

/** Which agent, and under which name the model calls the tool. */
type State = string | { readonly agent: string; readonly offered: string };
const STATES: readonly (readonly [string, boolean, () => Promise<State>])[] = [
  ['a server that was never used', true, async () => rig.agent([(await made()).id])],
  ['a server that was listed', true, async () => rig.agent([(await listed()).id])],
  [
    'a connector that is disabled',
    false,
    async () => {
      const { id } = await listed();
      await act(id, 'disable');
      return rig.agent([id]);
    },
  ],
  [
    'a server that is gone',
    false,
    async () => {
      const one = await listed();
      await one.server.stop();
      return rig.agent([one.id]);
    },
  ],
  [
    'a credential that is refused',
    false,
    async () => {
      const one = await listed();
      one.server.on('*', { status: 401 });
      return rig.agent([one.id]);
    },
  ],
  [
    'a server whose list fails',
    false,
    async () => {
      const one = await made();
      one.server.on('tools/list', { error: { code: -32603, message: 'no list' } });
      return rig.agent([one.id]);
    },
  ],
  ['a tool that is filtered out', false, async () => rig.agent([on((await made()).id, { tool_filters: '["x.*"]' })])],
  [
    'two entries of which one wants the tool',
    true,
    async () => {
      const { id } = await made([...PAY, tool('x')]);
      return rig.agent([on(id, { tool_filters: '["x"]' }), on(id, { tool_filters: '["pay"]' })]);
    },
  ],
  ['a tool that is denied', false, async () => rig.agent([(await made()).id], rule('deny'))],
  ['a tool that must be approved', true, async () => rig.agent([(await made()).id], rule('ask'))],
  [
    'a tool that selected_tools lacks',
    false,
    async () => rig.agent([(await made([...PAY, tool('x')])).id], { parameters: { selected_tools: '["x"]' } }),
  ],
  [
    'a tool that selected_tools names',
    true,
    async () => rig.agent([(await made([...PAY, tool('x')])).id], { parameters: { selected_tools: '["pay"]' } }),
  ],
  [
    'a default that denies',
    false,
    async () => {
      await setting('tool_permission_default', 'deny');
      return rig.agent([(await made()).id]);
    },
  ],
  ...(['warn', 'block'] as const).flatMap((tool_trust) => [
    [
      `a definition that changed, ${tool_trust}`,
      tool_trust === 'warn',
      async () => {
        const one = await listed();
        const agent = await rig.agent([one.id], { parameters: { tool_trust } });
        one.server.tools([tool('pay', { description: 'another' })]);
        await anew(one);
        return agent;
      },
    ] as const,
    [
      `a tool that came later, ${tool_trust}`,
      tool_trust === 'warn',
      async () => {
        const one = await listed([tool('x')]);
        const agent = await rig.agent([one.id], { parameters: { tool_trust } });
        one.server.tools([tool('x'), ...PAY]);
        await anew(one);
        return agent;
      },
    ] as const,
  ]),
  [
    'a tool that is gone',
    false,
    async () => {
      const one = await listed([tool('x'), ...PAY]);
      const agent = await rig.agent([one.id]);
      one.server.tools([tool('x')]);
      await anew(one);
      return agent;
    },
  ],
  [
    'a definition that is broken',
    false,
    async () => rig.agent([(await made([tool('x'), { name: 'pay', inputSchema: 5 }])).id]),
  ],
  [
    'a name that no model takes',
    true,
    async () => {
      const { id } = await made([tool('päy me/now')]);
      const agent = await rig.agent([id]);
      const { tools } = (await rig.ok('GET', `/agents/${agent}/_explain?probe=true`)) as unknown as Explained;
      return { agent, offered: String(tools[0]?.offered_as) };
    },
  ],
  ['128 tools', true, async () => rig.agent([(await made(many(128))).id])],
  ['129 tools', false, async () => rig.agent([(await made(many(129))).id])],
  [
    '129 tools of which one is denied',
    true,
    async () =>
      rig.agent([(await made(many(129))).id], {
        parameters: { tool_permissions: [{ tool: 't5', permission: 'deny' }] },
      }),
  ],
  [
    '129 tools of which one is selected',
    true,
    async () => rig.agent([(await made(many(129))).id], { parameters: { selected_tools: '["pay"]' } }),
  ],
  [
    'another required connector that is gone',
    false,
    async () => {
      const other = await made([tool('other')]);
      await other.server.stop();
      return rig.agent([(await made()).id, on(other.id, { required: 'true' })]);
    },
  ],
  [
    'another required connector that never was',
    false,
    async () => rig.agent([(await made()).id, on(NOBODY, { required: 'true' })]),
  ],
  [
    'another required connector that its fallback stands in for',
    true,
    async () => {
      const other = await made([tool('other')]);
      await act(other.id, 'disable');
      const spare = await made([tool('other')]);
      return rig.agent([(await made()).id, { ...backed(other.id, spare.id), required: 'true' }]);
    },
  ],
  [
    'another connector that is gone and not required',
    true,
    async () => {
      const other = await made([tool('other')]);
      await other.server.stop();
      return rig.agent([(await made()).id, other.id]);
    },
  ],
  ['a model that is missing', false, async () => rig.agent([(await made()).id], { llm: { model_id: NOBODY } })],
  [
    'a model that its first use may not deploy',
    false,
    async () => {
      await setting('model_auto_deploy.enable', false);
      await rig.ok('POST', `/models/${rig.modelId}/_undeploy`);
      return rig.agent([(await made()).id]);
    },
  ],
  [
    'a kind of tool that nobody serves',
    false,
    async () => {
      const tools = [{ type: 'MCPTool', parameters: on((await made()).id) }, { type: 'ListIndexTool' }];
      return rig.agent([], { tools });
    },
  ],
  ['a kind of agent that is not served', false, async () => rig.agent([(await made()).id], { type: 'flow' })],
  [
    'settings that cannot be used',
    false,
    async () => rig.agent([(await made()).id], { parameters: { max_iteration: 'many' } }),
  ],
  [
    'a memory that is not served',
    false,
    async () => rig.agent([(await made()).id], { memory: { type: 'agentic_memory' } }),
  ],
  [
    'an executor that is missing, of an agent that uses none',
    true,
    async () => rig.agent([(await made()).id], { parameters: { executor_agent_id: NOBODY } }),
  ],
  [
    'MCP switched off',
    false,
    async () => {
      const agent = await rig.agent([(await listed()).id]);
      await setting('mcp_connector_enabled', false);
      return agent;
    },
  ],
  [
    'conversation memory switched off',
    false,
    async () => {
      await setting('memory_feature_enabled', false);
      return rig.agent([(await made()).id]);
    },
  ],
  [
    'agents switched off',
    false,
    async () => {
      const agent = await rig.agent([(await made()).id]);
      await setting('agent_framework_enabled', false);
      return agent;
    },
  ],
  [
    'remote inference switched off for new connectors',
    true,
    async () => {
      const agent = await rig.agent([(await made()).id]);
      await setting('remote_inference.enabled', false);
      return agent;
    },
  ],
  [
    'a fallback for a server that is gone',
    true,
    async () => {
      const one = await listed();
      await one.server.stop();
      return rig.agent([backed(one.id, (await listed()).id)]);
    },
  ],
  [
    'a fallback for a server that was gone before it was listed',
    true,
    async () => {
      const one = await made();
      await one.server.stop();
      return rig.agent([backed(one.id, (await made()).id)]);
    },
  ],
  [
    'a fallback for a connector that was deleted',
    true,
    async () => {
      const one = await listed();
      const agent = await rig.agent([backed(one.id, (await made()).id)]);
      await rig.ok('DELETE', `/connectors/${one.id}`);
      return agent;
    },
  ],
  ['a fallback for a connector that never was', true, async () => rig.agent([backed(NOBODY, (await made()).id)])],
  [
    'a fallback for a connector that is disabled',
    true,
    async () => {
      const one = await listed();
      await act(one.id, 'disable');
      return rig.agent([backed(one.id, (await made()).id)]);
    },
  ],
  [
    'a fallback that lacks the tool',
    false,
    async () => {
      const one = await listed();
      await act(one.id, 'disable');
      return rig.agent([backed(one.id, (await made([tool('x')])).id)]);
    },
  ],
  [
    'a fallback that is gone too',
    false,
    async () => {
      const [one, spare] = [await listed(), await listed()];
      await act(one.id, 'disable');
      await spare.server.stop();
      return rig.agent([backed(one.id, spare.id)]);
    },
  ],
  [
    'a fallback that is denied, and not needed',
    false,
    async () => {
      const [one, spare] = [await made(), await made()];
      return rig.agent([backed(one.id, spare.id)], rule('deny', { connector_id: spare.id }));
    },
  ],
  [
    'a fallback whose tool came later, block',
    false,
    async () => {
      const [one, spare] = [await listed(), await listed([tool('x')])];
      const agent = await rig.agent([backed(one.id, spare.id)], { parameters: { tool_trust: 'block' } });
      spare.server.tools([tool('x'), ...PAY]);
      await anew(spare);
      await act(one.id, 'disable');
      return agent;
    },
  ],
  [
    'a fallback for a server that broke the tool',
    false,
    async () => rig.agent([backed((await made([tool('x'), { name: 'pay', inputSchema: 5 }])).id, (await made()).id)]),
  ],
  [
    'a fallback for a server that had dropped the tool',
    false,
    async () => {
      const one = await listed([...PAY, tool('x')]);
      one.server.tools([tool('x')]);
      await anew(one);
      await rig.ok('GET', `/connectors/${one.id}/tools`);
      await act(one.id, 'disable');
      return rig.agent([backed(one.id, (await made()).id)]);
    },
  ],
  ['two servers with a tool of the same name', true, async () => rig.agent([(await made()).id, (await made()).id])],
];

const SETTINGS = [
  'tool_permission_default',
  'mcp_connector_enabled',
  'memory_feature_enabled',
  'agent_framework_enabled',
  'remote_inference.enabled',
  'model_auto_deploy.enable',
];

interface Explained {
  readonly tools: readonly {
    readonly offered_as?: string;
    readonly callable: boolean;
    readonly reasons: readonly JsonObject[];
  }[];
}

/** Runs the agent to its end with a model that calls the tool once; approves what is asked. */
async function execute(agent: string, offered: string): Promise<void> {
  rig.llm.reset({ tool: offered }, 'done');
  const begun = await rig.send('POST', `/agents/${agent}/_execute?async=true`, { parameters: { question: 'Pay.' } });
  if (begun.status !== 200) return;
  const path = `/tasks/${String(begun.body.task_id)}`;
  const answered = new Set<string>();
  const state = async () => {
    const task = await rig.ok('GET', path);
    for (const { request_id: id } of ((task.response as JsonObject)?.pending_requests ?? []) as JsonObject[]) {
      if (answered.has(String(id))) continue;
      answered.add(String(id));
      await rig.ok('POST', `${path}/_requests/${String(id)}`, { action: 'approve' });
    }
    return task.state;
  };
  await expect.poll(state, { timeout: 15_000 }).not.toBe('RUNNING');
}

describe('what _explain says of a tool is what becomes of its call', () => {
  it.each(STATES)('%s: %s', async (_name, works, arrange) => {
    servers.length = 0;
    try {
      const state = await arrange();
      const { agent, offered } = typeof state === 'string' ? { agent: state, offered: 'pay' } : state;
      const explained = (await rig.ok(
        'GET',
        `/agents/${agent}/_explain?tool=${offered}&probe=true`,
      )) as unknown as Explained;
      const callable = explained.tools.some((each) => each.callable);
      for (const each of servers) each.requests.length = 0;
      await execute(agent, offered);
      const reached = servers.some((each) => each.of('tools/call').length > 0);
      expect({ callable, reached }, JSON.stringify(explained)).toEqual({ callable: works, reached: works });
      for (const each of explained.tools) if (!each.callable) expect(each.reasons).not.toEqual([]);
    } finally {
      for (const name of SETTINGS) await setting(name, null);
    }
  });

  it('depends on who asks', async () => {
    const office = await startTwoUsers();
    try {
      const modelId = await office.model('ann', 'chat', { access_mode: 'public' });
      const id = await office.connector('ann', { access_mode: 'public' });
      const agent = await office.agent('ann', modelId, { connector_id: id });
      const readers = { cluster_permissions: ['agent:read', 'connector:read', 'connector:use', 'task:read'] };
      await office.send('operator', 'PUT', '/_plugins/_security/api/roles/readers', readers);
      const said = async (caller: 'ann' | 'bob' | 'eve', name: string) => {
        const path = `/agents/${agent}/_explain?probe=true&tool=${name}`;
        const { tools } = (await office.ok(caller, 'GET', path)) as unknown as Explained;
        office.weather.requests.length = 0;
        office.llm.reset({ tool: name }, 'done');
        await office.ask(caller, agent);
        const reached = office.weather.of('tools/call').length > 0;
        return [reached, ...tools.map(({ callable, reasons }) => [callable, ...reasons.map(({ code }) => code)])];
      };
      expect(await said('ann', 'warn_everybody')).toEqual([true, [true]]);
      expect(await said('bob', 'warn_everybody')).toEqual([false, [false, 'denied_by_role']]);
      expect(await said('eve', 'forecast')).toEqual([false, [false, 'no_permission']]);
      const eve = { password: 'Foggy-6-mornings', backend_roles: [], opendistro_security_roles: ['readers'] };
      await office.send('operator', 'PUT', '/_plugins/_security/api/internalusers/eve', eve);
      expect(await said('eve', 'forecast')).toEqual([false, [false, 'may_not_execute']]);
    } finally {
      await office.close();
    }
  });
});
