import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { type FakeLlmServer, startFakeLlm } from '../support/fake-llm-server.ts';
import { type ModelPlatform, startModelPlatform } from '../support/model-platform.ts';
import { chatConnector, ID } from '../support/rest.ts';

let llm: FakeLlmServer;
let platform: ModelPlatform;
beforeAll(async () => {
  llm = await startFakeLlm();
  platform = await startModelPlatform();
});
afterAll(async () => {
  await platform.close();
  await llm.close();
});
beforeEach(() => llm.reset());

const rest = () => platform.rest;

async function connectorId(): Promise<string> {
  return String((await rest().ok('POST', '/connectors/_create', chatConnector(llm.url))).connector_id);
}

async function register(body: JsonObject = {}, query = ''): Promise<string> {
  const base = { name: 'chat', function_name: 'remote', connector: chatConnector(llm.url) };
  return String((await rest().ok('POST', `/models/_register${query}`, { ...base, ...body })).model_id);
}

async function refused(method: string, path: string, body?: JsonObject): Promise<{ status: number; reason: unknown }> {
  const answer = await rest().send(method, path, body);
  return { status: answer.status, reason: (answer.body.error as JsonObject).reason };
}

describe('registering a remote model', () => {
  it('with a connector id answers task and model, and GET shows exactly its members', async () => {
    const connector = await connectorId();
    const answer = await rest().ok('POST', '/models/_register', {
      name: 'gpt',
      function_name: 'Remote',
      connector_id: connector,
      description: 'A chat model',
    });
    expect(answer).toEqual({
      task_id: expect.stringMatching(ID),
      status: 'CREATED',
      model_id: expect.stringMatching(ID),
    });
    const time = expect.any(Number);
    const model = await rest().ok('GET', `/models/${answer.model_id}`);
    expect(model).toEqual({
      name: 'gpt',
      model_group_id: expect.stringMatching(ID),
      algorithm: 'REMOTE',
      model_version: '1',
      description: 'A chat model',
      model_state: 'REGISTERED',
      created_time: time,
      last_updated_time: time,
      last_registered_time: time,
      is_hidden: false,
      connector_id: connector,
    });
    expect(await rest().ok('GET', `/tasks/${answer.task_id}`)).toEqual({
      model_id: answer.model_id,
      task_type: 'REGISTER_MODEL',
      function_name: 'REMOTE',
      state: 'COMPLETED',
      worker_node: ['tenon'],
      create_time: time,
      last_update_time: time,
      is_async: false,
    });
  });

  it('with an inline connector shows it without its credential', async () => {
    const id = await register({ connector: { ...(chatConnector(llm.url) as JsonObject), client_config: {} } });
    const model = await rest().ok('GET', `/models/${id}?return_content=false`);
    expect(model.connector).toEqual({
      name: 'chat provider',
      version: '1',
      protocol: 'http',
      parameters: { model: 'test' },
      actions: [
        {
          action_type: 'PREDICT',
          method: 'POST',
          url: llm.url,
          headers: { Authorization: 'Bearer ${credential.openai_key}' },
          request_body: '{"model":"${parameters.model}","messages":[{"role":"user","content":"${parameters.prompt}"}]}',
        },
      ],
      client_config: expect.objectContaining({ max_connection: 30, max_retry_times: 0 }),
    });
    expect(model).not.toHaveProperty('connector_id');
  });

  it('with deploy=true is deployed at once', async () => {
    const model = await rest().ok('GET', `/models/${await register({}, '?deploy=true')}`);
    expect(model).toMatchObject({
      model_state: 'DEPLOYED',
      last_deployed_time: expect.any(Number),
      auto_redeploy_retry_times: 0,
      planning_worker_node_count: 1,
      current_worker_node_count: 1,
      planning_worker_nodes: ['tenon'],
      deploy_to_all_nodes: true,
    });
  });

  it('keeps and shows the settings it is given, and null as absent', async () => {
    const settings = {
      is_enabled: true,
      rate_limiter: { limit: '4', unit: 'MINUTES' },
      deploy_setting: { is_auto_deploy_enabled: false },
      guardrails: { type: 'local_regex' },
      model_config: { a: 1 },
    };
    const schemas = { interface: { input: { type: 'object' }, output: '{"type":"array"}', other: 1 } };
    const model = await rest().ok('GET', `/models/${await register({ ...settings, ...schemas, description: null })}`);
    expect(model).toMatchObject({ ...settings, interface: { input: '{"type":"object"}', output: '{"type":"array"}' } });
    expect(model.interface).not.toHaveProperty('other');
    expect(model).not.toHaveProperty('description');
  });

  it('takes the id and the version it is given, once', async () => {
    expect(await register({ model_id: 'my-model_1', version: 2.5 })).toBe('my-model_1');
    expect(await rest().ok('GET', '/models/my-model_1')).toMatchObject({ model_version: '2.5' });
    const again = { name: 'chat', function_name: 'remote', connector: chatConnector(llm.url), model_id: 'my-model_1' };
    expect(await refused('POST', '/models/_register', again)).toEqual({
      status: 409,
      reason: "model id 'my-model_1' already exists",
    });
  });

  it('takes id and version from the path, and answers to the old name of the route', async () => {
    const body = { name: 'chat', function_name: 'remote', connector: chatConnector(llm.url) };
    expect(await rest().ok('POST', '/models/by-path/7/_register', body)).toMatchObject({ model_id: 'by-path' });
    expect(await rest().ok('GET', '/models/by-path')).toMatchObject({ model_version: '7' });
    expect(await rest().ok('POST', '/models/_upload', body)).toMatchObject({ status: 'CREATED' });
  });

  it('reuses the group of its name and counts versions in it', async () => {
    const [first, second] = await Promise.all([register({ name: 'twin' }), register({ name: 'twin' })]);
    const models = await Promise.all([first, second].map((id) => rest().ok('GET', `/models/${id}`)));
    expect(models[0]?.model_group_id).toBe(models[1]?.model_group_id);
    expect(models.map(({ model_version }) => model_version).sort()).toEqual(['1', '2']);
    const group = await rest().ok('GET', `/model_groups/${models[0]?.model_group_id}`);
    expect(group).toMatchObject({ name: 'twin', latest_version: 2 });
  });

  it.each<[string, JsonObject, string]>([
    ['no name', { name: null }, 'model name is null'],
    ['a blank name', { name: ' ' }, 'model name is null'],
    ['a name that is no text', { name: 5 }, 'name must be a string'],
    [
      'no function name',
      { function_name: null },
      'model format is null. Set function_name to remote and give a connector_id.',
    ],
    [
      'a local model',
      { function_name: 'text_embedding', model_format: 'TORCH_SCRIPT' },
      'Local models (function_name TEXT_EMBEDDING) do not run here. Set function_name to remote and give a connector_id.',
    ],
    ['an unknown function name', { function_name: 'magic' }, 'Wrong function name'],
    [
      'no connector',
      { connector: null },
      'You must provide connector content when creating a remote model without connector id!',
    ],
    ['both kinds of connector', { connector_id: 'x' }, 'Give connector_id or connector, not both.'],
    ['a connector that is no object', { connector: 'x' }, 'connector must be an object'],
    [
      'an inline MCP server',
      { connector: { name: 'm', version: 1, protocol: 'mcp_streamable_http', url: 'http://127.0.0.1:1' } },
      'Cannot Create a Model from MCP Connector: the inline connector',
    ],
    ['a switch that is a text', { is_enabled: 'no' }, 'is_enabled must be true or false'],
    ['a limiter that is no object', { rate_limiter: 5 }, 'rate_limiter must be an object'],
    [
      'a schema that is no object',
      { interface: { input: 5 } },
      'interface.input must be a JSON Schema: an object, or its JSON text',
    ],
    ['a version that is no text', { version: [] }, 'version must be a string or a number'],
    ['an id that starts with _', { model_id: '_x' }, "model id must not start with '_'"],
    [
      'access control members',
      { access_mode: 'private' },
      'You cannot specify model access control parameters because the Security plugin or model access control is disabled on your cluster.',
    ],
  ])('refuses %s', async (_name, change, reason) => {
    const body = { name: 'refused', function_name: 'remote', connector: chatConnector(llm.url), ...change };
    expect(await refused('POST', '/models/_register', body)).toEqual({ status: 400, reason });
    expect(await platform.documents.findByName('model', 'refused')).toBeUndefined();
    expect(await platform.documents.findByName('model_group', 'refused')).toBeUndefined();
  });

  it('refuses an inline connector without an address to predict with', async () => {
    const connector = chatConnector(llm.url) as JsonObject;
    const [action] = connector.actions as JsonObject[];
    const body = {
      name: 'c',
      function_name: 'remote',
      connector: { ...connector, actions: [{ ...action, action_type: 'execute' }] },
    };
    expect(await refused('POST', '/models/_register', body)).toEqual({
      status: 400,
      reason: 'Connector endpoint is required when creating a remote model without connector id!',
    });
  });

  it('refuses a connector that does not exist, an MCP server, and an unknown group', async () => {
    const body = { name: 'chat', function_name: 'remote' };
    expect(await refused('POST', '/models/_register', { ...body, connector_id: 'nope' })).toEqual({
      status: 404,
      reason: 'Failed to find connector with the provided connector id: nope',
    });
    const mcp = { name: 'm', version: 1, protocol: 'mcp_streamable_http', url: 'http://127.0.0.1:1' };
    const { connector_id } = await rest().ok('POST', '/connectors/_create', mcp);
    expect(await refused('POST', '/models/_register', { ...body, connector_id: connector_id ?? null })).toEqual({
      status: 400,
      reason: `Cannot Create a Model from MCP Connector: ${connector_id}`,
    });
    const grouped = { ...body, connector: chatConnector(llm.url), model_group_id: 'nope' };
    expect(await refused('POST', '/models/_register', grouped)).toEqual({
      status: 404,
      reason: 'Failed to find model group with the provided model group id: nope',
    });
  });

  it('refuses an empty body', async () => {
    expect(await refused('POST', '/models/_register')).toEqual({ status: 400, reason: 'request body is required' });
  });
});

describe('reading, updating, deleting', () => {
  it('answers 404 with the texts of each verb', async () => {
    expect(await refused('GET', '/models/nope')).toEqual({
      status: 404,
      reason: 'Failed to find model with the provided model id: nope',
    });
    expect(await refused('PUT', '/models/nope', { name: 'x' })).toEqual({
      status: 404,
      reason: 'Failed to find model to update with the provided model id: nope',
    });
    expect(await refused('DELETE', '/models/nope')).toEqual({ status: 404, reason: 'Failed to find model' });
  });

  it('updates what is given and leaves the rest', async () => {
    const id = await register({ description: 'old' });
    const group = String((await rest().ok('POST', '/model_groups/_register', { name: 'target' })).model_group_id);
    const answer = await rest().ok('PUT', `/models/${id}`, {
      name: 'renamed',
      is_enabled: false,
      model_group_id: group,
    });
    expect(answer).toMatchObject({ _index: '.plugins-ml-model', _id: id, _version: 2, result: 'updated' });
    const model = await rest().ok('GET', `/models/${id}`);
    expect(model).toMatchObject({ name: 'renamed', description: 'old', is_enabled: false, model_group_id: group });
    expect(model).toHaveProperty('connector');
    expect(await rest().send('DELETE', `/model_groups/${group}`)).toMatchObject({ status: 409 });
  });

  it('refuses an empty body, a blank name, an unknown group and both kinds of connector', async () => {
    const id = await register();
    expect(await refused('PUT', `/models/${id}`)).toEqual({
      status: 400,
      reason: 'Update model request has empty body',
    });
    expect(await refused('PUT', `/models/${id}`, { name: '' })).toEqual({ status: 400, reason: 'model name is null' });
    expect(await refused('PUT', `/models/${id}`, { model_group_id: 'nope' })).toMatchObject({ status: 404 });
    const both = { connector_id: 'x', connector: { name: 'y' } };
    expect(await refused('PUT', `/models/${id}`, both)).toEqual({
      status: 400,
      reason: 'Give connector_id or connector, not both.',
    });
  });

  it('updates an inline connector member by member and keeps its credential', async () => {
    const id = await register();
    await rest().ok('PUT', `/models/${id}`, { connector: { parameters: { model: 'newer' } } });
    await rest().ok('POST', `/models/${id}/_predict`, { parameters: { prompt: 'hi' } });
    expect(llm.requests[0]?.body.model).toBe('newer');
    expect(llm.requests[0]?.headers.authorization).toBe('Bearer a-model-key');
  });

  it('replaces the credential of an inline connector when one is given', async () => {
    const id = await register();
    await rest().ok('PUT', `/models/${id}`, { connector: { credential: { openai_key: 'second-key' } } });
    await rest().ok('POST', `/models/${id}/_predict`, { parameters: { prompt: 'hi' } });
    expect(llm.requests[0]?.headers.authorization).toBe('Bearer second-key');
  });

  it('does not let an inline credential follow a new address', async () => {
    const id = await register();
    const connector = chatConnector('http://127.0.0.1:9/v1/chat/completions') as JsonObject;
    const answer = await rest().send('PUT', `/models/${id}`, { connector: { actions: connector.actions ?? [] } });
    expect(answer.status).toBe(400);
    expect(JSON.stringify(answer.body)).toContain('A credential never follows an address');
  });

  it('changes from an inline connector to a stored one and drops the credential', async () => {
    const id = await register();
    const connector = await connectorId();
    expect(await platform.documents.sealedCredential('model', id)).toBeDefined();
    await rest().ok('PUT', `/models/${id}`, { connector_id: connector });
    const model = await rest().ok('GET', `/models/${id}`);
    expect(model.connector_id).toBe(connector);
    expect(model).not.toHaveProperty('connector');
    expect(await platform.documents.sealedCredential('model', id)).toBeUndefined();
    expect(await rest().send('DELETE', `/connectors/${connector}`)).toMatchObject({ status: 409 });
  });

  it('changes from a stored connector to an inline one and lets the stored one go', async () => {
    const connector = await connectorId();
    const id = await register({ connector: null, connector_id: connector });
    await rest().ok('PUT', `/models/${id}`, { connector: chatConnector(llm.url) });
    expect(await rest().ok('DELETE', `/connectors/${connector}`)).toMatchObject({ result: 'deleted' });
    await rest().ok('POST', `/models/${id}/_predict`, { parameters: { prompt: 'hi' } });
    expect(llm.requests[0]?.headers.authorization).toBe('Bearer a-model-key');
  });

  it('keeps a connector from being deleted while a model names it', async () => {
    const connector = await connectorId();
    const id = await register({ connector: null, connector_id: connector });
    expect(await refused('DELETE', `/connectors/${connector}`)).toEqual({
      status: 409,
      reason: `1 models are still using this connector, please delete or update the models first: [${id}]`,
    });
    await rest().ok('DELETE', `/models/${id}`);
    expect(await rest().ok('DELETE', `/connectors/${connector}`)).toMatchObject({ result: 'deleted' });
  });

  it('deletes a model with its credential, but not while it is deployed', async () => {
    const id = await register({}, '?deploy=true');
    expect(await refused('DELETE', `/models/${id}`)).toEqual({
      status: 400,
      reason: 'Model cannot be deleted in deploying or deployed state. Try undeploy model first then delete',
    });
    await rest().ok('POST', `/models/${id}/_undeploy`);
    expect(await rest().ok('DELETE', `/models/${id}`)).toMatchObject({
      _index: '.plugins-ml-model',
      result: 'deleted',
    });
    expect(await platform.documents.sealedCredential('model', id)).toBeUndefined();
    expect(await rest().send('GET', `/models/${id}`)).toMatchObject({ status: 404 });
  });

  it('keeps a model that agents use only with safe_delete_model', async () => {
    const id = await register();
    const agent = { name: 'a', body: { name: 'a' }, references: [{ kind: 'model' as const, id }] };
    await platform.documents.insert('agent', 'agent-1', agent);
    await platform.set('safe_delete_model', 'true');
    try {
      expect(await refused('DELETE', `/models/${id}`)).toEqual({
        status: 409,
        reason:
          '1 agents are still using this model, please delete or update the agents first, all visible agents are: [agent-1]',
      });
    } finally {
      await platform.set('safe_delete_model', null);
    }
    expect(await rest().ok('DELETE', `/models/${id}`)).toMatchObject({ result: 'deleted' });
  });
});

describe('deploying', () => {
  it.each(['_deploy', '_load'])('%s records a task and the time', async (verb) => {
    const id = await register();
    const answer = await rest().ok('POST', `/models/${id}/${verb}`);
    expect(answer).toEqual({ task_id: expect.stringMatching(ID), task_type: 'DEPLOY_MODEL', status: 'COMPLETED' });
    expect(await rest().ok('GET', `/tasks/${answer.task_id}`)).toMatchObject({
      task_type: 'DEPLOY_MODEL',
      state: 'COMPLETED',
      model_id: id,
    });
    expect(await rest().ok('GET', `/models/${id}`)).toMatchObject({ model_state: 'DEPLOYED' });
  });

  it('refuses a plan of nodes and an unknown model', async () => {
    const id = await register();
    expect(await refused('POST', `/models/${id}/_deploy`, { node_ids: ['n'] })).toEqual({
      status: 400,
      reason: "Don't allow custom deployment plan",
    });
    expect(await refused('POST', '/models/nope/_deploy', {})).toEqual({
      status: 404,
      reason: 'Failed to find model with the provided model id: nope',
    });
  });

  it.each(['_undeploy', '_unload'])('%s answers by node, whatever the body holds', async (verb) => {
    const id = await register({}, '?deploy=true');
    expect(await rest().ok('POST', `/models/${id}/${verb}`, { nonsense: true })).toEqual({
      tenon: { stats: { [id]: 'undeployed' } },
    });
    const model = await rest().ok('GET', `/models/${id}`);
    expect(model).toMatchObject({ model_state: 'UNDEPLOYED', last_undeployed_time: expect.any(Number) });
    expect(model).not.toHaveProperty('planning_worker_nodes');
  });

  it('undeploys several at once and names unknown ones', async () => {
    const id = await register({}, '?deploy=true');
    expect(await rest().ok('POST', '/models/_undeploy', { model_ids: [id, 'nope'], node_ids: ['n'] })).toEqual({
      tenon: { stats: { [id]: 'undeployed', nope: 'not_found' } },
    });
  });

  it('of a model that is not deployed leaves its state', async () => {
    const id = await register();
    expect(await rest().ok('POST', '/models/_unload', { model_ids: id })).toEqual({
      tenon: { stats: { [id]: 'undeployed' } },
    });
    expect(await rest().ok('GET', `/models/${id}`)).toMatchObject({ model_state: 'REGISTERED' });
  });

  it('wants ids on the route without one', async () => {
    const reason = 'Must set specific model ids to undeploy';
    expect(await refused('POST', '/models/_undeploy')).toEqual({ status: 400, reason });
    expect(await refused('POST', '/models/_undeploy', { model_ids: [] })).toEqual({ status: 400, reason });
    expect(await refused('POST', '/models/_undeploy', { model_ids: [7] })).toEqual({
      status: 400,
      reason: 'model_ids must be a list of model ids',
    });
  });
});

describe('records', () => {
  it('hold one audit line for each change, and no line holds the credential', async () => {
    const id = await register({}, '?deploy=true');
    await rest().ok('POST', `/models/${id}/_undeploy`);
    await rest().ok('DELETE', `/models/${id}`);
    const lines = platform.lines.filter((line) => line.includes(id) && line.includes('"action"'));
    expect(lines.map((line) => (JSON.parse(line) as JsonObject).action)).toEqual([
      'model.register',
      'model.undeploy',
      'model.delete',
    ]);
    expect(platform.lines.filter((line) => line.includes('a-model-key'))).toEqual([]);
  });
});
