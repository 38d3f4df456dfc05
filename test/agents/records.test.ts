import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/json.ts';
import { openRig, type Rig } from './rig.ts';

let rig: Rig;
beforeEach(async () => {
  rig = await openRig('final');
});
afterEach(() => rig.dispose());

const base = (more: JsonObject = {}): JsonObject => ({
  name: 'a',
  type: 'conversational',
  llm: { model_id: 'm' },
  ...more,
});
const register = async (body: JsonObject): Promise<string> =>
  String((await rig.ok('POST', '/agents/_register', body)).agent_id);
const refusal = async (method: string, path: string, body?: JsonValue) => {
  const answer = await rig.send(method, path, body);
  const error = answer.body.error as JsonObject;
  return { status: answer.status, type: error.type, reason: error.reason };
};
const setting = (name: string, value: boolean) =>
  rig.ok('PUT', '/_cluster/settings', { transient: { [`plugins.ml_commons.${name}`]: value } });

describe('registering an agent', () => {
  it('keeps what was given and shows it as documented', async () => {
    const id = await register(
      base({
        type: 'Conversational',
        description: 'd',
        llm: { model_id: 'm', parameters: { max_iteration: 5, stop: ['a'] } },
        tools: [
          {
            type: 'MLModelTool',
            name: 'T',
            description: 'x',
            parameters: { n: 1 },
            attributes: { input_schema: { type: 'object' } },
            config: { input: 'x' },
            runtime_resources: { secret: 'x' },
          },
        ],
        parameters: { _llm_interface: 'openai/v1/chat/completions', gone: null },
        memory: { type: 'conversation_index' },
        app_type: 'os_chat',
        unknown: 'x',
      }),
    );
    expect(id).toMatch(/^[0-9A-Za-z]{20}$/);
    const agent = await rig.ok('GET', `/agents/${id}`);
    expect(agent).toEqual({
      name: 'a',
      type: 'Conversational',
      description: 'd',
      llm: { model_id: 'm', parameters: { max_iteration: '5', stop: '["a"]' } },
      tools: [
        {
          type: 'MLModelTool',
          name: 'T',
          description: 'x',
          parameters: { n: '1' },
          attributes: { input_schema: '{"type":"object"}' },
          include_output_in_agent_response: false,
          config: { input: 'x' },
        },
      ],
      parameters: { _llm_interface: 'openai/v1/chat/completions' },
      memory: { type: 'conversation_index' },
      app_type: 'os_chat',
      created_time: expect.any(Number),
      last_updated_time: expect.any(Number),
      is_hidden: false,
    });
  });

  it('does not look at what it refers to, and shows nothing that was not given', async () => {
    const id = await register({ name: 'f', type: 'flow', tools: [] });
    expect(Object.keys(await rig.ok('GET', `/agents/${id}`)).sort()).toEqual([
      'created_time',
      'is_hidden',
      'last_updated_time',
      'name',
      'type',
    ]);
  });

  it('takes an id of the caller, once', async () => {
    expect(await register(base({ agent_id: 'my-agent' }))).toBe('my-agent');
    expect(await refusal('POST', '/agents/_register', base({ agent_id: 'my-agent' }))).toEqual({
      status: 409,
      type: 'status_exception',
      reason: "agent id 'my-agent' already exists",
    });
    expect(await refusal('POST', '/agents/_register', base({ agent_id: '_x' }))).toMatchObject({ status: 400 });
  });

  it('lets several MCPTool entries stand side by side, and no other tool twice', async () => {
    const entry = { type: 'MCPTool', parameters: { connector_id: 'c' } };
    await register(base({ tools: [entry, { ...entry, parameters: { connector_id: 'd' } }, { type: 'X' }] }));
    expect(
      await refusal('POST', '/agents/_register', base({ tools: [{ type: 'X' }, { type: 'Y', name: 'X' }] })),
    ).toEqual({
      status: 400,
      type: 'illegal_argument_exception',
      reason: 'Duplicate tool defined in agent configuration',
    });
  });

  it.each([
    [{ type: 'flow' }, "Agent name can't be null"],
    [{ name: null, type: 'flow' }, "Agent name can't be null"],
    [{ name: 'a' }, "Agent type can't be null"],
    [{ name: 'a', type: 'robot' }, 'Invalid Agent Type'],
    [{ name: '', type: 'flow' }, 'Agent name cannot be empty or exceed max length of 128 characters'],
    [{ name: 'x'.repeat(129), type: 'flow' }, 'Agent name cannot be empty or exceed max length of 128 characters'],
    [{ name: 'a', type: 'conversational' }, 'We need model information for the conversational agent type'],
    [base({ llm: {} }), 'llm.model_id is missing'],
    [base({ tools: [{}] }), 'tool type is null'],
    [base({ tools: [{ type: 'MCPTool' }] }), 'A tool of type MCPTool needs parameters.connector_id'],
    [base({ memory: { type: 'cloud' } }), 'memory.type must be one of'],
    [base({ parameters: { _llm_interface: ' ' } }), '_llm_interface cannot be blank or empty'],
    [base({ parameters: { _llm_interface: 'x' } }), 'Invalid _llm_interface'],
    [base({ context_management_name: 'x', context_management: {} }), 'Cannot specify both context_management_name and'],
    [base({ context_management_name: 'x' }), 'Context management template not found: x'],
    [{ name: 'a', type: 'conversational_v2' }, 'V2 agents (CONVERSATIONAL_V2) require memory configuration.'],
    [base({ parameters: { mcp_connectors: [{}] } }), 'mcp_connectors[0].mcp_connector_id'],
    [base({ memory: { type: 'conversation_index', window_size: -1 } }), 'memory.window_size must be a whole number'],
  ] as [JsonObject, string][])('refuses %j', async (body, reason) => {
    expect(await refusal('POST', '/agents/_register', body)).toEqual({
      status: 400,
      type: 'illegal_argument_exception',
      reason: expect.stringContaining(reason),
    });
  });

  it.each([{ name: 5 }, { tools: {} }, { tools: ['x'] }, { llm: 'm' }, { tools: [{ type: 'X', parameters: [] }] }])(
    'refuses the wrong shape %j',
    async (more) => {
      expect(await refusal('POST', '/agents/_register', base(more))).toMatchObject({
        status: 400,
        type: 'parsing_exception',
      });
    },
  );

  it('wants a body', async () => {
    expect(await refusal('POST', '/agents/_register')).toMatchObject({
      status: 400,
      reason: 'request body is required',
    });
  });

  it('obeys the switches', async () => {
    await setting('mcp_connector_enabled', false);
    expect(
      await refusal('POST', '/agents/_register', base({ parameters: { mcp_connectors: [{ mcp_connector_id: 'c' }] } })),
    ).toMatchObject({ status: 500, type: 'exception' });
    await setting('unified_agent_api_enabled', false);
    expect(await refusal('POST', '/agents/_register', base({ model: { model_id: 'x' } }))).toEqual({
      status: 400,
      type: 'illegal_argument_exception',
      reason:
        'Unified agent API is not enabled. To enable, please update the setting plugins.ml_commons.unified_agent_api_enabled',
    });
    expect(
      await refusal('POST', '/agents/_register', base({ memory: { type: 'remote_agentic_memory' } })),
    ).toMatchObject({ status: 403 });
    await setting('agent_framework_enabled', false);
    expect(await refusal('POST', '/agents/_register', base())).toEqual({
      status: 500,
      type: 'illegal_state_exception',
      reason:
        'Agent Framework is currently disabled. To enable it, update the setting "plugins.ml_commons.agent_framework_enabled" to true.',
    });
  });

  it('with a model block makes the model and keeps no credential', async () => {
    const secret = 'sk-very-secret-value';
    const id = await register({
      name: 'simple',
      type: 'conversational',
      model: {
        model_id: 'gpt-5',
        model_provider: 'openai/v1/chat/completions',
        credential: { openai_api_key: secret },
        model_parameters: { max_iteration: 3, system_prompt: 'Be brief.' },
      },
    });
    const agent = await rig.ok('GET', `/agents/${id}`);
    expect(agent).toMatchObject({
      llm: { model_id: expect.any(String), parameters: { max_iteration: '3', system_prompt: 'Be brief.' } },
      model: { model_id: 'gpt-5', model_provider: 'openai/v1/chat/completions' },
      parameters: { _llm_interface: 'openai/v1/chat/completions' },
    });
    const modelId = String((agent.llm as JsonObject).model_id);
    expect((await rig.send('GET', `/models/${modelId}`)).status).toBe(200);
    const text = JSON.stringify([agent, rig.lines]);
    expect(text).not.toContain(secret);
  });

  it('of type plan_execute_and_reflect gets an executor', async () => {
    const id = await register({ name: 'planner', type: 'plan_execute_and_reflect', llm: { model_id: 'm' } });
    const { parameters } = await rig.ok('GET', `/agents/${id}`);
    const executor = await rig.ok('GET', `/agents/${String((parameters as JsonObject).executor_agent_id)}`);
    expect(executor).toMatchObject({ name: 'planner (ReAct)', type: 'conversational', llm: { model_id: 'm' } });
  });
});

describe('an agent', () => {
  it('that does not exist is a 404 with the documented texts', async () => {
    const missing = 'Failed to find agent with the provided agent id: x';
    expect(await refusal('GET', '/agents/x')).toEqual({ status: 404, type: 'status_exception', reason: missing });
    expect(await refusal('PUT', '/agents/x', { name: 'y' })).toMatchObject({
      status: 404,
      reason: 'Failed to get agent with ID x',
    });
    expect(await refusal('DELETE', '/agents/x')).toMatchObject({ status: 404, reason: 'Fail to find ml agent' });
    const executed = await rig.send('POST', '/agents/x/_execute', { parameters: { question: 'q' } });
    expect([executed.status, executed.body]).toEqual([
      404,
      { status: 404, error: { type: 'OpenSearchStatusException', reason: 'System Error', details: missing } },
    ]);
  });

  it.each(['flow', 'conversational_flow', 'plan_execute_and_reflect', 'ag_ui'])(
    'of type %s is registered but not executed',
    async (type) => {
      const id = await register(base({ type }));
      const answer = await rig.send('POST', `/agents/${id}/_execute`, { parameters: { question: 'q' } });
      expect(answer.status).toBe(400);
      expect(answer.body).toMatchObject({
        error: { details: expect.stringContaining(`Agents of type ${type} are not served yet`) },
      });
    },
  );

  it('with a memory of another kind says that it is not served yet', async () => {
    const id = await register(base({ memory: { type: 'agentic_memory' } }));
    const answer = await rig.send('POST', `/agents/${id}/_execute`, { parameters: { question: 'q' } });
    expect(answer.body).toMatchObject({
      error: { details: expect.stringContaining('agentic_memory is not served yet') },
    });
  });

  it('is updated member by member', async () => {
    const id = await register(
      base({
        llm: { model_id: 'm', parameters: { a: 1, b: 2 } },
        tools: [{ type: 'X' }],
        parameters: { p: 1 },
        description: 'd',
      }),
    );
    const outcome = await rig.ok('PUT', `/agents/${id}`, {
      name: 'b',
      type: 'conversational',
      llm: { parameters: { b: 3, c: 4 } },
      tools: [],
      parameters: { q: 2 },
    });
    expect(outcome).toMatchObject({ _index: '.plugins-ml-agent', _id: id, _version: 2, result: 'updated' });
    const agent = await rig.ok('GET', `/agents/${id}`);
    expect(agent).toMatchObject({
      name: 'b',
      description: 'd',
      llm: { model_id: 'm', parameters: { a: '1', b: '3', c: '4' } },
      parameters: { q: '2' },
    });
    expect(agent).not.toHaveProperty('tools');
    await rig.ok('PUT', `/agents/${id}`, { llm: { model_id: 'n' }, parameters: {} });
    expect(await rig.ok('GET', `/agents/${id}`)).toMatchObject({
      llm: { model_id: 'n', parameters: { a: '1', b: '3', c: '4' } },
    });
    expect(await refusal('PUT', `/agents/${id}`, { type: 'flow' })).toMatchObject({
      status: 400,
      reason: 'Agent type cannot be updated',
    });
    expect(await refusal('PUT', `/agents/${id}`, { name: '' })).toMatchObject({ status: 400 });
  });

  it('is deleted for good, its model and connectors are not', async () => {
    const server = await rig.server();
    const connector = await rig.connector('w', server.origin);
    const id = await rig.agent([connector]);
    expect(await rig.ok('DELETE', `/agents/${id}`)).toMatchObject({ _id: id, result: 'deleted' });
    expect((await rig.send('GET', `/agents/${id}`)).status).toBe(404);
    expect((await rig.send('GET', `/connectors/${connector}`)).status).toBe(200);
    expect((await rig.send('GET', `/models/${rig.modelId}`)).status).toBe(200);
  });

  it('is served under the other prefix too', async () => {
    const id = String((await rig.ok('POST', '/_plugins/_agent/agents/_register', base())).agent_id);
    expect((await rig.send('GET', `/_plugins/_agent/agents/${id}`)).status).toBe(200);
  });
});

describe('the connections of an agent', () => {
  it('are shown for agents that name MCP connectors only, and opened by a probe', async () => {
    const plain = await register(base());
    expect(await rig.ok('GET', `/agents/${plain}`)).not.toHaveProperty('mcp_connections');
    const server = await rig.server();
    const connector = await rig.connector('w', server.origin);
    const id = await rig.agent([connector]);
    const idle = await rig.ok('GET', `/agents/${id}`);
    expect(idle.mcp_connections).toMatchObject([{ connector_id: connector, name: 'w', status: 'idle', tool_count: 0 }]);
    expect(server.requests).toHaveLength(0);
    const probed = await rig.ok('GET', `/agents/${id}?probe=true`);
    expect(probed.mcp_connections).toEqual([
      {
        connector_id: connector,
        name: 'w',
        status: 'connected',
        since: expect.any(Number),
        tool_count: 1,
        tools: ['echo'],
        protocol_version: '2025-11-25',
        last_success_time: expect.any(Number),
      },
    ]);
  });

  it('say what is wrong and what to do', async () => {
    const server = await rig.server();
    await server.stop();
    const id = await rig.agent([await rig.connector('w', server.origin)]);
    const { mcp_connections: connections } = await rig.ok('GET', `/agents/${id}?probe=true`);
    const [connection] = connections as JsonObject[];
    expect(connection).toMatchObject({
      status: 'failed',
      error: { code: 'connection_refused', message: expect.any(String), remedy: expect.any(String) },
    });
  });

  it('are closed when no agent names the connector any more', async () => {
    const server = await rig.server();
    const connector = await rig.connector('w', server.origin);
    const one = await rig.agent([connector]);
    const two = await rig.agent([connector]);
    await rig.ask(one, 'q');
    expect(server.of('initialize')).toHaveLength(1);
    await rig.ok('DELETE', `/agents/${one}`);
    await rig.ask(two, 'q');
    expect(server.of('DELETE')).toHaveLength(0);
    expect(server.of('initialize')).toHaveLength(1);
    await rig.ok('PUT', `/agents/${two}`, { tools: [] });
    await server.seen('DELETE');
    expect(await rig.ok('GET', `/agents/${two}`)).not.toHaveProperty('mcp_connections');
  });
});

describe('what others see', () => {
  it('is who uses a connector, and one audit row per change', async () => {
    const { documents, database } = rig.services();
    const id = await rig.agent([{ connector_id: 'c1', fallback_connector_id: 'c2' }]);
    const users = (target: string) => documents.referencing('agent', { kind: 'connector', id: target });
    expect([await users('c1'), await users('c2')]).toEqual([[id], [id]]);
    expect(await documents.referencing('agent', { kind: 'model', id: rig.modelId })).toEqual([id]);
    await rig.ok('PUT', `/agents/${id}`, { parameters: { mcp_connectors: [{ mcp_connector_id: 'c3' }] }, tools: [] });
    expect([await users('c1'), await users('c3')]).toEqual([[], [id]]);
    await rig.ok('DELETE', `/agents/${id}`);
    expect(await users('c3')).toEqual([]);
    const rows = await database.kysely.selectFrom('audit').select(['action', 'agent_id']).orderBy('time').execute();
    const actions = rows.filter((row) => row.agent_id === id).map((row) => row.action);
    expect(actions.sort()).toEqual(['agent.create', 'agent.delete', 'agent.update']);
  });
});
