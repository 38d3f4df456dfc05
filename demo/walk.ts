import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Client, Json } from './client.ts';
import type { Model } from './model.ts';
import type { Screen } from './screen.ts';

const QUESTION = "What's the weather like in Seattle today?";

export interface Stage {
  readonly screen: Screen;
  readonly client: Client;
  readonly model: Model;
  readonly weather: { readonly url: string; close(): Promise<void> };
  readonly weatherKey: string;
  readonly everythingUrl: string;
  readonly dataDir: string;
  /** What the server has logged so far. */
  log(): string;
}

const ML = '/_plugins/_ml';
/** The answer without the members that repeat what was registered. */
const ONLY_CONNECTIONS = '?filter_path=mcp_connections';

/** The walk: every step is one request to the REST API. @throws Error when a step does not give what it should */
export async function walk(stage: Stage): Promise<void> {
  const { screen, client } = stage;
  const weather = await createWeatherConnector(stage);
  const everything = await createEverythingConnector(stage);
  const agent = await registerAgent(stage, await registerModel(stage), [weather, everything]);
  await ask(stage, agent);

  screen.step(
    'Are its tools reachable?',
    'GET of the agent shows each MCP connection: status, since when, which tools.',
  );
  const { mcp_connections: connections } = await client.call('GET', `${ML}/agents/${agent}${ONLY_CONNECTIONS}`);
  for (const [name, status] of statuses(connections)) expect(status === 'connected', `${name} is ${status}`);

  screen.step('List the tools of a connector', 'They were discovered when the agent first used the server.');
  const { tools } = await client.call('GET', `${ML}/connectors/${everything}/tools?filter_path=tools.name,tools.type`);
  expect(Array.isArray(tools) && tools.length > 0, 'the everything server offers no tool');

  await lookForTheKey(stage, weather);
  showLog(stage);
  await loseTheServer(stage, agent);
}

async function createWeatherConnector({ screen, client, weather, weatherKey }: Stage): Promise<string> {
  screen.step(
    'Create a connector to the weather server',
    'Its address and its API key. The key is stored encrypted and only ever sent to this address, in this header.',
  );
  const created = await client.call('POST', `${ML}/connectors/_create`, {
    name: 'weather',
    description: 'Connects to the weather service',
    version: 1,
    protocol: 'mcp_streamable_http',
    url: weather.url,
    credential: { api_key: weatherKey },
    parameters: { endpoint: '/mcp' },
    headers: { 'X-Weather-API-Key': '${credential.api_key}' },
  });
  return text(created.connector_id, 'connector_id');
}

async function createEverythingConnector({ screen, client, everythingUrl }: Stage): Promise<string> {
  screen.step('Create a second connector', 'The everything server of the MCP project; it needs no credential.');
  const created = await client.call('POST', `${ML}/connectors/_create`, {
    name: 'everything',
    version: 1,
    protocol: 'mcp_streamable_http',
    url: everythingUrl,
  });
  return text(created.connector_id, 'connector_id');
}

async function registerModel({ screen, client, model }: Stage): Promise<string> {
  screen.step('Create a connector to the language model', `The model is ${model.note}.`);
  const connector = await client.call('POST', `${ML}/connectors/_create`, {
    name: 'chat model',
    version: 1,
    protocol: 'http',
    parameters: { model: model.modelName },
    credential: { openai_key: model.apiKey },
    actions: [
      {
        action_type: 'predict',
        method: 'POST',
        url: model.chatUrl,
        headers: { Authorization: 'Bearer ${credential.openai_key}' },
        request_body: '{"model":"${parameters.model}","messages":[{"role":"user","content":"${parameters.prompt}"}]}',
      },
    ],
  });
  screen.step('Register the model', 'A model is a connector with a name and a state.');
  const registered = await client.call('POST', `${ML}/models/_register?deploy=true`, {
    name: 'chat model',
    function_name: 'remote',
    connector_id: text(connector.connector_id, 'connector_id'),
  });
  return text(registered.model_id, 'model_id');
}

async function registerAgent({ screen, client }: Stage, modelId: string, connectors: string[]): Promise<string> {
  screen.step('Register an agent', 'It names the model and the two connectors. No connection is opened yet.');
  const registered = await client.call('POST', `${ML}/agents/_register`, {
    name: 'weather_assistant',
    type: 'conversational',
    description: 'Assistant with access to weather data',
    llm: { model_id: modelId },
    tools: connectors.map((id) => ({ type: 'MCPTool', parameters: { connector_id: id } })),
  });
  return text(registered.agent_id, 'agent_id');
}

async function ask({ screen, client }: Stage, agent: string): Promise<void> {
  screen.step('Ask it', QUESTION);
  const reply = await client.call('POST', `${ML}/agents/${agent}/_execute`, { parameters: { question: QUESTION } });
  const [{ output = [] } = {}] = reply.inference_results as { output?: Output[] }[];
  const answer = output.find(({ name }) => name === 'response')?.dataAsMap?.response;
  const message = output.find(({ name }) => name === 'parent_interaction_id')?.result;

  screen.step('See the tool call', 'Each step of the run is a trace of the message it answered.');
  const { traces } = await client.call('GET', `${ML}/memory/message/${text(message, 'message')}/traces`);
  const origins = (traces as Json[]).map(({ origin }) => String(origin));
  const tool = origins.find((origin) => origin.endsWith('get_current_weather'));
  expect(tool !== undefined, `the weather tool was not called; steps: ${origins.join(', ')}`);
  screen.say('');
  screen.say(`User:  ${QUESTION}`);
  screen.say(`       [agent called ${tool} over MCP]`);
  screen.say(`Agent: ${text(answer, 'answer')}`);
}

interface Output {
  readonly name: string;
  readonly result?: string;
  readonly dataAsMap?: { readonly response?: string };
}

async function lookForTheKey({ screen, client, weatherKey, dataDir }: Stage, connector: string): Promise<void> {
  screen.step('Look for the API key', 'No answer of the API shows it, and no file in the data directory holds it.');
  const shown = JSON.stringify(await client.call('GET', `${ML}/connectors/${connector}`));
  expect(!shown.includes(weatherKey), 'the API shows the key');
  const files = await readdir(dataDir);
  for (const name of files) {
    expect(!(await readFile(join(dataDir, name))).includes(weatherKey), `${name} holds the key`);
  }
  screen.say(`Searched ${files.join(', ')}: the key is in none of them.`);
}

function showLog({ screen, log, weatherKey }: Stage): void {
  screen.step('Read the log', 'Every connect, tool call and close is one line with MCP in it.');
  screen.command("grep MCP    # in the server's output");
  const lines = log().split('\n');
  expect(!log().includes(weatherKey), 'the log holds the key');
  const about = lines.filter((line) => line.includes('MCP'));
  expect(about.length > 0, 'no line of the log says MCP');
  for (const line of about.slice(0, 6)) screen.say(line);
}

async function loseTheServer({ screen, client, weather }: Stage, agent: string): Promise<void> {
  screen.step('Stop the weather server and ask again', '?probe=true asks the servers now, as a monitor would.');
  await weather.close();
  const { mcp_connections: connections } = await client.call(
    'GET',
    `${ML}/agents/${agent}${ONLY_CONNECTIONS}&probe=true`,
  );
  const now = Object.fromEntries(statuses(connections));
  expect(now.weather === 'failed', `the weather server is gone and its status is ${now.weather}`);
  expect(now.everything === 'connected', `the everything server is up and its status is ${now.everything}`);
}

function statuses(connections: unknown): [string, string][] {
  expect(Array.isArray(connections) && connections.length === 2, 'mcp_connections does not show two connectors');
  return (connections as Json[]).map(({ name, status }) => [String(name), String(status)]);
}

function text(value: unknown, what: string): string {
  expect(typeof value === 'string' && value !== '', `the answer has no ${what}`);
  return value as string;
}

function expect(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Error(otherwise);
}
