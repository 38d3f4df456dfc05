import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { startApp, type TestApp } from '../support/build-app.ts';
import { type FakeLlmServer, startFakeLlm } from '../support/fake-llm-server.ts';
import { type FakeMcpScript, type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { createRest, ID, type Rest, registerChatModel } from '../support/rest.ts';

let app: TestApp;
let rest: Rest;
let llm: FakeLlmServer;
let modelId: string;
const peers: FakeMcpServer[] = [];

beforeAll(async () => {
  app = await startApp();
  rest = createRest(app.url);
  llm = await startFakeLlm({ strict: true });
  modelId = await registerChatModel(rest, llm.url);
});
afterEach(async () => {
  for (const peer of peers.splice(0)) await peer.stop();
});
afterAll(async () => {
  await app?.close();
  await llm?.close();
});

async function startPeer(script: FakeMcpScript = {}): Promise<FakeMcpServer> {
  const peer = await startFakeMcpServer(script);
  peers.push(peer);
  return peer;
}

async function createConnector(body: JsonObject): Promise<string> {
  const created = await rest.ok('POST', '/connectors/_create', body);
  expect(created).toEqual({ connector_id: expect.stringMatching(ID) });
  return String(created.connector_id);
}

async function registerAgent(connectorId: string, name = 'external_mcp_agent'): Promise<string> {
  const registered = await rest.ok('POST', '/agents/_register', {
    name,
    type: 'conversational',
    description: 'Agent using external MCP tools',
    llm: { model_id: modelId },
    tools: [{ type: 'MCPTool', parameters: { connector_id: connectorId } }],
  });
  expect(registered).toEqual({ agent_id: expect.stringMatching(ID) });
  return String(registered.agent_id);
}

/** What the agent's GET says about its only connector. */
async function connection(agentId: string, query = ''): Promise<JsonObject> {
  const { mcp_connections: connections } = await rest.ok('GET', `/agents/${agentId}${query}`);
  expect(connections).toHaveLength(1);
  return (connections as JsonObject[])[0] ?? {};
}

describe('creating an MCP connector as documented', () => {
  it('takes every field and gives all but the credential back', async () => {
    const before = Date.now();
    const id = await createConnector({
      name: 'My MCP Connector',
      description: 'Reaches an external MCP server over Streamable HTTP',
      version: 1,
      protocol: 'mcp_streamable_http',
      url: 'https://my-mcp-server.example.com',
      credential: { mcp_server_key: 'a-key-of-the-server' },
      parameters: { endpoint: '/mcp' },
      headers: { Authorization: 'Bearer ${credential.mcp_server_key}' },
    });
    const shown = await rest.ok('GET', `/connectors/${id}`);
    expect(shown).toEqual({
      name: 'My MCP Connector',
      description: 'Reaches an external MCP server over Streamable HTTP',
      version: '1',
      protocol: 'mcp_streamable_http',
      url: 'https://my-mcp-server.example.com',
      parameters: { endpoint: '/mcp' },
      headers: { Authorization: 'Bearer ${credential.mcp_server_key}' },
      created_time: expect.any(Number),
      last_updated_time: expect.any(Number),
    });
    expect(shown.created_time).toBeGreaterThanOrEqual(before);
  });

  it('needs no more than the required fields, and then asks at /mcp', async () => {
    const peer = await startPeer({ path: '/mcp' });
    const id = await createConnector({ name: 'short', version: 1, protocol: 'mcp_streamable_http', url: peer.origin });
    const { tools } = await rest.ok('GET', `/connectors/${id}/tools`);
    expect(tools).toEqual([
      {
        name: 'echo',
        type: 'McpStreamableHttpTool',
        description: 'Says it back.',
        input_schema: expect.stringContaining('"type":"object"'),
      },
    ]);
    expect(new Set(peer.of('tools/list').map(({ path }) => path))).toEqual(new Set(['/mcp']));
  });

  it.each([
    ['name', 'Connector name is null'],
    ['version', 'Connector version is null'],
    ['protocol', 'Connector protocol is null'],
    ['url', 'MCP Connector url is null or blank'],
  ])('refuses a connector without %s', async (field, reason) => {
    const { [field]: _left, ...body } = {
      name: 'x',
      version: 1,
      protocol: 'mcp_streamable_http',
      url: 'https://my-mcp-server.example.com',
    } as JsonObject;
    const answer = await rest.send('POST', '/connectors/_create', body);
    expect(answer.status).toBe(400);
    const cause = { type: 'illegal_argument_exception', reason: expect.stringContaining(reason) };
    expect(answer.body).toEqual({ error: { root_cause: [cause], ...cause }, status: 400 });
  });
});

describe('the documented ways to authenticate', () => {
  it.each([
    [
      'a bearer token',
      { mcp_server_key: 'a-bearer-token' },
      { Authorization: 'Bearer ${credential.mcp_server_key}' },
      { authorization: 'Bearer a-bearer-token' },
    ],
    ['an API key', { api_key: 'an-api-key' }, { 'X-API-Key': '${credential.api_key}' }, { 'x-api-key': 'an-api-key' }],
    [
      'basic credentials',
      { username: 'a-user', password: 'a-pass:word' },
      { Authorization: 'Basic ${credential.username}:${credential.password}' },
      { authorization: `Basic ${Buffer.from('a-user:a-pass:word').toString('base64')}` },
    ],
  ])('sends %s with every request', async (_name, credential, headers, arriving) => {
    const peer = await startPeer();
    const id = await createConnector({
      name: 'authenticated',
      version: 1,
      protocol: 'mcp_streamable_http',
      url: peer.origin,
      credential: credential as unknown as JsonObject,
      headers: headers as unknown as JsonObject,
    });
    await rest.ok('POST', `/connectors/${id}/tools/echo/_execute`, { arguments: { text: 'hello' } });
    expect(peer.of('tools/call')).toHaveLength(1);
    for (const request of peer.requests) expect(request.headers).toMatchObject(arriving);
    expect(JSON.stringify(await rest.ok('GET', `/connectors/${id}`))).not.toContain(Object.values(credential)[0]);
  });
});

describe('the documented agent', () => {
  it('is registered by model and connector alone, and shows the connection in its GET', async () => {
    const peer = await startPeer();
    const connectorId = await createConnector({
      name: 'My MCP Connector',
      version: 1,
      protocol: 'mcp_streamable_http',
      url: peer.origin,
    });
    const agentId = await registerAgent(connectorId);
    expect(peer.requests).toEqual([]);
    const { mcp_connections: connections, ...agent } = await rest.ok('GET', `/agents/${agentId}`);
    expect(agent).toMatchObject({
      name: 'external_mcp_agent',
      type: 'conversational',
      description: 'Agent using external MCP tools',
      llm: { model_id: modelId },
      tools: [{ type: 'MCPTool', parameters: { connector_id: connectorId } }],
    });
    expect(connections).toEqual([
      {
        connector_id: connectorId,
        name: 'My MCP Connector',
        status: 'idle',
        since: expect.any(Number),
        tool_count: 0,
        tools: [],
      },
    ]);
    expect(await connection(agentId, '?probe=true')).toEqual({
      connector_id: connectorId,
      name: 'My MCP Connector',
      status: 'connected',
      since: expect.any(Number),
      tool_count: 1,
      tools: ['echo'],
      protocol_version: '2025-11-25',
      last_success_time: expect.any(Number),
    });
  });

  it('asks the weather service with its key, logs it, and closes the connection with the last agent', async () => {
    const peer = await startPeer({
      tools: [
        {
          name: 'get_current_weather',
          description: 'Current weather of a place.',
          inputSchema: { type: 'object', properties: { location: { type: 'string' } }, required: ['location'] },
        },
      ],
      on: { 'tools/call': { result: { content: [{ type: 'text', text: 'partly cloudy, 68°F' }] } } },
    });
    const connectorId = await createConnector({
      name: 'Weather MCP Connector',
      description: 'Reaches the weather service',
      version: 1,
      protocol: 'mcp_streamable_http',
      url: peer.origin,
      credential: { api_key: 'weather-key-456' },
      parameters: { endpoint: '/mcp' },
      headers: { 'X-Weather-API-Key': '${credential.api_key}' },
    });
    const agentId = await registerAgent(connectorId, 'weather_assistant');
    llm.reset(
      { tool: 'get_current_weather', args: '{"location":"Seattle"}' },
      'The current weather in Seattle is partly cloudy with a temperature of 68°F.',
    );
    const reply = await rest.ok('POST', `/agents/${agentId}/_execute`, {
      parameters: { question: "What's the weather like in Seattle today?" },
    });
    expect(reply).toEqual({
      inference_results: [
        {
          output: [
            { name: 'memory_id', result: expect.stringMatching(ID) },
            { name: 'parent_interaction_id', result: expect.stringMatching(ID) },
            {
              name: 'response',
              dataAsMap: {
                response: 'The current weather in Seattle is partly cloudy with a temperature of 68°F.',
                additional_info: {},
              },
            },
          ],
        },
      ],
    });
    const [call] = peer.of('tools/call');
    expect(call?.message?.params).toMatchObject({ name: 'get_current_weather', arguments: { location: 'Seattle' } });
    for (const request of peer.requests) expect(request.headers['x-weather-api-key']).toBe('weather-key-456');
    expect(llm.requests[0]?.toolNames).toEqual(['get_current_weather']);
    expect(llm.requests[1]?.text).toContain('partly cloudy, 68°F');
    expect(await connection(agentId)).toMatchObject({ status: 'connected', tool_count: 1 });

    const lines = app.lines.filter((line) => line.includes('MCP') && line.includes(connectorId));
    expect(lines.some((line) => line.includes('get_current_weather') && line.includes(agentId))).toBe(true);
    expect(app.lines.join('')).not.toContain('weather-key-456');

    await rest.ok('DELETE', `/agents/${agentId}`);
    await peer.seen('DELETE');
    expect(peer.of('DELETE')[0]?.headers['mcp-session-id']).toBe('s-1');
  });
});

describe('the documented problems name their cause in the status of the agent', () => {
  async function agentOf(url: string, more: JsonObject = {}): Promise<string> {
    const connector = { name: 'troubled', version: 1, protocol: 'mcp_streamable_http', url, ...more };
    const quick = { max_retry_times: 0, connection_timeout: 1 };
    return registerAgent(await createConnector({ client_config: quick, ...connector }));
  }

  it('connection refused: the server is not running', async () => {
    const peer = await startPeer();
    await peer.stop();
    const agentId = await agentOf(peer.origin);
    expect(await connection(agentId, '?probe=true')).toMatchObject({
      status: 'failed',
      error: { code: 'connection_refused', message: expect.stringContaining('troubled'), remedy: expect.any(String) },
    });
    await peer.start();
    expect(await connection(agentId, '?probe=true')).toMatchObject({ status: 'connected' });
    expect(await connection(agentId)).not.toHaveProperty('error');
  });

  it('authentication failed: the credential is wrong', async () => {
    const peer = await startPeer({ on: { '*': { status: 401, body: { error: 'bad key' } } } });
    const agentId = await agentOf(peer.origin, {
      credential: { api_key: 'wrong-key-789' },
      headers: { 'X-API-Key': '${credential.api_key}' },
    });
    const shown = await connection(agentId, '?probe=true');
    expect(shown).toMatchObject({
      status: 'auth_required',
      error: { code: 'auth_required', message: expect.stringContaining('401'), remedy: expect.any(String) },
    });
    expect(JSON.stringify(shown)).not.toContain('wrong-key-789');
  });

  it('tool not found: the server has no tool of that name', async () => {
    const peer = await startPeer();
    const connectorId = await createConnector({
      name: 'short',
      version: 1,
      protocol: 'mcp_streamable_http',
      url: peer.origin,
    });
    const missing = await rest.send('POST', `/connectors/${connectorId}/tools/get_forecast/_execute`, {
      arguments: {},
    });
    expect(missing.status).toBe(404);
    expect(JSON.stringify(missing.body)).toContain('get_forecast');
    expect(peer.of('tools/call')).toEqual([]);

    const registered = await rest.ok('POST', '/agents/_register', {
      name: 'filtered',
      type: 'conversational',
      llm: { model_id: modelId },
      parameters: { mcp_connectors: [{ mcp_connector_id: connectorId, tool_filters: ['get_forecast'] }] },
    });
    const shown = await connection(String(registered.agent_id), '?probe=true');
    expect(shown).toMatchObject({ status: 'connected', warnings: [expect.stringContaining('get_forecast')] });
  });

  it('timeout: the server is slow to respond', async () => {
    const peer = await startPeer({ on: { '*': { hold: 'never' } } });
    expect(await connection(await agentOf(peer.origin), '?probe=true')).toMatchObject({
      status: 'failed',
      error: { code: 'response_timeout', remedy: expect.stringContaining('timeout') },
    });
  });

  it('405: the server does not support Streamable HTTP', async () => {
    const peer = await startPeer({ on: { '*': { status: 405, headers: { allow: 'GET' } } } });
    expect(await connection(await agentOf(peer.origin), '?probe=true')).toMatchObject({
      status: 'failed',
      error: {
        code: 'method_not_allowed',
        message: expect.stringContaining('405'),
        remedy: expect.stringContaining('Streamable HTTP'),
      },
    });
  });
});
