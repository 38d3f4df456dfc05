import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { startApp, type TestAnswer, type TestApp } from '../support/build-app.ts';
import { type FakeLlmServer, startFakeLlm } from '../support/fake-llm-server.ts';
import { type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { chatConnector } from '../support/rest.ts';

const STATIC_KEY = 'the-static-key-of-the-operator';
const ML = '/_plugins/_ml';
const PASSWORDS = { ann: 'Sunny-4-afternoons', bob: 'Rainy-5-evenings', eve: 'Foggy-6-mornings' };
type Caller = keyof typeof PASSWORDS | 'operator';

let app: TestApp;
let llm: FakeLlmServer;
let weather: FakeMcpServer;

beforeAll(async () => {
  llm = await startFakeLlm({ strict: true, replies: ['an answer'] });
  weather = await startFakeMcpServer({
    tools: [
      { name: 'forecast', inputSchema: { type: 'object', properties: {} }, annotations: { readOnlyHint: true } },
      { name: 'warn_everybody', inputSchema: { type: 'object', properties: {} } },
    ],
  });
  app = await startApp({
    config: { apiKey: STATIC_KEY, trustedPrivateEndpoints: ['http://127\\.0\\.0\\.1.*'] },
  });
  const security = '/_plugins/_security/api';
  const role = { cluster_permissions: ['agent:*', 'memory:*', 'task:read', 'model:*', 'connector:read'] };
  await operator('PUT', `${security}/roles/without_connectors`, role);
  const denying = { cluster_permissions: [], denied_tools: [{ tool: 'warn_.*' }] };
  await operator('PUT', `${security}/roles/no_warnings`, denying);
  for (const [name, backend_roles, opendistro_security_roles] of [
    ['ann', ['it'], ['ml_full_access']],
    ['bob', ['it'], ['ml_full_access', 'no_warnings']],
    ['eve', [], ['without_connectors']],
  ] as const) {
    const user = { password: PASSWORDS[name], backend_roles, opendistro_security_roles };
    await operator('PUT', `${security}/internalusers/${name}`, user);
  }
  await operator('PUT', '/_cluster/settings', {
    persistent: {
      'plugins.ml_commons.connector_access_control_enabled': true,
      'plugins.ml_commons.model_access_control_enabled': true,
    },
  });
});
afterAll(async () => {
  await app.close();
  await Promise.all([llm.close(), weather.stop()]);
});

function send(caller: Caller, method: string, path: string, body?: unknown): Promise<TestAnswer> {
  const authorization =
    caller === 'operator'
      ? `Bearer ${STATIC_KEY}`
      : `Basic ${Buffer.from(`${caller}:${PASSWORDS[caller]}`).toString('base64')}`;
  return app.request(method, path.startsWith('/_') ? path : `${ML}${path}`, body, { authorization });
}

async function operator(method: string, path: string, body: unknown): Promise<void> {
  const { status, text } = await send('operator', method, path, body);
  if (status > 299) throw new Error(`${method} ${path}: ${status} ${text}`);
}

async function ok(caller: Caller, method: string, path: string, body?: unknown): Promise<JsonObject> {
  const answer = await send(caller, method, path, body);
  if (answer.status !== 200) throw new Error(`${caller} ${method} ${path}: ${answer.status} ${answer.text}`);
  return answer.body as JsonObject;
}

/** Status and text of a refusal. */
async function refusal(caller: Caller, method: string, path: string, body?: unknown): Promise<[number, unknown]> {
  const answer = await send(caller, method, path, body);
  const error = answer.body.error as JsonObject;
  return [answer.status, error.reason === 'System Error' ? error.details : error.reason];
}

async function connector(caller: Caller, members: JsonObject = {}): Promise<string> {
  const body = { name: 'weather', version: 1, protocol: 'mcp_streamable_http', url: weather.origin, ...members };
  return String((await ok(caller, 'POST', '/connectors/_create', body)).connector_id);
}

async function model(caller: Caller, name: string, members: JsonObject = {}): Promise<string> {
  const body = { name, function_name: 'remote', connector: chatConnector(llm.url), ...members };
  return String((await ok(caller, 'POST', '/models/_register?deploy=true', body)).model_id);
}

async function agent(caller: Caller, modelId: string, parameters: JsonObject): Promise<string> {
  const tools = [{ type: 'MCPTool', parameters }];
  const body = { name: 'assistant', type: 'conversational', llm: { model_id: modelId }, tools };
  return String((await ok(caller, 'POST', '/agents/_register', body)).agent_id);
}

function ask(caller: Caller, agentId: string, parameters: JsonObject = {}): Promise<TestAnswer> {
  return send(caller, 'POST', `/agents/${agentId}/_execute`, { parameters: { question: 'Rain?', ...parameters } });
}

function results(answer: TestAnswer): Record<string, string> {
  const [first] = (answer.body.inference_results ?? []) as { output: { name: string; result: string }[] }[];
  return Object.fromEntries((first?.output ?? []).map(({ name, result }) => [name, result]));
}

const INVISIBLE = "You don't have permission to access this connector";
const FORBIDDEN_MODEL = "User doesn't have privilege to perform this operation on this model";

describe('records of one user', () => {
  it('a private connector is closed on every route', async () => {
    const id = await connector('ann');
    await ok('ann', 'GET', `/connectors/${id}/tools`);
    expect(await ok('ann', 'GET', `/connectors/${id}`)).toMatchObject({
      owner: { name: 'ann', backend_roles: ['it'], roles: ['ml_full_access'], custom_attribute_names: [] },
      access: 'private',
    });
    expect(await refusal('bob', 'GET', `/connectors/${id}`)).toEqual([403, INVISIBLE]);
    expect(await refusal('bob', 'GET', `/connectors/${id}/_status`)).toEqual([403, INVISIBLE]);
    expect(await refusal('bob', 'GET', `/connectors/${id}/tools`)).toEqual([403, INVISIBLE]);
    expect(await refusal('bob', 'POST', `/connectors/${id}/tools/forecast/_execute`, {})).toEqual([403, INVISIBLE]);
    expect(await refusal('bob', 'PUT', `/connectors/${id}`, { name: 'x' })).toEqual([
      403,
      `You don't have permission to update the connector, connector id: ${id}`,
    ]);
    expect(await refusal('bob', 'DELETE', `/connectors/${id}`)).toEqual([
      403,
      `You don't have permission to delete the connector, connector id: ${id}`,
    ]);
    const listed = async (caller: Caller): Promise<unknown[]> =>
      ((await ok(caller, 'GET', '/connectors/_status')).connectors as JsonObject[]).map((each) => each.connector_id);
    expect(await listed('ann')).toContain(id);
    expect(await listed('operator')).toContain(id);
    expect(await listed('bob')).not.toContain(id);
    expect(await refusal('ann', 'DELETE', '/connectors/unknown')).toEqual([
      404,
      'Failed to find connector with the provided connector id: unknown',
    ]);
    expect(await ok('ann', 'DELETE', `/connectors/${id}`)).toMatchObject({ result: 'deleted' });
  });

  it('are those of its API keys, and the other way round', async () => {
    const { api_key: key } = await ok('ann', 'POST', '/api_keys', { name: 'script' });
    const headers = { authorization: `ApiKey ${key}` };
    const id = await connector('ann');
    expect((await app.request('GET', `${ML}/connectors/${id}`, undefined, headers)).status).toBe(200);
    const { body } = await app.request('POST', `${ML}/memory`, { name: 'by key' }, headers);
    expect(await ok('ann', 'GET', `/memory/${body.memory_id}`)).toMatchObject({ user: 'ann', name: 'by key' });
    expect((await refusal('bob', 'GET', `/memory/${body.memory_id}`))[0]).toBe(401);
    await ok('ann', 'DELETE', `/memory/${body.memory_id}`);
  });

  it('a connector is shared with the roles it names', async () => {
    const id = await connector('ann', { access_mode: 'restricted', backend_roles: ['it'] });
    expect(await ok('bob', 'GET', `/connectors/${id}`)).toMatchObject({ access: 'restricted', backend_roles: ['it'] });
    expect(await refusal('eve', 'GET', `/connectors/${id}`)).toEqual([403, INVISIBLE]);
    const body = { name: 'x', version: 1, protocol: 'mcp_streamable_http', url: weather.origin, backend_roles: ['hr'] };
    expect(await refusal('ann', 'POST', '/connectors/_create', body)).toEqual([
      400,
      "You don't have the backend roles specified.",
    ]);
  });

  it('a private model and its group are closed, and the task of its registration is not there', async () => {
    const { model_group_id: group } = await ok('ann', 'POST', '/model_groups/_register', { name: 'of ann' });
    const registration = {
      name: 'm',
      function_name: 'remote',
      connector: chatConnector(llm.url),
      model_group_id: group,
    };
    const registered = await ok('ann', 'POST', '/models/_register', registration);
    const { model_id: id, task_id: task } = registered;
    expect(await ok('ann', 'GET', `/model_groups/${group}`)).toMatchObject({
      access: 'private',
      owner: { name: 'ann' },
    });
    expect(await refusal('bob', 'GET', `/model_groups/${group}`)).toEqual([
      403,
      "User doesn't have privilege to perform this operation on this model group",
    ]);
    expect(await refusal('bob', 'PUT', `/model_groups/${group}`, { access_mode: 'public' })).toEqual([
      403,
      "You don't have permissions to perform this operation on this model group.",
    ]);
    for (const [method, path, body] of [
      ['GET', `/models/${id}`],
      ['PUT', `/models/${id}`, { name: 'x' }],
      ['DELETE', `/models/${id}`],
      ['POST', `/models/${id}/_deploy`],
      ['POST', `/models/${id}/_undeploy`],
      ['POST', `/models/${id}/_predict`, { parameters: { prompt: 'x' } }],
      ['POST', `${ML}/_predict/remote/${id}`, { parameters: { prompt: 'x' } }],
    ] as const) {
      expect([method, path, ...(await refusal('bob', method, path, body))]).toEqual([
        method,
        path,
        403,
        FORBIDDEN_MODEL,
      ]);
    }
    expect(await ok('ann', 'GET', `/tasks/${task}`)).toMatchObject({ state: 'COMPLETED' });
    expect(await ok('operator', 'GET', `/tasks/${task}`)).toMatchObject({ state: 'COMPLETED' });
    expect(await refusal('bob', 'GET', `/tasks/${task}`)).toEqual([404, 'Failed to find task']);
    expect(await refusal('bob', 'DELETE', `/tasks/${task}`)).toEqual([404, 'Failed to find task']);
  });
});

describe('conversations', () => {
  let agentId: string;
  beforeAll(async () => {
    const shared = await connector('ann', { access_mode: 'public' });
    agentId = await agent('ann', await model('ann', 'shared chat', { access_mode: 'public' }), {
      connector_id: shared,
    });
  });
  beforeEach(() => llm.reset({ tool: 'forecast' }, 'It will rain.'));

  it('belong to who asked: memory, messages, traces and lists', async () => {
    const answer = await ask('ann', agentId);
    expect(answer.status).toBe(200);
    const { memory_id: memory, parent_interaction_id: message } = results(answer);
    const closed = [401, `User [bob] does not have access to memory ${memory}`];
    for (const [method, path, body] of [
      ['GET', `/memory/${memory}`],
      ['PUT', `/memory/${memory}`, { name: 'x' }],
      ['DELETE', `/memory/${memory}`],
      ['GET', `/memory/${memory}/messages`],
      ['POST', `/memory/${memory}/messages`, { input: 'x' }],
      ['GET', `/memory/message/${message}`],
      ['PUT', `/memory/message/${message}`, { response: 'x' }],
      ['GET', `/memory/message/${message}/traces`],
    ] as const) {
      expect([method, path, ...(await refusal('bob', method, path, body))]).toEqual([method, path, ...closed]);
    }
    expect(((await ok('ann', 'GET', `/memory/message/${message}/traces`)).traces as unknown[]).length).toBe(3);
    const list = async (caller: Caller): Promise<unknown[]> =>
      ((await ok(caller, 'GET', '/memory?max_results=1000')).memories as JsonObject[]).map((each) => each.memory_id);
    expect(await list('ann')).toEqual([memory]);
    expect(await list('bob')).toEqual([]);
    expect(await list('operator')).toContain(memory);
    expect(await ok('ann', 'GET', `/memory/${memory}`)).toMatchObject({ user: 'ann', name: 'Rain?' });
  });

  it('cannot be continued, regenerated or read by another through an agent', async () => {
    const { memory_id, parent_interaction_id } = results(await ask('ann', agentId));
    const seen = llm.requests.length;
    for (const parameters of [
      { memory_id },
      { memory_id, regenerate_interaction_id: parent_interaction_id },
      { memory_id, parent_interaction_id },
    ]) {
      const { status, body } = await ask('bob', agentId, parameters as JsonObject);
      expect([status, body]).toEqual([
        401,
        {
          status: 401,
          error: {
            type: 'OpenSearchStatusException',
            reason: 'System Error',
            details: `User [bob] does not have access to memory ${memory_id}`,
          },
        },
      ]);
    }
    const own = (await ok('bob', 'POST', '/memory', { name: 'own' })).memory_id;
    expect(
      (await ask('bob', agentId, { memory_id: own ?? '', parent_interaction_id: parent_interaction_id ?? '' })).status,
    ).toBe(404);
    expect(llm.requests.length).toBe(seen);
  });
});

describe('an agent of one user, run by another', () => {
  let modelId: string;
  beforeAll(async () => {
    modelId = await model('ann', 'public chat', { access_mode: 'public' });
  });
  beforeEach(() => llm.reset('Without tools, I cannot know.'));

  it('does without the tools of a connector the caller may not see, and says so', async () => {
    const id = await connector('ann', { name: 'secret weather' });
    const agentId = await agent('ann', modelId, { connector_id: id });
    await ok('ann', 'GET', `/connectors/${id}/tools`);
    const before = weather.requests.length;
    const answer = await ask('bob', agentId);
    expect(answer.status).toBe(200);
    const text = `The tools of connector "${id}" (${id}) are missing (forbidden): ${INVISIBLE}.`;
    expect(answer.headers.get('warning')).toContain(text.replaceAll('"', '\\"'));
    expect(answer.headers.get('warning')).not.toContain('secret weather');
    expect(llm.requests[0]?.toolNames).toEqual([]);
    expect(JSON.stringify(llm.requests[0]?.messages)).toContain(`(forbidden)`);
    expect(JSON.stringify(llm.requests[0]?.messages)).not.toContain('secret weather');
    expect(weather.requests.length).toBe(before);
    llm.reset('fine');
    await ask('ann', agentId);
    expect([...(llm.requests[0]?.toolNames ?? [])].sort()).toEqual(['forecast', 'warn_everybody']);
  });

  it('shows of that connector only that it is there', async () => {
    const id = await connector('ann', { name: 'secret weather' });
    const agentId = await agent('ann', modelId, { connector_id: id });
    for (const query of ['', '?probe=true']) {
      const before = weather.requests.length;
      expect((await ok('bob', 'GET', `/agents/${agentId}${query}`)).mcp_connections).toEqual([
        {
          connector_id: id,
          status: 'failed',
          tool_count: 0,
          tools: [],
          error: {
            code: 'forbidden',
            message: INVISIBLE,
            remedy: 'Ask its owner or an administrator to share it with you.',
          },
        },
      ]);
      expect(weather.requests.length).toBe(before);
    }
    expect((await ok('ann', 'GET', `/agents/${agentId}?probe=true`)).mcp_connections).toMatchObject([
      { connector_id: id, name: 'secret weather', status: 'connected', tool_count: 2 },
    ]);
  });

  it('fails when that connector is required, and takes no fallback', async () => {
    const id = await connector('ann');
    const fallback = await connector('ann', { name: 'fallback', access_mode: 'public' });
    const required = await agent('ann', modelId, { connector_id: id, required: 'true' });
    expect(await refusal('bob', 'POST', `/agents/${required}/_execute`, { parameters: { question: 'q' } })).toEqual([
      403,
      `${INVISIBLE}.`,
    ]);
    const spare = await agent('ann', modelId, { connector_id: id, fallback_connector_id: fallback });
    expect((await ask('bob', spare)).headers.get('warning')).toContain('(forbidden)');
    expect(llm.requests.at(-1)?.toolNames).toEqual([]);
  });

  it('calls no fallback connector that the caller may not see', async () => {
    const flaky = await startFakeMcpServer({
      tools: [{ name: 'forecast', inputSchema: { type: 'object', properties: {} } }],
      on: { 'tools/call': { status: 503 } },
    });
    const quick = { max_retry_times: 0, read_timeout: 2 };
    const id = await connector('ann', { url: flaky.origin, access_mode: 'public', client_config: quick });
    const fallback = await connector('ann', { name: 'fallback' });
    const agentId = await agent('ann', modelId, { connector_id: id, fallback_connector_id: fallback });
    const before = weather.of('tools/call').length;
    llm.reset({ tool: 'forecast' }, 'failed');
    expect((await ask('bob', agentId)).status).toBe(200);
    expect(flaky.of('tools/call').length).toBe(1);
    expect(weather.of('tools/call').length).toBe(before);
    await flaky.stop();
  });

  it('needs the permission to use connectors', async () => {
    const id = await connector('ann', { access_mode: 'public' });
    const agentId = await agent('ann', modelId, { connector_id: id });
    const answer = await ask('eve', agentId);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('warning')).toContain(
      `The tools of connector \\"weather\\" (${id}) are missing (forbidden): You need the permission connector:use`,
    );
    const query = { bool: { filter: [{ term: { connector_id: id } }, { term: { action: 'access' } }] } };
    const found = await send('operator', 'POST', '/audit/_search', { query });
    expect(JSON.stringify(found.body)).toContain('"outcome":"refused"');
    expect(JSON.stringify(found.body)).toContain('"principal":"user:eve"');
    expect(llm.requests[0]?.toolNames).toEqual([]);
  });

  it('is not offered a tool that its role is denied, and cannot call it', async () => {
    const id = await connector('ann', { access_mode: 'public' });
    const agentId = await agent('ann', modelId, { connector_id: id });
    const before = weather.of('tools/call').length;
    llm.reset({ tool: 'warn_everybody' }, 'I may not.');
    expect((await ask('bob', agentId)).status).toBe(200);
    expect(llm.requests[0]?.toolNames).toEqual(['forecast']);
    const said = llm.requests[1]?.messages.find(({ role }) => role === 'tool')?.content;
    expect(said).toBe('Error: unknown tool warn_everybody; available: forecast');
    expect(await refusal('bob', 'POST', `/connectors/${id}/tools/warn_everybody/_execute`, {})).toEqual([
      403,
      `You don't have permission to call the tool warn_everybody of connector ${id}.`,
    ]);
    expect(weather.of('tools/call').length).toBe(before);
    expect(await ok('bob', 'POST', `/connectors/${id}/tools/forecast/_execute`, {})).toMatchObject({ isError: false });
    expect(await ok('ann', 'POST', `/connectors/${id}/tools/warn_everybody/_execute`, {})).toMatchObject({
      isError: false,
    });
  });

  it('is refused, as prediction is, when the connector of its model was closed to who registered the model', async () => {
    const shared = { ...chatConnector(llm.url), access_mode: 'public' };
    const { connector_id: id } = await ok('bob', 'POST', '/connectors/_create', shared);
    const registration = { name: 'on the connector of bob', function_name: 'remote', connector_id: id };
    const { model_id: modelId } = await ok('ann', 'POST', '/models/_register?deploy=true', registration);
    const agentId = await agent('ann', String(modelId), { connector_id: await connector('ann') });
    expect((await ask('ann', agentId)).status).toBe(200);
    const asked = llm.requests.length;
    await ok('bob', 'PUT', `/connectors/${id}`, { access_mode: 'private' });
    for (const [path, parameters] of [
      [`/models/${modelId}/_deploy`, undefined],
      [`/models/${modelId}/_predict`, { prompt: 'q' }],
      [`/agents/${agentId}/_execute`, { question: 'q' }],
    ] as const) {
      expect(await refusal('ann', 'POST', path, parameters && { parameters })).toEqual([403, INVISIBLE]);
    }
    expect(llm.requests).toHaveLength(asked);
  });

  it('when deleted by another leaves the sessions of connectors open that are not for the other to see', async () => {
    const id = await connector('ann');
    await ok('ann', 'GET', `/connectors/${id}/tools`);
    const hers = await agent('ann', await model('ann', 'kept session'), { connector_id: id });
    const status = async () => (await ok('ann', 'GET', `/connectors/${id}/_status`)).status;
    expect(await status()).toBe('connected');
    await ok('bob', 'DELETE', `/agents/${hers}`);
    expect(await status()).toBe('connected');
  });

  it('is refused when its model is not shared with the caller', async () => {
    const id = await connector('ann', { access_mode: 'public' });
    const agentId = await agent('ann', await model('ann', 'private chat'), { connector_id: id });
    const memories = async () => ((await ok('bob', 'GET', '/memory?max_results=1000')).memories as unknown[]).length;
    const before = await memories();
    expect(await refusal('bob', 'POST', `/agents/${agentId}/_execute`, { parameters: { question: 'q' } })).toEqual([
      403,
      FORBIDDEN_MODEL,
    ]);
    expect(llm.requests).toEqual([]);
    expect(await memories()).toBe(before);
    expect((await ask('ann', agentId)).status).toBe(200);
  });
});
