import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startWeatherServer, type WeatherServer } from '../../demo/weather-server.ts';
import type { JsonObject } from '../../src/json.ts';
import { startApp, type TestApp } from '../support/build-app.ts';
import { type FakeLlmServer, startFakeLlm } from '../support/fake-llm-server.ts';
import { createRest, type Rest, registerChatModel } from '../support/rest.ts';

const KEY = 'a-weather-key-321';

let app: TestApp;
let rest: Rest;
let llm: FakeLlmServer;
let weather: WeatherServer;
let connectorId: string;
let agentId: string;

beforeAll(async () => {
  [app, llm, weather] = await Promise.all([
    startApp(),
    startFakeLlm({ strict: true }),
    startWeatherServer({ apiKey: KEY }),
  ]);
  rest = createRest(app.url);
  const connector = await rest.ok('POST', '/connectors/_create', {
    name: 'weather',
    version: 1,
    protocol: 'mcp_streamable_http',
    url: weather.url,
    credential: { api_key: KEY },
    headers: { 'X-Weather-API-Key': '${credential.api_key}' },
  });
  connectorId = String(connector.connector_id);
  const agent = await rest.ok('POST', '/agents/_register', {
    name: 'weather_assistant',
    type: 'conversational',
    llm: { model_id: await registerChatModel(rest, llm.url) },
    tools: [{ type: 'MCPTool', parameters: { connector_id: connectorId } }],
  });
  agentId = String(agent.agent_id);
});
afterAll(async () => {
  await Promise.all([app?.close(), llm?.close(), weather?.close()]);
});

interface Turn {
  readonly memoryId: string;
  readonly answer: string;
  readonly warning: string | null;
}

async function ask(question: string, memoryId?: string): Promise<Turn> {
  const parameters = { question, ...(memoryId && { memory_id: memoryId }) };
  const { status, headers, body } = await rest.send('POST', `/agents/${agentId}/_execute`, { parameters });
  expect(status).toBe(200);
  const [first] = body.inference_results as unknown as { output: { result?: string; dataAsMap?: JsonObject }[] }[];
  const output = first?.output ?? [];
  return {
    memoryId: String(output[0]?.result),
    answer: String(output[2]?.dataAsMap?.response),
    warning: headers.get('warning'),
  };
}

async function connection(query = ''): Promise<JsonObject> {
  const { mcp_connections: connections } = await rest.ok('GET', `/agents/${agentId}${query}`);
  return (connections as JsonObject[])[0] ?? {};
}

/** A weather call, then whatever the tool said as the answer. */
function scriptTurn(location: string): void {
  llm.reset({ tool: 'get_current_weather', args: JSON.stringify({ location }) }, ({ messages }) =>
    String(messages.findLast(({ role }) => role === 'tool')?.content),
  );
}

describe('a conversation about the weather', () => {
  it('answers with what the weather server says, over the new era of the protocol', async () => {
    scriptTurn('Seattle');
    const { answer, warning } = await ask("What's the weather like in Seattle today?");
    expect(answer).toContain('Seattle: partly cloudy, 68°F (20°C)');
    expect(warning).toBeNull();
    expect(await connection()).toMatchObject({
      status: 'connected',
      protocol_version: '2026-07-28',
      tools: ['get_current_weather'],
    });
  });

  it('goes on with the conversation it is given', async () => {
    scriptTurn('Seattle');
    const first = await ask('Is it warm in Seattle?');
    scriptTurn('Reykjavik');
    const second = await ask('And in Reykjavik?', first.memoryId);
    expect(second.memoryId).toBe(first.memoryId);
    expect(second.answer).toContain('Reykjavik: rain, 50°F (10°C)');
    expect(llm.requests[0]?.messages.map(({ role }) => role).filter((role) => role !== 'system')).toEqual([
      'user',
      'assistant',
      'user',
    ]);
    expect(llm.requests[0]?.text).toContain('Is it warm in Seattle?');
  });

  it('lets the model see arguments that do not fit, and goes on', async () => {
    llm.reset({ tool: 'get_current_weather', args: '{"place":"Seattle"}' }, ({ messages }) =>
      String(messages.findLast(({ role }) => role === 'tool')?.content),
    );
    expect((await ask('Weather?')).answer).toContain('location');
  });

  it('works without the tools of a server that is gone, says so, and recovers', async () => {
    await weather.close();
    llm.reset('I cannot look up the weather right now.');
    expect(await connection('?probe=true')).toMatchObject({ status: 'failed', error: { code: 'connection_refused' } });
    const { answer, warning } = await ask("What's the weather like in Seattle today?");
    expect(answer).toBe('I cannot look up the weather right now.');
    expect(warning).toMatch(/^299 .*weather.*connection_refused/);

    weather = await startWeatherServer({ apiKey: KEY, port: Number(new URL(weather.url).port) });
    expect(await connection('?probe=true')).toMatchObject({ status: 'connected' });
    scriptTurn('Seattle');
    expect((await ask('And now?')).answer).toContain('Seattle: partly cloudy');
  });

  it('tells a wrong key from a server that is gone, and takes the right one', async () => {
    await rest.ok('PUT', `/connectors/${connectorId}`, { credential: { api_key: 'not-the-key' } });
    expect(await connection('?probe=true')).toMatchObject({
      status: 'auth_required',
      error: { code: 'auth_required' },
    });
    await rest.ok('PUT', `/connectors/${connectorId}`, { credential: { api_key: KEY } });
    expect(await connection('?probe=true')).toMatchObject({ status: 'connected' });
    const said = `${app.lines.join('')}${JSON.stringify(await rest.ok('GET', `/connectors/${connectorId}/_status`))}`;
    expect(said).not.toContain(KEY);
    expect(said).not.toContain('not-the-key');
  });
});
