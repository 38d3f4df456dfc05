import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/json.ts';
import { openRig, type Rig } from './rig.ts';

let rig: Rig;
beforeEach(async () => {
  rig = await openRig('final');
});
afterEach(() => rig.dispose());

const ID = /^[0-9A-Za-z]{20}$/;
const messagesOf = async (memoryId: string): Promise<JsonObject[]> =>
  (await rig.ok('GET', `/memory/${memoryId}/messages`)).messages as JsonObject[];
const sent = (request: number) =>
  (rig.llm.requests[request]?.messages ?? []).map(({ role, content }) => [role, content]);
const echoAgent = async (more: JsonObject = {}): Promise<string> => {
  const server = await rig.server();
  const connector = await rig.connector('w', server.origin);
  const tools = [{ type: 'MCPTool', parameters: { connector_id: connector }, include_output_in_agent_response: true }];
  return rig.agent([], { tools, ...more });
};
const echo = (text: string): { tool: string; args: string } => ({ tool: 'echo', args: JSON.stringify({ text }) });

describe('an answer', () => {
  it('has the documented shape', async () => {
    const agent = await echoAgent();
    rig.llm.reset(echo('a'), echo('b'), 'done');
    const reply = await rig.ask(agent, 'q');
    expect(reply.body).toEqual({
      inference_results: [
        {
          output: [
            { name: 'memory_id', result: expect.stringMatching(ID) },
            { name: 'parent_interaction_id', result: expect.stringMatching(ID) },
            {
              name: 'response',
              dataAsMap: {
                response: 'done',
                additional_info: { 'echo.output': ['echo: {"text":"a"}', 'echo: {"text":"b"}'] },
              },
            },
          ],
        },
      ],
    });
    expect(reply.headers.get('warning')).toBeNull();
    const [message] = await messagesOf(reply.memoryId);
    expect(message).toMatchObject({ additional_info: { 'echo.output': ['echo: {"text":"a"}', 'echo: {"text":"b"}'] } });
  });

  it('shows one call of a tool as a text, and nothing of tools that are not marked', async () => {
    const agent = await echoAgent();
    rig.llm.reset(echo('a'), 'done');
    const reply = await rig.ask(agent, 'q');
    const map = reply.output.at(-1)?.dataAsMap as JsonObject;
    expect(map.additional_info).toEqual({ 'echo.output': 'echo: {"text":"a"}' });
    const server = await rig.server();
    const plain = await rig.agent([await rig.connector('w', server.origin)]);
    rig.llm.reset(echo('a'), 'done');
    expect((await rig.ask(plain, 'q')).output.at(-1)?.dataAsMap).toEqual({ response: 'done', additional_info: {} });
  });

  it('that is verbose shows every step', async () => {
    const agent = await echoAgent({ parameters: { verbose: true } });
    rig.llm.reset({ ...echo('a'), id: 'c1' }, { ...echo('b'), id: 'c2', text: 'once more' }, 'done');
    const reply = await rig.ask(agent, 'q');
    expect(reply.output.slice(2)).toEqual([
      { name: 'response', result: '[{"id":"c1","name":"echo","arguments":"{\\"text\\":\\"a\\"}"}]' },
      { name: 'response', result: 'echo: {"text":"a"}' },
      { name: 'response', result: 'once more' },
      { name: 'response', result: 'echo: {"text":"b"}' },
      { name: 'response', result: 'done' },
    ]);
  });

  it('counts tokens when asked to', async () => {
    const agent = await echoAgent();
    rig.llm.reset(echo('a'), 'done');
    const reply = await rig.ask(agent, 'q', { include_token_usage: 'true' });
    const one = { input_tokens: 11, output_tokens: 7, total_tokens: 18 };
    expect(reply.output.at(-1)).toEqual({
      name: 'token_usage',
      dataAsMap: {
        per_turn_usage: [
          { turn: 1, model_id: rig.modelId, ...one },
          { turn: 2, model_id: rig.modelId, ...one },
        ],
        per_model_usage: [
          { model_id: rig.modelId, call_count: 2, input_tokens: 22, output_tokens: 14, total_tokens: 36 },
        ],
      },
    });
  });

  it('is made under the system prompt of the caller, the model settings or the agent, in this order', async () => {
    const agent = await rig.agent([], {
      parameters: { system_prompt: 'of the agent' },
      llm: { model_id: rig.modelId, parameters: { max_iteration: 2 } },
    });
    await rig.ask(agent, 'q');
    await rig.ask(agent, 'q', { system_prompt: 'of the caller' });
    await rig.ok('PUT', `/agents/${agent}`, { llm: { parameters: { system_prompt: 'of the model' } } });
    await rig.ask(agent, 'q');
    expect([0, 1, 2].map((n) => sent(n)[0])).toEqual([
      ['system', 'of the agent'],
      ['system', 'of the caller'],
      ['system', 'of the model'],
    ]);
    expect(rig.llm.requests).toHaveLength(3);
  });

  it('runs calls one after another when parallel calls are switched off', async () => {
    const server = await rig.server({
      on: { 'tools/call': { delayMs: 20, result: { content: [{ type: 'text', text: 'x' }] } } },
    });
    const agent = await rig.agent([await rig.connector('w', server.origin)], {
      parameters: { parallel_tool_calls: false },
    });
    rig.llm.reset({ calls: [echo('a'), echo('b')] }, 'done');
    await rig.ask(agent, 'q');
    expect(rig.llm.requests[0]?.body.parallel_tool_calls).toBe(false);
    const [first, second] = server.of('tools/call');
    expect((second?.time ?? 0) - (first?.time ?? 0)).toBeGreaterThanOrEqual(15);
  });
});

describe('memory', () => {
  it('holds question, steps and answer, in order, and continues', async () => {
    const agent = await echoAgent();
    rig.llm.reset(echo('a'), 'done');
    const first = await rig.ask(agent, 'Q1 🦉');
    expect(await rig.ok('GET', `/memory/${first.memoryId}`)).toMatchObject({ name: 'Q1 🦉' });
    const { traces } = await rig.ok('GET', `/memory/message/${first.messageId}/traces`);
    expect(traces).toMatchObject([
      { origin: 'LLM', trace_number: 1, input: 'Q1 🦉', parent_message_id: first.messageId },
      { origin: 'echo', trace_number: 2, input: '{"text":"a"}', response: 'echo: {"text":"a"}' },
      { origin: 'LLM', trace_number: 3, response: 'done' },
    ]);
    rig.llm.reset('more');
    const second = await rig.ask(agent, 'Q2', { memory_id: first.memoryId });
    expect(second.memoryId).toBe(first.memoryId);
    expect(sent(0).slice(1)).toEqual([
      ['user', 'Q1 🦉'],
      ['assistant', 'done'],
      ['user', 'Q2'],
    ]);
    expect(await messagesOf(first.memoryId)).toMatchObject([
      { message_id: first.messageId, input: 'Q1 🦉', response: 'done' },
      { message_id: second.messageId, input: 'Q2', response: 'more' },
    ]);
  });

  it('has the question before the run, with an empty response', async () => {
    const agent = await rig.agent([]);
    let seen: JsonValue = null;
    rig.llm.reset(async () => {
      const { memories } = await rig.ok('GET', '/memory');
      const [memory] = memories as JsonObject[];
      seen = await messagesOf(String(memory?.memory_id));
      return 'done';
    });
    await rig.ask(agent, 'q');
    expect(seen).toMatchObject([{ input: 'q', response: '' }]);
  });

  it('keeps no traces when they are switched off', async () => {
    const agent = await echoAgent({ parameters: { disable_trace: 'true' } });
    rig.llm.reset(echo('a'), 'done');
    const { messageId } = await rig.ask(agent, 'q');
    expect(await rig.ok('GET', `/memory/message/${messageId}/traces`)).toEqual({ traces: [] });
  });

  it.each([1, 2, 3, 4, 5, 7])('gives the newest %i turns whole, whatever they called', async (limit) => {
    const agent = await echoAgent();
    let memoryId: string | undefined;
    for (let n = 1; n <= 5; n += 1) {
      rig.llm.reset({ calls: [echo('a'), echo('b'), echo('c')] }, `A${n}`);
      const reply = await rig.ask(agent, `Q${n}`, memoryId ? { memory_id: memoryId } : {});
      memoryId = reply.memoryId;
    }
    rig.llm.reset('done');
    await rig.ask(agent, 'last?', { memory_id: memoryId ?? '', message_history_limit: limit });
    const kept = [1, 2, 3, 4, 5].slice(-limit).flatMap((n) => [
      ['user', `Q${n}`],
      ['assistant', `A${n}`],
    ]);
    expect(sent(0).slice(1)).toEqual([...kept, ['user', 'last?']]);
    expect(rig.llm.faults).toEqual([]);
  });

  it('has the newest question and every character after a turn of many calls', async () => {
    const agent = await echoAgent();
    rig.llm.reset({ calls: Array.from({ length: 12 }, (_, n) => echo(`🦉${n}`)) }, 'A1');
    const { memoryId } = await rig.ask(agent, 'many');
    rig.llm.reset('A2');
    await rig.ask(agent, 'last? 🦉', { memory_id: memoryId });
    const messages = await messagesOf(memoryId);
    expect(messages.map(({ input, response }) => [input, response])).toEqual([
      ['many', 'A1'],
      ['last? 🦉', 'A2'],
    ]);
  });

  it('takes two questions at the same moment one after the other', async () => {
    const agent = await rig.agent([]);
    const { memoryId } = await rig.ask(agent, 'Q0');
    const reply = (request: { messages: readonly JsonObject[] }) =>
      request.messages.at(-1)?.content === 'Q1' ? { text: 'A1', delayMs: 200 } : 'A2';
    rig.llm.reset(reply, reply);
    await Promise.all(['Q1', 'Q2'].map((question) => rig.ask(agent, question, { memory_id: memoryId })));
    const stored = (await messagesOf(memoryId)).slice(1).map(({ input, response }) => [input, response]);
    expect(stored).toHaveLength(2);
    expect(sent(1).slice(-3)).toEqual([
      ['user', stored[0]?.[0]],
      ['assistant', stored[0]?.[1]],
      ['user', stored[1]?.[0]],
    ]);
  });

  it('that is not there is a 404, that is off a 500', async () => {
    const agent = await rig.agent([]);
    const missing = await rig.ask(agent, 'q', { memory_id: 'nobody' });
    expect([missing.status, missing.body]).toEqual([
      404,
      {
        status: 404,
        error: { type: 'ResourceNotFoundException', reason: 'System Error', details: 'Memory [nobody] not found' },
      },
    ]);
    await rig.ok('PUT', '/_cluster/settings', { transient: { 'plugins.ml_commons.memory_feature_enabled': false } });
    expect((await rig.ask(agent, 'q')).status).toBe(500);
    expect(rig.llm.requests).toHaveLength(0);
  });

  it('that is deleted under way does not cost the answer', async () => {
    const agent = await rig.agent([]);
    rig.llm.reset(async () => {
      const { memories } = await rig.ok('GET', '/memory');
      const [memory] = memories as JsonObject[];
      await rig.ok('DELETE', `/memory/${String(memory?.memory_id)}`);
      return 'done';
    });
    const reply = await rig.ask(agent, 'q');
    expect(reply.text).toBe('done');
    expect(reply.headers.get('warning')).toContain(`The answer could not be stored in memory ${reply.memoryId}`);
  });
});

describe('an earlier question', () => {
  it('can be answered again from what came before it', async () => {
    const agent = await rig.agent([]);
    rig.llm.reset('A1', 'A2', 'A2 again');
    const first = await rig.ask(agent, 'Q1');
    const second = await rig.ask(agent, 'Q2', { memory_id: first.memoryId });
    const { status, body } = await rig.send('POST', `/agents/${agent}/_execute`, {
      parameters: { memory_id: first.memoryId, regenerate_interaction_id: second.messageId },
    });
    expect([status, JSON.stringify(body)]).toEqual([200, expect.stringContaining('A2 again')]);
    expect(sent(2).slice(1)).toEqual([
      ['user', 'Q1'],
      ['assistant', 'A1'],
      ['user', 'Q2'],
    ]);
  });

  it('that waits as a message is answered in it', async () => {
    const agent = await rig.agent([]);
    const { memory_id: memoryId } = await rig.ok('POST', '/memory', { name: 'mine' });
    const { message_id: messageId } = await rig.ok('POST', `/memory/${String(memoryId)}/messages`, { input: 'q' });
    const reply = await rig.ask(agent, 'q', { memory_id: memoryId ?? '', parent_interaction_id: messageId ?? '' });
    expect([reply.memoryId, reply.messageId]).toEqual([memoryId, messageId]);
    expect(await messagesOf(reply.memoryId)).toMatchObject([{ message_id: messageId, response: 'final' }]);
  });

  it.each([
    [{ parent_interaction_id: 'a', regenerate_interaction_id: 'b', memory_id: 'c' }, 400, 'not both'],
    [{ regenerate_interaction_id: 'b' }, 400, 'A memory ID must be provided to regenerate.'],
    [{ parent_interaction_id: 'b' }, 400, 'parent_interaction_id needs memory_id'],
  ])('is refused for %j', async (more, status, text) => {
    const reply = await rig.ask(await rig.agent([]), 'q', more);
    expect([reply.status, JSON.stringify(reply.body)]).toEqual([status, expect.stringContaining(text)]);
  });

  it('of another memory is a 404', async () => {
    const agent = await rig.agent([]);
    const one = await rig.ask(agent, 'q');
    const other = await rig.ask(agent, 'q');
    for (const name of ['regenerate_interaction_id', 'parent_interaction_id']) {
      const reply = await rig.ask(agent, 'q', { memory_id: one.memoryId, [name]: other.messageId });
      expect([reply.status, JSON.stringify(reply.body)]).toEqual([
        404,
        expect.stringContaining(`Message [${other.messageId}] not found`),
      ]);
    }
  });
});

describe('standard input', () => {
  const execute = async (body: JsonObject) => rig.send('POST', `/agents/${await rig.agent([])}/_execute`, body);

  it.each([
    ['hello', [['user', 'hello']]],
    [
      [
        { type: 'text', text: 'a' },
        { type: 'text', text: 'b' },
      ],
      [['user', 'a\nb']],
    ],
    [
      [
        { role: 'user', content: [{ type: 'text', text: 'Q1' }] },
        { role: 'assistant', content: 'A1' },
        { role: 'user', content: [{ type: 'text', text: 'Q2' }] },
      ],
      [
        ['user', 'Q1'],
        ['assistant', 'A1'],
        ['user', 'Q2'],
      ],
    ],
  ] as [JsonValue, unknown][])('is read: %j', async (input, messages) => {
    expect((await execute({ input })).status).toBe(200);
    expect(sent(0).slice(1)).toEqual(messages);
  });

  it.each([
    [{ input: [{ type: 'image', image: { type: 'url', data: 'x' } }] }, 'input[0] of type "image" is not served yet'],
    [
      {
        input: [
          { role: 'user', content: 'x' },
          { role: 'tool', content: 'x' },
        ],
      },
      'input[1].role "tool" is not served',
    ],
    [{ input: [{ role: 'assistant', content: 'x' }] }, 'input[0].role must be user'],
    [
      {
        input: [
          { role: 'assistant', content: 'x', toolCalls: [{}] },
          { role: 'user', content: 'y' },
        ],
      },
      'toolCalls',
    ],
    [{ input: [{ role: 'user', content: [] }] }, 'input[0].content holds no content block'],
    [{ input: 5 }, 'input must be a text, an array of content blocks or an array of messages'],
    [{ input: [] }, 'input must be a text'],
    [{ input: ' ' }, 'The question is missing'],
    [{}, 'Agent input data can not be empty.'],
    [{ parameters: {} }, 'Agent input data can not be empty.'],
    [{ parameters: null }, 'Agent input data can not be empty.'],
    [{ parameters: { other: 1 } }, 'The question is missing'],
    [{ parameters: { question: 'q', max_iteration: 0 } }, 'max_iteration must be a whole number of at least 1'],
    [{ parameters: { question: 'q', message_history_limit: 'x' } }, 'message_history_limit must be a whole number'],
    [{ parameters: { question: 'q', selected_tools: '[1]' } }, 'selected_tools must be a JSON array of tool names'],
  ] as [JsonObject, string][])('is refused: %j', async (body, text) => {
    const answer = await execute(body);
    expect(answer.status).toBe(400);
    expect(answer.body).toMatchObject({
      status: 400,
      error: { type: 'IllegalArgumentException', reason: 'Invalid Request', details: expect.stringContaining(text) },
    });
    expect(rig.llm.requests).toHaveLength(0);
    expect(await rig.ok('GET', '/memory')).toEqual({ memories: [] });
  });

  it('is refused while the unified API is off', async () => {
    await rig.ok('PUT', '/_cluster/settings', { transient: { 'plugins.ml_commons.unified_agent_api_enabled': false } });
    const answer = await execute({ input: 'hello' });
    expect(answer.status).toBe(400);
    expect((answer.body.error as JsonObject).reason).toContain(
      'Standardized input cannot be used if unified agent API is not enabled.',
    );
  });
});

describe('a caller who goes away', () => {
  it('stops the run, and the conversation says so', async () => {
    const agent = await rig.agent([]);
    let asked: () => void = () => undefined;
    const reached = new Promise<void>((resolve) => {
      asked = resolve;
    });
    rig.llm.reset(() => {
      asked();
      return { text: 'too late', hold: new Promise(() => undefined) };
    });
    const body = '{"parameters":{"question":"q"}}';
    const socket = connect(Number(new URL(rig.url).port), '127.0.0.1');
    socket.write(
      `POST /_plugins/_ml/agents/${agent}/_execute HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    await reached;
    socket.destroy();
    await expect
      .poll(async () => {
        const { memories } = await rig.ok('GET', '/memory');
        const [memory] = memories as JsonObject[];
        return (await messagesOf(String(memory?.memory_id)))[0]?.response;
      })
      .toBe('Agent execution failed: the request was cancelled');
  });
});
