import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { openRig, type Rig } from './rig.ts';

let rig: Rig;
beforeEach(async () => {
  rig = await openRig('done');
});
afterEach(() => rig.dispose());

const tool = (name: string, more: JsonObject = {}): JsonObject => ({
  name,
  inputSchema: { type: 'object', properties: {} },
  ...more,
});
interface Explained {
  readonly tools: readonly JsonObject[];
  readonly problems: readonly JsonObject[];
}
const explain = async (agent: string, query = '') =>
  (await rig.ok('GET', `/agents/${agent}/_explain${query}`)) as unknown as Explained;
const codes = (list: unknown) => (list as readonly JsonObject[]).map(({ code }) => code);
/** Name, callable, codes of the reasons. */
const short = ({ tools }: Explained) => tools.map((each) => [each.tool, each.callable, codes(each.reasons)]);
const setting = (name: string, value: boolean | string | null) =>
  rig.ok('PUT', '/_cluster/settings', { transient: { [`plugins.ml_commons.${name}`]: value } });

describe('why a tool can be called or not', () => {
  it('is told of every tool, with what to do', async () => {
    const server = await rig.server({
      tools: [
        tool('send'),
        tool('delete'),
        tool('calendar.list'),
        tool('approve'),
        tool('secret'),
        { name: 'broken', inputSchema: { type: 'string' } },
      ],
    });
    const c = await rig.connector('office', server.origin);
    const agent = await rig.agent([{ connector_id: c, tool_filters: ['send|delete|approve|calendar.*'] }], {
      parameters: {
        tool_permissions: [
          { tool: 'delete', permission: 'deny' },
          { tool: 'approve', permission: 'ask' },
        ],
      },
    });
    const unknown = await explain(agent);
    expect(unknown.tools).toEqual([]);
    expect(unknown.problems).toEqual([
      {
        code: 'not_listed',
        message: `The tools of connector "office" (${c}) are not known yet: it was never listed, the next use lists it.`,
        remedy: 'Ask again with ?probe=true.',
        connector_id: c,
      },
    ]);
    expect((await explain(agent, '?tool=send')).tools).toEqual([]);
    expect(server.requests).toEqual([]);
    const probed = await explain(agent, '?probe=true');
    expect(short(probed)).toEqual([
      ['send', true, []],
      ['delete', false, ['denied_by_policy']],
      ['calendar.list', true, ['renamed']],
      ['approve', true, ['needs_approval']],
      ['secret', false, ['filtered_out']],
      ['broken', false, ['broken']],
    ]);
    expect(probed.problems).toEqual([]);
    const place = { connector_id: c, connector_name: 'office' };
    expect(probed.tools[1]).toEqual({
      tool: 'delete',
      offered_as: 'delete',
      ...place,
      callable: false,
      permission: 'deny',
      reasons: [
        {
          code: 'denied_by_policy',
          message: 'It is denied by tool_permissions[0] of the agent.',
          remedy: 'Change tool_permissions of the agent, or the setting plugins.ml_commons.tool_permission_default.',
        },
      ],
    });
    expect(probed.tools[2]).toMatchObject({
      offered_as: 'office_calendar_list',
      permission: 'allow',
      reasons: [{ message: expect.stringContaining('offered as office_calendar_list: models take names of') }],
    });
    expect(probed.tools[5]).toMatchObject({ reasons: [{ message: expect.stringContaining('not "object"') }] });
    const asked = server.requests.length;
    expect(short(await explain(agent, '?tool=office_calendar_list'))).toEqual([['calendar.list', true, ['renamed']]]);
    expect(short(await explain(agent, '?tool=send'))).toEqual([['send', true, []]]);
    expect((await explain(agent, '?tool=sned')).tools).toEqual([
      {
        tool: 'sned',
        callable: false,
        reasons: [
          {
            code: 'unknown_tool',
            message: 'No connector of the agent is known to have a tool of this name, its own or an offered one.',
            remedy: expect.stringContaining('?probe=true'),
          },
        ],
      },
    ]);
    expect(server.requests).toHaveLength(asked);
  });

  it('follows the connection: idle, failed, disabled, and the setting', async () => {
    const server = await rig.server({ tools: [tool('send')] });
    const c = await rig.connector('mail', server.origin);
    const agent = await rig.agent([c]);
    await rig.ok('GET', `/agents/${agent}?probe=true`);
    await rig.restart();
    expect(short(await explain(agent))).toEqual([['send', true, ['connection_idle']]]);
    await server.stop();
    expect(short(await explain(agent, '?probe=true'))).toEqual([['send', false, ['connection_failed']]]);
    const failed = await explain(agent);
    expect(failed.problems).toMatchObject([
      { code: 'connection_failed', connector_id: c, message: expect.stringContaining('(connection_refused)') },
    ]);
    await rig.ok('POST', `/connectors/${c}/_disable`);
    expect(await explain(agent)).toMatchObject({
      tools: [
        { callable: false, reasons: [{ code: 'disabled', remedy: `POST /_plugins/_ml/connectors/${c}/_enable` }] },
      ],
      problems: [{ code: 'disabled' }],
    });
    await setting('mcp_connector_enabled', false);
    expect(codes((await explain(agent)).problems)).toEqual(['feature_disabled', 'mcp_disabled']);
  });

  it('says when the credential is refused, and when a fallback serves', async () => {
    const closed = await rig.server({ on: { '*': { status: 401 } } });
    const open = await rig.server({ tools: [tool('send')] });
    const main = await rig.connector('main', closed.origin);
    const spare = await rig.connector('spare', open.origin);
    const alone = await rig.agent([main]);
    expect(codes((await explain(alone, '?probe=true')).problems)).toEqual(['auth_required']);
    const backed = await rig.agent([{ connector_id: main, fallback_connector_id: spare }]);
    closed.on('*', 'normal');
    closed.tools([tool('send'), tool('only_here')]);
    await rig.ok('PUT', `/connectors/${main}`, { credential: { key: 'another' } });
    await rig.ok('GET', `/agents/${backed}?probe=true`);
    await closed.stop();
    expect(short(await explain(backed, '?probe=true'))).toEqual([
      ['send', true, ['connection_failed', 'uses_fallback']],
      ['only_here', false, ['connection_failed']],
    ]);
  });

  it('leaves open what hangs on a fallback that was never listed', async () => {
    const server = await rig.server({ tools: [tool('send'), tool('drop')] });
    const main = await rig.connector('main', server.origin);
    const spare = await rig.connector('spare', server.origin);
    const parameters = { tool_permissions: [{ tool: 'drop', permission: 'deny' }] };
    const agent = await rig.agent([{ connector_id: main, fallback_connector_id: spare }], { parameters });
    await rig.ok('GET', `/connectors/${main}/tools`);
    await rig.ok('POST', `/connectors/${main}/_disable`);
    expect(short(await explain(agent))).toEqual([['drop', false, ['denied_by_policy', 'disabled']]]);
    const asked = await explain(agent, '?tool=send');
    expect(asked.tools).toEqual([]);
    expect(asked.problems).toMatchObject([
      { code: 'disabled', connector_id: main },
      { code: 'not_listed', connector_id: spare, remedy: 'Ask again with ?probe=true.' },
    ]);
    expect(short(await explain(agent, '?tool=send&probe=true'))).toEqual([
      ['send', true, ['disabled', 'uses_fallback']],
    ]);
  });

  it('knows pins, and tools that are gone', async () => {
    const server = await rig.server({ tools: [tool('send'), tool('gone')] });
    const agents = [
      await rig.agent([await rig.connector('mail', server.origin)]),
      await rig.agent([await rig.connector('mail', server.origin)], { parameters: { tool_trust: 'block' } }),
    ];
    for (const agent of agents) await rig.ok('GET', `/agents/${agent}?probe=true`);
    server.tools([tool('send', { description: 'another' }), tool('late')]);
    await rig.restart();
    expect(short(await explain(agents[0] ?? '', '?probe=true'))).toEqual([
      ['send', true, ['definition_changed']],
      ['late', true, []],
      ['gone', false, ['absent']],
    ]);
    expect(short(await explain(agents[1] ?? '', '?probe=true'))).toEqual([
      ['send', false, ['pin_changed']],
      ['late', false, ['pin_new']],
      ['gone', false, ['absent']],
    ]);
  });
});

describe('what an agent refers to', () => {
  it('is checked: model, connectors, kinds of tools, parameters', async () => {
    const { connector_id: http } = await rig.ok('POST', '/connectors/_create', {
      name: 'plain',
      version: 1,
      protocol: 'http',
      credential: { key: 'a-secret-key' },
      actions: [{ action_type: 'predict', method: 'POST', url: rig.llm.url, request_body: '{}' }],
    });
    const tools = [
      { type: 'MCPTool', parameters: { connector_id: String(http) } },
      { type: 'MCPTool', parameters: { connector_id: 'nobody', required: 'true' } },
      { type: 'VectorDBTool' },
    ];
    const parameters = { max_iteration: 'many' };
    const agent = await rig.agent([], { llm: { model_id: 'no-model' }, tools, parameters });
    const { problems } = await explain(agent);
    expect(problems.map(({ code, model_id, connector_id }) => [code, model_id ?? connector_id])).toEqual([
      ['tool_type_not_served', undefined],
      ['settings_invalid', undefined],
      ['model_missing', 'no-model'],
      ['wrong_protocol', http],
      ['connector_missing', 'nobody'],
    ]);
    expect(problems[1]?.message).toContain('max_iteration');
    expect(problems[4]?.message).toBe('There is no connector nobody. The agent requires it: a run fails without it.');
    for (const { remedy } of problems) expect(String(remedy)).not.toBe('');
  });

  it('is a model that is deployed, or deployed by its first use', async () => {
    const agent = await rig.agent([]);
    expect((await explain(agent)).problems).toEqual([]);
    await rig.ok('POST', `/models/${rig.modelId}/_undeploy`);
    expect((await explain(agent)).problems).toEqual([]);
    await setting('model_auto_deploy.enable', false);
    expect(await explain(agent)).toMatchObject({
      problems: [
        {
          code: 'model_not_deployed',
          model_id: rig.modelId,
          remedy: `POST /_plugins/_ml/models/${rig.modelId}/_deploy`,
        },
      ],
    });
    await setting('memory_feature_enabled', false);
    expect(codes((await explain(agent)).problems)).toEqual(['feature_disabled', 'model_not_deployed']);
  });

  it('is an executor that exists, of an agent that cannot be run yet', async () => {
    const { agent_id: id } = await rig.ok('POST', '/agents/_register', {
      name: 'planner',
      type: 'plan_execute_and_reflect',
      llm: { model_id: rig.modelId },
      parameters: { executor_agent_id: 'nobody' },
    });
    const { problems } = await explain(String(id));
    expect(problems).toMatchObject([
      { code: 'agent_type_not_served' },
      { code: 'executor_agent_missing', agent_id: 'nobody' },
    ]);
    expect((await rig.send('GET', '/agents/nobody/_explain')).status).toBe(404);
  });

  it('offers no more tools than a model takes', async () => {
    const many = Array.from({ length: 129 }, (_, index) => tool(`t${index}`));
    const server = await rig.server({ tools: many });
    const agent = await rig.agent([await rig.connector('big', server.origin)]);
    const { problems } = await explain(agent, '?probe=true');
    expect(problems).toMatchObject([{ code: 'too_many_tools', message: expect.stringContaining('(129 > 128)') }]);
  });
});
