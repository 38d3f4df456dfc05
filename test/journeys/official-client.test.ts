import { Client } from '@opensearch-project/opensearch';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Running, startEverything } from '../../demo/processes.ts';
import type { JsonObject } from '../../src/json.ts';
import { startApp, type TestApp } from '../support/build-app.ts';
import { type FakeLlmServer, startFakeLlm } from '../support/fake-llm-server.ts';
import { chatConnector, ID } from '../support/rest.ts';

/** The generated methods with the bodies this product documents: the client's own types close `parameters`. */
type Ml = Record<string, (request?: object) => Promise<{ statusCode: number; body: JsonObject }>>;

let app: TestApp;
let llm: FakeLlmServer;
let everything: Running;
let client: Client;
const ids: Record<string, string> = {};

beforeAll(async () => {
  [app, llm, everything] = await Promise.all([startApp(), startFakeLlm({ strict: true }), startEverything()]);
  client = new Client({ node: app.url, auth: { username: 'admin', password: 'admin' } });
});
afterAll(async () => {
  await client?.close();
  await Promise.all([app?.close(), llm?.close(), everything?.stop()]);
});

async function call(method: string, request?: object): Promise<JsonObject> {
  const { [method]: send } = client.ml as unknown as Ml;
  const answer = await send?.call(client.ml, request);
  expect(answer?.statusCode).toBe(200);
  return answer?.body ?? {};
}

async function failure(method: string, request: object): Promise<{ statusCode: number; body: JsonObject }> {
  const { [method]: send } = client.ml as unknown as Ml;
  const error = await send?.call(client.ml, request).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  const { statusCode, body } = (error as { meta: { statusCode: number; body: JsonObject } }).meta;
  return { statusCode, body };
}

describe('the official JavaScript client', () => {
  it('reads the root and the health of the cluster', async () => {
    const { body: info } = await client.info();
    expect(info.version).toMatchObject({ distribution: 'opensearch', number: expect.stringMatching(/^3\.\d+\.\d+$/) });
    const { body: health } = await client.cluster.health();
    expect(health).toMatchObject({ status: 'green', timed_out: false, number_of_nodes: 1 });
  });

  it('creates, updates and shows connectors', async () => {
    const { connector_id: mcp } = await call('createConnector', {
      body: { name: 'everything', version: 1, protocol: 'mcp_streamable_http', url: everything.url, credential: {} },
    });
    const { connector_id: chat } = await call('createConnector', { body: chatConnector(llm.url) });
    ids.mcp = String(mcp);
    ids.chat = String(chat);
    expect(ids).toEqual({ mcp: expect.stringMatching(ID), chat: expect.stringMatching(ID) });

    const written = await call('updateConnector', {
      connector_id: mcp,
      body: { description: 'The everything server' },
    });
    expect(written).toMatchObject({ _index: '.plugins-ml-connector', _id: mcp, _version: 2, result: 'updated' });
    expect(await call('getConnector', { connector_id: mcp })).toMatchObject({
      name: 'everything',
      description: 'The everything server',
      version: '1',
      protocol: 'mcp_streamable_http',
    });
    const shown = await call('getConnector', { connector_id: chat });
    expect(shown).not.toHaveProperty('credential');
    expect(shown.actions).toMatchObject([{ action_type: 'PREDICT', url: llm.url }]);
  });

  it('registers, deploys and asks a model, and finds the task', async () => {
    const registered = await call('registerModel', {
      body: { name: 'chat', function_name: 'remote', connector_id: ids.chat },
    });
    expect(registered).toEqual({
      task_id: expect.any(String),
      status: 'CREATED',
      model_id: expect.stringMatching(ID),
    });
    ids.model = String(registered.model_id);
    const task = await call('getTask', { task_id: registered.task_id });
    expect(task).toMatchObject({
      model_id: ids.model,
      task_type: 'REGISTER_MODEL',
      state: 'COMPLETED',
      is_async: false,
    });

    expect(await call('deployModel', { model_id: ids.model })).toMatchObject({ status: 'COMPLETED' });
    expect(await call('getModel', { model_id: ids.model })).toMatchObject({
      name: 'chat',
      algorithm: 'REMOTE',
      model_state: 'DEPLOYED',
      connector_id: ids.chat,
    });
    llm.reset('hello from the model');
    const predicted = await call('predictModel', { model_id: ids.model, body: { parameters: { prompt: 'hello' } } });
    expect(JSON.stringify(predicted)).toContain('hello from the model');
  });

  it('registers an agent and executes it with a tool of the everything server', async () => {
    const { agent_id: agent } = await call('registerAgents', {
      body: {
        name: 'assistant',
        type: 'conversational',
        description: 'Agent with external tools',
        llm: { model_id: ids.model },
        tools: [{ type: 'MCPTool', parameters: { connector_id: ids.mcp } }],
      },
    });
    ids.agent = String(agent);
    llm.reset({ tool: 'echo', args: '{"message":"a word for the server"}' }, 'The server said it.');
    const { inference_results: results } = await call('executeAgent', {
      agent_id: agent,
      body: { parameters: { question: 'Say a word to the server' } },
    });
    const output = (results as { output: { name: string; result?: string; dataAsMap?: JsonObject }[] }[])[0]?.output;
    expect(output?.map(({ name }) => name)).toEqual(['memory_id', 'parent_interaction_id', 'response']);
    ids.memory = String(output?.[0]?.result);
    ids.message = String(output?.[1]?.result);
    expect(output?.[2]?.dataAsMap?.response).toBe('The server said it.');
    expect(llm.requests[1]?.text).toContain('Echo: a word for the server');

    const { mcp_connections: connections } = await call('getAgent', { agent_id: agent });
    expect(connections).toMatchObject([{ connector_id: ids.mcp, name: 'everything', status: 'connected' }]);
  });

  it('reads the conversation: memory, messages, traces', async () => {
    expect(await call('getMemory', { memory_id: ids.memory })).toMatchObject({
      memory_id: ids.memory,
      name: 'Say a word to the server',
    });
    const { memories } = await call('getAllMemories');
    expect((memories as JsonObject[]).map(({ memory_id }) => memory_id)).toContain(ids.memory);
    const { messages } = await call('getAllMessages', { memory_id: ids.memory });
    expect(messages).toMatchObject([
      { message_id: ids.message, input: 'Say a word to the server', response: 'The server said it.' },
    ]);
    const { traces } = await call('getMessageTraces', { message_id: ids.message });
    const steps = traces as JsonObject[];
    expect(steps.map(({ trace_number }) => trace_number)).toEqual(steps.map((_, at) => at + 1));
    expect(steps.map(({ origin }) => origin)).toContain('echo');
    expect(steps.every(({ parent_message_id }) => parent_message_id === ids.message)).toBe(true);
  });

  it('writes memory by itself', async () => {
    const { memory_id: memory } = await call('createMemory', { body: { name: 'notes' } });
    const { message_id: message } = await call('createMessage', {
      memory_id: memory,
      body: { input: 'a question', response: 'an answer', origin: 'test' },
    });
    await call('updateMessage', { message_id: message, body: { additional_info: { checked: 'yes' } } });
    expect(await call('getMessage', { message_id: message })).toMatchObject({
      memory_id: memory,
      input: 'a question',
      response: 'an answer',
      additional_info: { checked: 'yes' },
    });
    expect(await call('updateMemory', { memory_id: memory, body: { name: 'renamed' } })).toMatchObject({
      _id: memory,
      result: 'updated',
    });
    expect(await call('deleteMemory', { memory_id: memory })).toEqual({ success: true });
  });

  it('gets the documented errors', async () => {
    expect(await failure('getConnector', { connector_id: 'unknown' })).toMatchObject({
      statusCode: 404,
      body: {
        error: {
          type: 'status_exception',
          reason: 'Failed to find connector with the provided connector id: unknown',
        },
        status: 404,
      },
    });
    expect(
      await failure('executeAgent', { agent_id: 'unknown', body: { parameters: { question: 'x' } } }),
    ).toMatchObject({
      statusCode: 404,
      body: { status: 404, error: { details: 'Failed to find agent with the provided agent id: unknown' } },
    });
    expect(await failure('deleteConnector', { connector_id: ids.chat })).toMatchObject({ statusCode: 409 });
  });

  it('removes everything again', async () => {
    expect(await call('deleteAgent', { agent_id: ids.agent })).toMatchObject({ _id: ids.agent, result: 'deleted' });
    await call('undeployModel', { model_id: ids.model });
    expect(await call('deleteModel', { model_id: ids.model })).toMatchObject({ _id: ids.model, result: 'deleted' });
    for (const id of [ids.mcp, ids.chat]) {
      expect(await call('deleteConnector', { connector_id: id })).toMatchObject({ _id: id, result: 'deleted' });
    }
    expect(await failure('getAgent', { agent_id: ids.agent ?? '' })).toMatchObject({ statusCode: 404 });
  });
});
