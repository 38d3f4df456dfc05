import { afterAll, beforeAll, expect, it } from 'vitest';
import { RegisterAgentRequest } from '../../src/schemas/agents.ts';
import { CreateConnectorRequest } from '../../src/schemas/connectors.ts';
import { CreateMessageRequest } from '../../src/schemas/memory.ts';
import { ModelGroupRequest } from '../../src/schemas/model-groups.ts';
import { RegisterModelRequest } from '../../src/schemas/models.ts';
import { startApp, type TestApp } from '../support/build-app.ts';

const ML = '/_plugins/_ml';
/** What cannot become a text: `String` of it throws. */
const TEXTLESS = { toString: 1, valueOf: 1 };

let app: TestApp;
beforeAll(async () => {
  app = await startApp();
});
afterAll(() => app.close());

const BODIES: readonly (readonly [path: string, schema: { properties: object }, sound: Record<string, unknown>])[] = [
  [
    '/connectors/_create',
    CreateConnectorRequest,
    {
      name: 'x',
      version: 1,
      protocol: 'mcp_streamable_http',
      url: 'http://127.0.0.1:9',
      credential: { k: 'CANARY-1' },
    },
  ],
  [
    '/connectors/_create',
    CreateConnectorRequest,
    {
      name: 'x',
      version: 1,
      protocol: 'http',
      credential: { k: 'CANARY-1' },
      actions: [{ action_type: 'predict', method: 'POST', url: 'http://127.0.0.1:9', request_body: '{}' }],
    },
  ],
  ['/models/_register', RegisterModelRequest, { name: 'x', function_name: 'remote', connector_id: 'none' }],
  ['/model_groups/_register', ModelGroupRequest, { name: 'group' }],
  ['/agents/_register', RegisterAgentRequest, { name: 'x', type: 'flow', tools: [{ type: 'MCPTool' }] }],
  [
    '/agents/_register',
    RegisterAgentRequest,
    { name: 'x', type: 'conversational_v2', llm: { model_id: 'm' }, memory: {} },
  ],
  ['/memory', { properties: { name: '' } }, {}],
];
const INNER = {
  auth: ['type', 'grant_type', 'client_id', 'client_secret', 'scope', 'per_user', 'allow'],
  client_config: ['read_timeout', 'max_retry_times', 'retry_backoff_policy', 'protocol_version'],
  actions: ['action_type', 'method', 'url', 'headers', 'request_body', 'name', 'pre_process_function'],
  llm: ['model_id', 'parameters'],
  memory: ['type', 'window_size'],
  parameters: ['_llm_interface', 'mcp_connectors', 'max_iteration', 'endpoint'],
  tools: ['type', 'name', 'parameters', 'description'],
  model: ['model_id', 'model_provider'],
} as const;

function variants(sound: Record<string, unknown>, member: string): Record<string, unknown>[] {
  const inner = (INNER as Record<string, readonly string[]>)[member] ?? [];
  const given = Array.isArray(sound[member]) ? sound[member][0] : sound[member];
  const own = typeof given === 'object' ? given : member === 'auth' ? { type: 'oauth2' } : {};
  const nested = inner
    .map((name) => ({ ...own, [name]: TEXTLESS }))
    .concat(inner.map((name) => ({ ...own, [name]: [TEXTLESS] })));
  const wrap = (value: unknown): unknown => (member === 'actions' || member === 'tools' ? [value] : value);
  return [TEXTLESS, [TEXTLESS], ...nested.map(wrap)].map((value) => ({ ...sound, [member]: value }));
}

it.each(BODIES)('POST %s takes no value for a text that is none', async (path, schema, sound) => {
  const failed: string[] = [];
  for (const member of Object.keys(schema.properties)) {
    for (const body of variants(sound, member)) {
      const { status, text } = await app.request('POST', ML + path, body);
      if (status === 500) failed.push(`${JSON.stringify(body[member])} as ${member}: ${text}`);
    }
  }
  expect(failed).toEqual([]);
});

it('PUT /_cluster/settings and messages take none either', async () => {
  const { memory_id: id } = (await app.request('POST', `${ML}/memory`)).body;
  const messages = Object.keys(CreateMessageRequest.properties).map((name) => ({ input: 'x', [name]: TEXTLESS }));
  for (const body of messages) {
    expect((await app.request('POST', `${ML}/memory/${id}/messages`, body)).status).not.toBe(500);
  }
  for (const value of [TEXTLESS, [TEXTLESS]]) {
    for (const name of [
      'plugins.ml_commons.trusted_connector_endpoints_regex',
      'plugins.ml_commons.mcp_connector_enabled',
    ]) {
      const { status } = await app.request('PUT', '/_cluster/settings', { persistent: { [name]: value } });
      expect(status).not.toBe(500);
    }
  }
});

it('agents take none inside their parameters, nor when they are run', async () => {
  const tool = { type: 'MCPTool', parameters: { connector_id: 'c' } };
  const agent = { name: 'x', type: 'conversational', llm: { model_id: 'm' }, tools: [tool] };
  const inner = ['connector_id', 'fallback_connector_id', 'tool_filters', 'tool_descriptions', 'required'];
  const tools = inner.map((name) => ({ ...tool, parameters: { ...tool.parameters, [name]: TEXTLESS } }));
  const bodies = [
    ...tools.map((changed) => ({ ...agent, tools: [changed] })),
    ...inner.map((name) => ({
      ...agent,
      parameters: { mcp_connectors: [{ mcp_connector_id: 'c', [name]: TEXTLESS }] },
    })),
    { ...agent, llm: { model_id: 'm', parameters: { _llm_interface: TEXTLESS } } },
    { ...agent, parameters: { _llm_interface: [TEXTLESS] } },
    { ...agent, tools: [{ ...tool, name: TEXTLESS }] },
    { ...agent, tools: [{ type: 'ListIndexTool', name: TEXTLESS }] },
  ];
  const answers = await Promise.all(bodies.map((body) => app.request('POST', `${ML}/agents/_register`, body)));
  expect(answers.filter(({ status }) => status === 500).map(({ text }) => text)).toEqual([]);
  const ids = answers.flatMap(({ body }) => (typeof body['agent_id'] === 'string' ? [body['agent_id']] : []));
  expect(ids.length).toBeGreaterThan(0);
  for (const id of ids) {
    for (const name of [
      'question',
      'memory_id',
      'mcp_connectors',
      'message_history_limit',
      'verbose',
      'selected_tools',
    ]) {
      const run = { parameters: { question: 'x', [name]: TEXTLESS } };
      const { status, text } = await app.request('POST', `${ML}/agents/${id}/_execute`, run);
      expect(text).not.toContain('Internal error');
      expect(status).not.toBe(200);
    }
  }
});

it('names the member of auth that is no text', async () => {
  const connector = { ...BODIES[0]?.[2], auth: { type: 'oauth2', grant_type: TEXTLESS } };
  const { status, text } = await app.request('POST', `${ML}/connectors/_create`, connector);
  expect(status).toBe(400);
  expect(text).toContain('auth.grant_type must be one of [authorization_code, client_credentials].');
  const allow = { ...BODIES[0]?.[2], auth: { type: 'oauth2', allow: [TEXTLESS] } };
  expect((await app.request('POST', `${ML}/connectors/_create`, allow)).text).toContain('auth.allow must be a list');
});
