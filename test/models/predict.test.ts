import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/json.ts';
import { type FakeLlmServer, type LlmReply, startFakeLlm } from '../support/fake-llm-server.ts';
import { type ModelPlatform, startModelPlatform } from '../support/model-platform.ts';
import { chatConnector } from '../support/rest.ts';

const KEY = 'a-model-key';

let llm: FakeLlmServer;
let platform: ModelPlatform;
let model: string;
beforeAll(async () => {
  llm = await startFakeLlm();
  platform = await startModelPlatform();
  model = await register();
});
afterAll(async () => {
  await platform.close();
  await llm.close();
});
beforeEach(() => llm.reset());

async function register(body: JsonObject = {}): Promise<string> {
  const base = { name: 'chat', function_name: 'remote', connector: chatConnector(llm.url) };
  return String((await platform.rest.ok('POST', '/models/_register', { ...base, ...body })).model_id);
}

/** A model whose connector has these parameters besides its own. */
function withParameters(parameters: JsonObject): Promise<string> {
  const connector = chatConnector(llm.url) as JsonObject;
  return register({ connector: { ...connector, parameters: { model: 'test', ...parameters } } });
}

async function predict(parameters: JsonObject = {}, id = model): Promise<JsonValue> {
  const answer = await platform.rest.ok('POST', `/models/${id}/_predict`, {
    parameters: { prompt: 'hi', ...parameters },
  });
  return (answer.inference_results as JsonObject[])[0] ?? null;
}

async function failed(reply: LlmReply | undefined, parameters: JsonObject = {}, id = model) {
  if (reply !== undefined) llm.push(reply);
  const answer = await platform.rest.send('POST', `/models/${id}/_predict`, {
    parameters: { prompt: 'hi', ...parameters },
  });
  const { type, reason } = answer.body.error as JsonObject;
  return { status: answer.status, type, reason };
}

const output = (dataAsMap: JsonValue) => ({ output: [{ name: 'response', dataAsMap }], status_code: 200 });

describe('a prediction', () => {
  it('answers the JSON of the provider as it is', async () => {
    const body = { id: 'x', choices: [{ message: { content: 'Hello', extra: [1, null, true] } }] };
    llm.push({ body });
    expect(await predict()).toEqual(output(body));
    expect(llm.requests[0]?.body).toEqual({ model: 'test', messages: [{ role: 'user', content: 'hi' }] });
    expect(llm.requests[0]?.headers.authorization).toBe(`Bearer ${KEY}`);
  });

  it('deploys the model', async () => {
    const id = await register();
    await predict({}, id);
    expect(await platform.rest.ok('GET', `/models/${id}`)).toMatchObject({ model_state: 'DEPLOYED' });
    await platform.rest.ok('POST', `/models/${id}/_undeploy`, {});
    await predict({}, id);
    expect(await platform.rest.ok('GET', `/models/${id}`)).toMatchObject({ model_state: 'DEPLOYED' });
  });

  it('answers on the route of the algorithm too, with a trailing slash as clients send it', async () => {
    const body = { parameters: { prompt: 'hi' } };
    llm.push({ body: { a: 1 } });
    const expected = { inference_results: [output({ a: 1 })] };
    expect(await platform.rest.ok('POST', `/_plugins/_ml/_predict/remote/${model}`, body)).toEqual(expected);
    expect(await platform.rest.ok('POST', `/_plugins/_ml/_predict/REMOTE/${model}`, body)).toEqual(expected);
    expect(await platform.rest.ok('POST', `/models/${model}/_predict/`, body)).toEqual(expected);
    expect((await platform.rest.send('POST', `/_plugins/_ml/_predict/kmeans/${model}`, body)).body.error).toMatchObject(
      {
        reason: 'Algorithm kmeans does not run here. Use POST /_plugins/_ml/_predict/remote/{model_id}.',
      },
    );
  });

  it('keeps the status of the provider', async () => {
    llm.push({ body: { queued: true }, status: 202 });
    expect(await predict()).toEqual({ output: [{ name: 'response', dataAsMap: { queued: true } }], status_code: 202 });
  });

  it.each<[string, JsonValue, JsonValue]>([
    ['a text that is not JSON', 'just text', { response: 'just text' }],
    ['a list', [1, 2], { response: [1, 2] }],
    ['a number', 7, { response: 7 }],
    ['null', null, { response: null }],
  ])('wraps %s', async (_name, body, dataAsMap) => {
    llm.push({ body, verbatim: true });
    expect(await predict()).toEqual(output(dataAsMap));
  });

  it('sends values that are not texts as their JSON text', async () => {
    await predict({ prompt: { steps: ['a'] } });
    expect(llm.requests[0]?.messages[0]?.content).toBe('{"steps":["a"]}');
  });
});

describe('JSON that nests too deep', () => {
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
  const objects = `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`;

  it.each([deep, objects])('as an answer is a failure of the remote service', async (body) => {
    expect(await failed({ body, verbatim: true })).toEqual({
      status: 502,
      type: 'status_exception',
      reason:
        'Error from remote service: model chat answered with status 200, but its JSON is nested deeper than 1000 levels',
    });
  });

  it.each([deep, objects])('as an error body keeps the status of the remote service', async (body) => {
    expect(await failed({ body, verbatim: true, status: 500 })).toMatchObject({
      status: 500,
      reason: 'Error from remote service: status 500 with JSON that is nested deeper than 1000 levels',
    });
  });

  it('up to 1,000 levels is passed on', async () => {
    const body = JSON.parse(`${'['.repeat(1000)}${']'.repeat(1000)}`) as JsonValue;
    llm.push({ body, verbatim: true });
    expect(await predict()).toEqual(output({ response: body }));
  });
});

it('a prediction that fails leaves one line in the log, without secrets', async () => {
  const from = platform.lines.length;
  await failed({ status: 401, body: { error: { message: `Bad key ${KEY}` } } });
  const warned = platform.lines.slice(from).filter((line) => line.includes('"level":"warn"'));
  expect(warned).toHaveLength(1);
  expect(warned[0]).toContain('model chat failed: Error from remote service: Bad key ');
  expect(warned[0]).toContain('auth_required');
  expect(warned[0]).not.toContain(KEY);
});

describe('response_filter', () => {
  it('of the call takes one value', async () => {
    llm.push('Hello');
    expect(await predict({ response_filter: '$.choices[0].message.content' })).toEqual(output({ response: 'Hello' }));
  });

  it('of the connector counts unless the call gives one', async () => {
    const id = await withParameters({ response_filter: '$.choices[0].message' });
    llm.push({ body: { choices: [{ message: { content: 'Hello' } }] } });
    expect(await predict({}, id)).toEqual(output({ content: 'Hello' }));
    expect(await predict({ response_filter: '$.choices[0].message.content' }, id)).toEqual(
      output({ response: 'Hello' }),
    );
    expect(await predict({ response_filter: ' ' }, id)).toEqual(
      output({ choices: [{ message: { content: 'Hello' } }] }),
    );
  });

  it('that finds nothing is a clear error', async () => {
    expect(await failed('Hello', { response_filter: '$.output' })).toEqual({
      status: 400,
      type: 'illegal_argument_exception',
      reason: 'response_filter $.output finds nothing in the answer of the remote service',
    });
  });
});

describe('a prediction that fails', () => {
  it('names an unknown model', async () => {
    expect(await failed(undefined, {}, 'nope')).toEqual({
      status: 404,
      type: 'status_exception',
      reason: 'Failed to find model with the provided model id: nope',
    });
  });

  it('says that the model is disabled', async () => {
    const id = await register({ is_enabled: false });
    expect(await failed(undefined, {}, id)).toEqual({
      status: 403,
      type: 'status_exception',
      reason: 'Model is disabled.',
    });
    expect(llm.requests).toEqual([]);
  });

  it('says what to run when models do not deploy themselves', async () => {
    const own = await register({ deploy_setting: { is_auto_deploy_enabled: false } });
    const reason = (id: string) =>
      `Model not ready yet. Please run this first: POST /_plugins/_ml/models/${id}/_deploy`;
    expect(await failed(undefined, {}, own)).toMatchObject({ status: 400, reason: reason(own) });
    const id = await register();
    await platform.set('model_auto_deploy.enable', 'false');
    try {
      expect(await failed(undefined, {}, id)).toMatchObject({ status: 400, reason: reason(id) });
    } finally {
      await platform.set('model_auto_deploy.enable', null);
    }
  });

  it('names the placeholders that are not filled', async () => {
    const answer = await platform.rest.send('POST', `/models/${model}/_predict`, {});
    expect(answer).toMatchObject({
      status: 400,
      body: { error: { reason: 'Some parameter placeholder not filled in payload: prompt' } },
    });
  });

  it('names an action that the connector does not have', async () => {
    const answer = await platform.rest.send('POST', `/models/${model}/_predict`, { action_type: 'BATCH_PREDICT' });
    expect(answer).toMatchObject({ status: 400, body: { error: { reason: 'no batch_predict action found' } } });
  });

  it('says that data sets need a pre-process function', async () => {
    const answer = await platform.rest.send('POST', `/models/${model}/_predict`, { text_docs: ['a'] });
    expect(answer).toMatchObject({
      status: 400,
      body: {
        error: {
          reason:
            "text_docs needs a pre-process function, and none is served yet. Send the values of the connector's template in parameters.",
        },
      },
    });
  });

  it('says that the body is missing, or parameters are no object', async () => {
    const answer = await platform.rest.send('POST', `/models/${model}/_predict`);
    expect(answer).toMatchObject({ status: 400, body: { error: { reason: 'request body is required' } } });
    expect(await platform.rest.send('POST', `/models/${model}/_predict`, { parameters: 'x' })).toMatchObject({
      status: 400,
      body: { error: { reason: 'parameters must be an object' } },
    });
  });

  it.each<[string, LlmReply, number, string]>([
    [
      'the message of an error object',
      { status: 429, body: { error: { message: 'Slow down', type: 'rate' } } },
      429,
      'Slow down',
    ],
    ['an error text', { status: 500, body: { error: 'broken' } }, 500, 'broken'],
    ['a detail', { status: 422, body: { detail: [{ msg: 'x', message: 'bad field' }] } }, 422, 'bad field'],
    ['an unknown key as its own status', { status: 401, body: { message: 'Unauthorized' } }, 401, 'Unauthorized'],
    ['JSON of another shape', { status: 400, body: { code: 7 } }, 400, '{"code":7}'],
    ['a plain text', { status: 503, body: 'try later', verbatim: true }, 503, 'try later'],
    ['that there was no body', { status: 503, body: '', verbatim: true }, 503, 'status 503 with an empty body'],
    [
      'never a page of HTML',
      { status: 502, body: '<html><body>secret page</body></html>', verbatim: true },
      502,
      'status 502 with an HTML page, so the url of the connector may be wrong or a proxy answered',
    ],
    [
      'never HTML that does not look like it',
      { status: 404, body: 'not found <p>', verbatim: true, headers: { 'content-type': 'text/html; charset=utf-8' } },
      404,
      'status 404 with an HTML page, so the url of the connector may be wrong or a proxy answered',
    ],
  ])('passes on %s', async (_name, reply, status, message) => {
    expect(await failed(reply)).toEqual({
      status,
      type: 'status_exception',
      reason: `Error from remote service: ${message}`,
    });
  });

  it('passes on at most 500 characters', async () => {
    const { reason } = await failed({ status: 400, body: { error: { message: 'e'.repeat(501) } } });
    expect(reason).toBe(`Error from remote service: ${'e'.repeat(500)}`);
  });

  it('never repeats the credential, plain or encoded, also at the cut', async () => {
    const encoded = Buffer.from(KEY).toString('base64');
    const { reason } = await failed({
      status: 401,
      body: { error: { message: `Incorrect API key ${KEY} (${encoded})` } },
    });
    expect(reason).toContain('Incorrect API key [redacted]');
    expect(reason).not.toContain(KEY);
    expect(reason).not.toContain(encoded.slice(0, 10));
    const cut = await failed({ status: 400, body: { error: { message: `${'e'.repeat(494)}${KEY}` } } });
    expect(cut.reason).toBe(`Error from remote service: ${'e'.repeat(494)}[redac`);
    expect(platform.lines.filter((line) => line.includes(KEY))).toEqual([]);
  });

  it('says that the body of a success was empty', async () => {
    expect(await failed({ body: ' \n', verbatim: true })).toEqual({
      status: 502,
      type: 'status_exception',
      reason: 'Remote service returned empty response body',
    });
  });

  it('says that the provider cannot be reached', async () => {
    const gone = await startFakeLlm();
    await gone.close();
    const id = await register({ connector: chatConnector(gone.url) });
    const answer = await failed(undefined, {}, id);
    expect(answer.status).toBe(502);
    expect(answer.reason).toContain('chat provider');
  });
});
