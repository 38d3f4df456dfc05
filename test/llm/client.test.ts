import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type CatalogueError, UpstreamError } from '../../src/errors.ts';
import type { JsonObject } from '../../src/json.ts';
import type { ModelEvent, ModelRequest } from '../../src/llm/types.ts';
import { type FakeLlmServer, startFakeLlm } from '../support/fake-llm-server.ts';
import { type ModelPlatform, startModelPlatform } from '../support/model-platform.ts';
import { chatConnector } from '../support/rest.ts';

const OPENAI = 'openai/v1/chat/completions';

const FULL_TEMPLATE =
  '{"model":"${parameters.model}","messages":[{"role":"developer","content":"${parameters.system_prompt}"},${parameters._chat_history:-}{"role":"user","content":"${parameters.prompt}"}${parameters._interactions:-}]${parameters.tool_configs:-},"seed":2512292042121000001}';
const PLAIN_TEMPLATE =
  '{"model":"${parameters.model}","messages":[{"role":"user","content":"${parameters.prompt}"}],"seed":2512292042121000001}';
const LIST_TEMPLATE = '{"model":"${parameters.model}","messages":${parameters.messages},"temperature":1.0}';

const REQUEST: ModelRequest = {
  system: 'Be brief.',
  history: [
    { role: 'user', text: 'before' },
    { role: 'assistant', text: 'answered', toolCalls: [] },
  ],
  question: 'price is $1 and $& "quoted" ${parameters.model}',
  interactions: [
    { role: 'assistant', text: '', toolCalls: [{ id: 'c1', name: 'get', arguments: '{"id":2512292042121000001}' }] },
    { role: 'tool', toolCallId: 'c1', name: 'get', text: 'found', isError: false },
  ],
  tools: [{ name: 'get', description: 'Gets', inputSchema: { type: 'object', properties: {} } }],
  parameters: {},
};

const BARE: ModelRequest = { history: [], question: 'q', interactions: [], tools: [], parameters: {} };

let llm: FakeLlmServer;
let platform: ModelPlatform;
const models: Record<string, string> = {};
beforeAll(async () => {
  llm = await startFakeLlm({ strict: true });
  platform = await startModelPlatform();
  for (const [name, template] of Object.entries({ full: FULL_TEMPLATE, plain: PLAIN_TEMPLATE, list: LIST_TEMPLATE })) {
    models[name] = await register(template);
  }
});
afterAll(async () => {
  await platform.close();
  await llm.close();
});
beforeEach(() => llm.reset());

async function register(template: string, url = llm.url): Promise<string> {
  const connector = chatConnector(url) as JsonObject;
  const [action] = connector.actions as JsonObject[];
  const body = {
    name: 'gpt',
    function_name: 'remote',
    connector: { ...connector, actions: [{ ...action, request_body: template }] },
  };
  return String((await platform.rest.ok('POST', '/models/_register', body)).model_id);
}

async function ask(model: string, request: ModelRequest, llmInterface?: string, signal?: AbortSignal) {
  const events: ModelEvent[] = [];
  for await (const event of await platform.client.stream(model, llmInterface, request, signal)) events.push(event);
  return events;
}

async function failure(request: ModelRequest = BARE, model = models.plain ?? '', signal?: AbortSignal) {
  const [event, ...more] = await ask(model, request, undefined, signal);
  expect(more).toEqual([]);
  if (event?.type !== 'error') throw new Error('expected an error event');
  return event.error;
}

it.each([200, 500])('JSON that nests too deep, with status %d, is a failure that names the side', async (status) => {
  llm.push({ body: `${'['.repeat(100_000)}${']'.repeat(100_000)}`, verbatim: true, status });
  const error = await failure();
  expect(error).toBeInstanceOf(UpstreamError);
  expect(error).toMatchObject({
    statusCode: status === 200 ? 502 : 500,
    message: expect.stringMatching(/^Error from remote service: .*nested deeper than 1000 levels/),
  });
});

describe('asking a model', () => {
  const MESSAGES = [
    { role: 'user', content: 'before' },
    { role: 'assistant', content: 'answered' },
    { role: 'user', content: REQUEST.question },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c1', type: 'function', function: { name: 'get', arguments: '{"id":2512292042121000001}' } }],
    },
    { role: 'tool', tool_call_id: 'c1', content: 'found' },
  ];

  it.each([
    ['full', 'developer'],
    ['plain', 'system'],
    ['list', 'system'],
  ])('sends each message once and the tools, whatever the template has a place for: %s', async (name, role) => {
    await ask(models[name] ?? '', { ...REQUEST, parallelToolCalls: false });
    expect(llm.faults).toEqual([]);
    expect(llm.requests[0]?.messages).toEqual([{ role, content: 'Be brief.' }, ...MESSAGES]);
    expect(llm.requests[0]?.toolNames).toEqual(['get']);
    expect(llm.requests[0]?.body.parallel_tool_calls).toBe(false);
    expect(llm.requests[0]?.body.model).toBe('test');
  });

  it.each([
    ['full', '"seed":2512292042121000001'],
    ['plain', '"seed":2512292042121000001'],
    ['list', '"temperature":1.0'],
  ])('keeps the digits of the template: %s', async (name, digits) => {
    await ask(models[name] ?? '', REQUEST);
    expect(llm.requests[0]?.text).toContain(digits);
    expect(llm.requests[0]?.text).toContain('{\\"id\\":2512292042121000001}');
  });

  it.each(['plain', 'list'])(
    'sends neither tools nor parallel_tool_calls when the agent has none: %s',
    async (name) => {
      await ask(models[name] ?? '', { ...BARE, parallelToolCalls: true });
      expect(llm.requests[0]?.body).not.toHaveProperty('tools');
      expect(llm.requests[0]?.body).not.toHaveProperty('parallel_tool_calls');
      expect(llm.requests[0]?.messages).toEqual([{ role: 'user', content: 'q' }]);
    },
  );

  it('gives the text, then the whole answer', async () => {
    llm.push('Hello');
    expect(await ask(models.full ?? '', REQUEST, OPENAI)).toEqual([
      { type: 'text', delta: 'Hello' },
      {
        type: 'done',
        answer: {
          text: 'Hello',
          toolCalls: [],
          stopReason: 'stop',
          wireStopReason: 'stop',
          usage: { inputTokens: 11, outputTokens: 7, totalTokens: 18 },
        },
      },
    ]);
  });

  it('gives tool calls without a text event', async () => {
    llm.push({ tool: 'get', args: '', id: 'c9' });
    expect(await ask(models.plain ?? '', BARE)).toEqual([
      {
        type: 'done',
        answer: expect.objectContaining({
          text: '',
          toolCalls: [{ id: 'c9', name: 'get', arguments: '' }],
          stopReason: 'tool_calls',
        }),
      },
    ]);
  });

  it('fills the template from the parameters of the call', async () => {
    const id = await register('{"model":"${parameters.model}","temperature":${parameters.temperature},"messages":[]}');
    await ask(id, { ...BARE, parameters: { temperature: '0.2', model: 'other' } });
    expect(llm.requests[0]?.body).toEqual({
      model: 'other',
      temperature: 0.2,
      messages: [{ role: 'user', content: 'q' }],
    });
  });
});

describe('before the start', () => {
  it('an unknown model is thrown', async () => {
    await expect(platform.client.stream('nope', undefined, BARE, undefined)).rejects.toThrow(
      'Failed to find model with the provided model id: nope',
    );
  });

  it('an interface that cannot be used is thrown', async () => {
    const stream = (name: string) => platform.client.stream(models.plain ?? '', name, BARE, undefined);
    await expect(stream('')).rejects.toThrow('_llm_interface cannot be blank or empty');
    await expect(stream('magic')).rejects.toThrow('Invalid _llm_interface');
    await expect(stream('bedrock/converse/claude')).rejects.toThrow('is not served yet');
  });

  it('a format that cannot be told is thrown, unless it is named', async () => {
    const id = await register(PLAIN_TEMPLATE, `${llm.origin}/v1/other`);
    await expect(platform.client.stream(id, undefined, BARE, undefined)).rejects.toThrow(
      'The wire format of model gpt cannot be told',
    );
    expect(await ask(id, BARE, OPENAI)).toHaveLength(2);
  });
});

describe('a failing model', () => {
  it('ends the stream with the status and message of the provider', async () => {
    llm.push({ status: 429, body: { error: { message: 'Slow down' } }, headers: { 'retry-after': '3' } });
    const error = (await failure()) as UpstreamError;
    expect(error).toBeInstanceOf(UpstreamError);
    expect(error).toMatchObject({
      message: 'Error from remote service: Slow down',
      statusCode: 429,
      code: 'rate_limited',
      retryAfterMs: 3000,
      destination: 'model gpt',
    });
  });

  it('ends the stream with the mistake of the caller when the template cannot be filled', async () => {
    const id = await register('{"model":"m","messages":[{"role":"user","content":"${parameters.unset}"}]}');
    const error = (await failure(BARE, id)) as CatalogueError;
    expect(error.statusCode).toBe(400);
    expect(error.message).toBe('Some parameter placeholder not filled in payload: unset');
    expect(llm.requests).toEqual([]);
  });

  it.each<[string, unknown, string]>([
    ['an empty body', '', 'Remote service returned empty response body'],
    ['empty choices', '{"choices":[]}', 'the answer has empty choices'],
    [
      'a filtered answer',
      '{"choices":[{"finish_reason":"content_filter","message":{"content":null}}]}',
      'content_filter',
    ],
    ['a null message', '{"choices":[{"finish_reason":"stop","message":null}]}', 'no message (finish_reason: stop)'],
    ['an error with status 200', '{"error":{"message":"overloaded","code":503}}', 'overloaded'],
    ['a refusal', '{"choices":[{"finish_reason":"stop","message":{"content":null,"refusal":"no"}}]}', 'refusal'],
    [
      'an event stream',
      'data: {"choices":[]}\n\ndata: [DONE]\n\n',
      'the answer is an event stream although none was asked for',
    ],
    ['a page', '<html>secret</html>', 'the answer is not JSON'],
  ])('says what came: %s', async (_name, body, message) => {
    llm.push({ body: String(body), verbatim: true });
    const error = (await failure()) as UpstreamError;
    expect(error).toBeInstanceOf(UpstreamError);
    expect(error.statusCode).toBe(502);
    expect(error.message).toContain(message);
    expect(error.message).not.toContain('undefined');
    expect(error.message).not.toContain('secret');
  });

  it('never repeats the credential', async () => {
    llm.push({ body: { error: { message: 'bad key a-model-key' } } });
    expect((await failure()).message).toBe(
      'Error from remote service: model gpt answered with status 200, but the answer reports an error: bad key [redacted]',
    );
  });

  it('that hangs up ends the stream', async () => {
    llm.push({ destroy: true });
    expect(await failure()).toBeInstanceOf(UpstreamError);
  });
});

describe('an abort', () => {
  it('before the start asks nothing', async () => {
    const reason = new Error('stop');
    expect(await failure(BARE, models.plain, AbortSignal.abort(reason))).toBe(reason);
    expect(llm.requests).toEqual([]);
  });

  it('while the model thinks ends the stream with its reason', async () => {
    let free = () => {};
    const hold = new Promise<void>((resolve) => {
      free = resolve;
    });
    const asked = new Promise<void>((resolve) => {
      llm.push(async () => {
        resolve();
        return { text: 'late', hold };
      });
    });
    const controller = new AbortController();
    const pending = failure(BARE, models.plain, controller.signal);
    await asked;
    const reason = new Error('the client went away');
    controller.abort(reason);
    expect(await pending).toBe(reason);
    free();
  });

  it('with a reason that is no error is one', async () => {
    expect((await failure(BARE, models.plain, AbortSignal.abort('why'))).message).toBe('why');
  });
});

describe('a strict provider', () => {
  it('gets well-formed text whatever comes in', async () => {
    const half = 'x\ud83d';
    const request: ModelRequest = {
      system: half,
      history: [{ role: 'user', text: half }],
      question: half,
      interactions: [
        { role: 'assistant', text: half, toolCalls: [{ id: 'c1', name: 'bad name!', arguments: '{"id": 7' }] },
        { role: 'tool', toolCallId: 'c1', name: 'bad name!', text: half, isError: true },
      ],
      tools: [{ name: 'get', description: half.repeat(1000), inputSchema: { type: 'object', title: half } }],
      parameters: { extra: half },
    };
    for (const model of Object.values(models)) await ask(model, request);
    expect(llm.faults).toEqual([]);
    expect(llm.requests).toHaveLength(3);
  });
});
