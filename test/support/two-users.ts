import type { JsonObject } from '../../src/json.ts';
import { startApp, type TestAnswer, type TestApp } from './build-app.ts';
import { type FakeLlmServer, startFakeLlm } from './fake-llm-server.ts';
import { type FakeMcpServer, startFakeMcpServer } from './fake-mcp-server.ts';
import { chatConnector } from './rest.ts';

const STATIC_KEY = 'the-static-key-of-the-operator';
const ML = '/_plugins/_ml';
const PASSWORDS = { ann: 'Sunny-4-afternoons', bob: 'Rainy-5-evenings', eve: 'Foggy-6-mornings' };
export type Caller = keyof typeof PASSWORDS | 'operator';

export const INVISIBLE = "You don't have permission to access this connector";
export const FORBIDDEN_MODEL = "User doesn't have privilege to perform this operation on this model";

/** Ann and Bob share a backend role, Bob may not warn anybody, Eve may not use connectors; each calls as itself. */
export interface TwoUsers {
  readonly app: TestApp;
  readonly llm: FakeLlmServer;
  readonly weather: FakeMcpServer;
  send(caller: Caller, method: string, path: string, body?: unknown): Promise<TestAnswer>;
  /** The body of a 200. */
  ok(caller: Caller, method: string, path: string, body?: unknown): Promise<JsonObject>;
  /** Status and text of a refusal. */
  refusal(caller: Caller, method: string, path: string, body?: unknown): Promise<[number, unknown]>;
  connector(caller: Caller, members?: JsonObject): Promise<string>;
  model(caller: Caller, name: string, members?: JsonObject): Promise<string>;
  agent(caller: Caller, modelId: string, parameters: JsonObject): Promise<string>;
  ask(caller: Caller, agentId: string, parameters?: JsonObject): Promise<TestAnswer>;
  close(): Promise<void>;
}

/** Starts a server with these users, a model provider and a weather server. */
export async function startTwoUsers(): Promise<TwoUsers> {
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

  const llm = await startFakeLlm({ strict: true, replies: ['an answer'] });
  const weather = await startFakeMcpServer({
    tools: [
      { name: 'forecast', inputSchema: { type: 'object', properties: {} }, annotations: { readOnlyHint: true } },
      { name: 'warn_everybody', inputSchema: { type: 'object', properties: {} } },
    ],
  });
  const app = await startApp({
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

  return {
    app,
    llm,
    weather,
    send,
    ok,
    refusal,
    connector,
    model,
    agent,
    ask,
    async close() {
      await app.close();
      await Promise.all([llm.close(), weather.stop()]);
    },
  };
}

/** The named outputs of an execution. */
export function results(answer: TestAnswer): Record<string, string> {
  const [first] = (answer.body.inference_results ?? []) as { output: { name: string; result: string }[] }[];
  return Object.fromEntries((first?.output ?? []).map(({ name, result }) => [name, result]));
}
