import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { ActionRequest, ActionResponse } from '../../src/connectors/types.ts';
import { UpstreamError } from '../../src/errors.ts';
import { OPEN_PRINCIPAL as WHO } from '../../src/identity/principals.ts';
import type { JsonObject } from '../../src/json.ts';
import { httpBody, mcpBody, type Rig, startRig, startTarget, type Target } from './rig.ts';

let rig: Rig;
const targets: Target[] = [];
beforeAll(async () => {
  rig = await startRig();
});
afterEach(async () => {
  await Promise.all(targets.splice(0).map((target) => target.close()));
});
afterAll(() => rig.close());

async function target(...replies: Parameters<typeof startTarget>): Promise<Target> {
  const started = await startTarget(...replies);
  targets.push(started);
  return started;
}

async function execute(body: JsonObject, request: Partial<ActionRequest> = {}): Promise<ActionResponse> {
  const connector = await rig.connectors.load(await rig.create(body));
  return rig.connectors.execute(connector, { actionType: 'predict', parameters: {}, ...request });
}

describe('executing an action', () => {
  it('sends the rendered request and returns the answer', async () => {
    const { url, requests } = await target({ status: 201, headers: { 'x-request-id': 'r1' }, body: '{"a":1}' });
    const action = {
      url: `${url}/v1/\${parameters.model}?q=\${parameters.q}`,
      headers: { Authorization: 'Bearer ${credential.key}', 'X-Trace': '${parameters.trace}', Host: 'other' },
    };
    const body = httpBody(action, { parameters: { model: 'm 1', q: 'own' } });
    const answer = await execute(body, { parameters: { prompt: 'say "hi"', q: 'a&b', trace: 't' } });
    expect(answer).toMatchObject({ status: 201, body: '{"a":1}', headers: { 'x-request-id': 'r1' } });
    expect(requests).toHaveLength(1);
    expect(requests[0]).toMatchObject({ method: 'POST', url: '/v1/m%201?q=a%26b', body: '{"prompt":"say \\"hi\\""}' });
    expect(requests[0]?.headers).toMatchObject({
      authorization: 'Bearer secret-key',
      'content-type': 'application/json',
      'x-trace': 't',
      host: url.slice('http://'.length),
    });
  });

  it('sends the octets of a header, and one field for each name', async () => {
    const { url, requests } = await target();
    const headers = {
      Authorization: 'Bearer old',
      authorization: 'Bearer ${credential.key}',
      'Content-Type': 'text/x',
    };
    await execute(httpBody({ url, headers }, { credential: { key: 'ä€$&' } }), { parameters: { prompt: '' } });
    const [seen] = requests;
    expect(seen?.rawHeaders.filter((name) => name.toLowerCase() === 'authorization')).toHaveLength(1);
    expect(Buffer.from(seen?.headers.authorization ?? '', 'latin1').toString('utf8')).toBe('Bearer ä€$&');
    expect(seen?.headers['content-type']).toBe('text/x');
  });

  it('sends no body with GET, nor without a template', async () => {
    const { url, requests } = await target();
    await execute(httpBody({ url, method: 'get' }));
    await execute(httpBody({ url, request_body: null }));
    expect(requests.map(({ method, body }) => [method, body])).toEqual([
      ['GET', ''],
      ['POST', ''],
    ]);
    expect(requests[0]?.headers).not.toHaveProperty('content-type');
  });

  it('merges members into the body and keeps the digits beside them', async () => {
    const { url, requests } = await target();
    const request_body = '{"seed":12345678901234567890,"model":"${parameters.model}"}';
    const merge = (body: JsonObject) => ({ ...body, messages: [{ role: 'user' }] });
    await execute(httpBody({ url, request_body }), { parameters: { model: 'm' }, merge });
    await execute(httpBody({ url, request_body: null }), { merge });
    expect(requests.map(({ body }) => body)).toEqual([
      '{"seed":12345678901234567890,"model":"m","messages":[{"role":"user"}]}',
      '{"messages":[{"role":"user"}]}',
    ]);
  });

  it('inserts fragments of the platform, which parameters cannot set', async () => {
    const { url, requests } = await target();
    const request_body = '{"m":[${parameters._chat_history:-}1]}';
    const parameters = { _chat_history: '"injected",' };
    await execute(httpBody({ url, request_body }), { parameters, fragments: { _chat_history: '"h",' } });
    await execute(httpBody({ url, request_body }), { parameters });
    expect(requests.map(({ body }) => body)).toEqual(['{"m":["h",1]}', '{"m":[1]}']);
  });

  it.each<[string, JsonObject, Partial<ActionRequest>, string]>([
    ['a missing action', {}, { actionType: 'EXECUTE' }, 'no EXECUTE action found'],
    ['a placeholder without a value', {}, {}, 'Some parameter placeholder not filled in payload: prompt'],
    ['a body that is no JSON', { request_body: '{"a":' }, {}, 'Invalid payload: {"a":'],
    [
      'a header without a value',
      { headers: { A: '${parameters.a}' } },
      { parameters: { prompt: '' } },
      "Header 'A' uses ${parameters.a}, which has no value",
    ],
    [
      'a url without a value',
      { url: 'https://api.example.com/${parameters.m}' },
      {},
      "Parameter 'm' of the connector url has no value",
    ],
    [
      'members for a body that is no object',
      { request_body: '[]' },
      { merge: (body) => body },
      'must render to one JSON object',
    ],
  ])('refuses %s', async (_, action, request, message) => {
    await expect(execute(httpBody(action), request)).rejects.toMatchObject({
      statusCode: 400,
      message: expect.stringContaining(message),
    });
  });

  it('refuses a request that would change the host', async () => {
    const { url, requests } = await target();
    const host = url.slice('http://'.length);
    const body = httpBody({ url: 'http://${parameters.host}/v1' }, { parameters: { host } });
    await execute(body, { parameters: { prompt: 'x', host } });
    await expect(execute(body, { parameters: { prompt: 'x', host: 'evil.example.com' } })).rejects.toMatchObject({
      statusCode: 400,
      message: expect.stringContaining("Parameter 'host' cannot be changed by a request"),
    });
    expect(requests).toHaveLength(1);
  });

  it('refuses an address that is no longer allowed', async () => {
    const connector = await rig.connectors.load(await rig.create(httpBody()));
    const list = 'plugins.ml_commons.trusted_connector_endpoints_regex';
    await rig.settings.update({ persistent: { [list]: ['https://other.example.com/.*'] } });
    const request = { actionType: 'predict', parameters: { prompt: 'x' } };
    await expect(rig.connectors.execute(connector, request)).rejects.toMatchObject({ code: 'address_refused' });
    await rig.settings.update({ persistent: { [list]: null } });
  });

  it('tells that the connector was changed meanwhile', async () => {
    const id = await rig.create(httpBody());
    const outdated = await rig.connectors.load(id);
    const action = { action_type: 'predict', method: 'POST', url: 'https://other.example.com/' };
    await rig.connectors.update(WHO, id, { actions: [action], credential: { key: 'other' } });
    const request = { actionType: 'predict', parameters: { prompt: 'x' } };
    await expect(rig.connectors.execute(outdated, request)).rejects.toMatchObject({
      statusCode: 409,
      message: 'Connector chat was changed while the request was prepared. Send it again.',
    });
  });

  it('ends with the signal', async () => {
    const { url } = await target();
    const body = httpBody({ url });
    await expect(
      execute(body, { parameters: { prompt: '' }, signal: AbortSignal.abort(new Error('gone')) }),
    ).rejects.toThrow('gone');
  });

  it('knows the placeholders of a body', async () => {
    const connector = await rig.connectors.load(await rig.create(httpBody()));
    expect(rig.connectors.hasPlaceholder(connector, 'predict', 'prompt')).toBe(true);
    expect(rig.connectors.hasPlaceholder(connector, 'PREDICT', 'messages')).toBe(false);
    expect(rig.connectors.hasPlaceholder(connector, 'execute', 'prompt')).toBe(false);
  });
});

describe('repeating an action', () => {
  const RETRIES = { max_retry_times: 2, retry_backoff_millis: 1 };
  const request = { parameters: { prompt: 'x' } };

  it.each([429, 503])('happens when a %i asks for it and retries are configured', async (status) => {
    const busy = { status, headers: { 'retry-after': '0' } };
    const { url, requests } = await target(busy, busy, { body: '"done"' });
    expect(await execute(httpBody({ url }, { client_config: RETRIES }), request)).toMatchObject({
      status: 200,
      body: '"done"',
    });
    expect(requests).toHaveLength(3);
  });

  it('ends with the last answer', async () => {
    const { url, requests } = await target({ status: 429, headers: { 'retry-after': '0' }, body: '"busy"' });
    expect(await execute(httpBody({ url }, { client_config: RETRIES }), request)).toMatchObject({
      status: 429,
      body: '"busy"',
    });
    expect(requests).toHaveLength(3);
  });

  it.each<[string, JsonObject, { status: number; headers?: Record<string, string> }]>([
    ['retries are not configured', {}, { status: 429, headers: { 'retry-after': '0' } }],
    ['the answer names no wait', RETRIES, { status: 503 }],
    ['the answer is another failure', RETRIES, { status: 500, headers: { 'retry-after': '0' } }],
    [
      'the wait is longer than allowed',
      { ...RETRIES, retry_timeout_seconds: 1 },
      { status: 429, headers: { 'retry-after': '60' } },
    ],
  ])('does not happen when %s', async (_, client_config, reply) => {
    const { url, requests } = await target(reply);
    expect(await execute(httpBody({ url }, { client_config }), request)).toMatchObject({ status: reply.status });
    expect(requests).toHaveLength(1);
  });

  it('does not happen when the request may have been processed', async () => {
    const { url, requests } = await target('hang up');
    await expect(execute(httpBody({ url }, { client_config: RETRIES }), request)).rejects.toMatchObject({
      code: 'stream_broken',
      delivered: 'unknown',
    });
    expect(requests).toHaveLength(1);
  });

  it('happens when the request surely was not, and tells how often', async () => {
    const closed = await target();
    await closed.close();
    targets.length = 0;
    const failed = execute(httpBody({ url: closed.url }, { client_config: RETRIES }), request);
    await expect(failed).rejects.toBeInstanceOf(UpstreamError);
    await expect(failed).rejects.toMatchObject({
      code: 'connection_refused',
      attempts: 3,
      destination: 'connector "chat"',
    });
    expect(rig.lines.filter((line) => line.includes('connector chat is tried again')).length).toBeGreaterThanOrEqual(2);
  });
});

describe('inline connectors', () => {
  it('are checked, sealed to their owner, and executed like others', async () => {
    const { url, requests } = await target();
    const { document, sealed } = await rig.connectors.prepareInline('model/m1', httpBody({ url }));
    expect(document).not.toHaveProperty('credential');
    await rig.documents.insert('model', 'm1', { name: 'm1', body: { connector: document }, ...(sealed && { sealed }) });
    const connector = rig.connectors.inline('model/m1', document, 1);
    await rig.connectors.execute(connector, { actionType: 'predict', parameters: { prompt: 'x' } });
    expect(requests[0]?.headers.authorization).toBe('Bearer secret-key');
    await expect(rig.connectors.prepareInline('model/m1', httpBody({ url: 'http://10.0.0.1/' }))).rejects.toThrow(
      'Connector URL is not matching',
    );
    expect((await rig.connectors.prepareInline('model/m2', mcpBody())).sealed).toBeUndefined();
  });

  it('are updated like others', async () => {
    const { url, requests } = await target();
    const owner = 'model/m3';
    const { document, sealed } = await rig.connectors.prepareInline(
      owner,
      httpBody({ url }, { parameters: { a: '1' } }),
    );
    await rig.documents.insert('model', 'm3', { name: 'm3', body: { connector: document }, ...(sealed && { sealed }) });
    const kept = await rig.connectors.prepareInline(owner, { parameters: { b: 2 }, description: 'd' }, document);
    expect(kept).toEqual({
      document: { ...document, parameters: { a: '1', b: '2' }, description: 'd' },
      sealed: undefined,
    });
    const connector = rig.connectors.inline(owner, kept.document, 2);
    await rig.connectors.execute(connector, { actionType: 'predict', parameters: { prompt: 'x' } });
    expect(requests[0]?.headers.authorization).toBe('Bearer secret-key');
    const elsewhere = { actions: [{ action_type: 'predict', method: 'POST', url: 'https://other.example.com/' }] };
    await expect(rig.connectors.prepareInline(owner, elsewhere, document)).rejects.toThrow('without giving credential');
    const moved = await rig.connectors.prepareInline(owner, { ...elsewhere, credential: { key: 'k2' } }, document);
    expect(moved.sealed).toMatch(/^v1\./);
  });
});

describe('the endpoint of an MCP connector', () => {
  it('has its address, headers, origins and policy', async () => {
    const id = await rig.create(
      mcpBody({
        url: 'https://${parameters.host}/base/',
        parameters: { host: 'mcp.example.com:8443', endpoint: 'x' },
        credential: { username: 'svc', password: 'p:ä€' },
        headers: { Authorization: 'Basic ${credential.username}:${credential.password}', Accept: 'text/html' },
      }),
    );
    expect(await rig.connectors.mcpEndpoint(await rig.connectors.load(id))).toMatchObject({
      url: 'https://mcp.example.com:8443/base/x',
      headers: { Authorization: 'Basic c3ZjOnA6w6Tigqw=' },
      origins: ['https://mcp.example.com:8443'],
      policy: { trusted: undefined, loopbackAllowed: true },
    });
  });

  it.each(['trusted_connector_endpoints_regex', 'trusted_connector_private_endpoints_regex'])(
    'may be reached when its url is what %s names',
    async (list) => {
      const name = `plugins.ml_commons.${list}`;
      const url = list.includes('private') ? 'http://10.1.2.3' : 'https://mcp.example.com';
      await rig.settings.update({ persistent: { [name]: [url.replaceAll('.', '\\.')] } });
      const { policy } = await rig.connectors.mcpEndpoint(
        await rig.connectors.load(await rig.create(mcpBody({ url }))),
      );
      const patterns = (list.includes('private') ? policy.trustedPrivate : policy.trusted) ?? [];
      expect(patterns.some((pattern) => pattern.test(`${url}/mcp`))).toBe(true);
      expect(patterns.some((pattern) => pattern.test(`${url}/other`))).toBe(false);
      await rig.settings.update({ persistent: { [name]: null } });
    },
  );
});

describe('an answer that never ends', () => {
  it('is cut off at the total timeout, though it is never silent', async () => {
    let cut = false;
    const server = createServer((request, response) => {
      request.resume();
      response.writeHead(200, { 'content-type': 'application/json' });
      const drip = setInterval(() => response.write(' '), 50);
      response.on('close', () => {
        clearInterval(drip);
        cut = true;
      });
    });
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const stored = await rig.connectors.load(await rig.create(httpBody({ url })));
    const clientConfig = { ...stored.clientConfig, connection_timeout: 1, read_timeout: 1, max_total_timeout: 1 };
    const asked = rig.connectors.execute(
      { ...stored, clientConfig },
      { actionType: 'predict', parameters: { prompt: '' } },
    );
    await expect(asked).rejects.toMatchObject({
      code: 'response_timeout',
      statusCode: 504,
      message: 'connector "chat" did not finish its answer within 1 s.',
    });
    await expect.poll(() => cut).toBe(true);
    server.closeAllConnections();
    await new Promise((closed) => server.close(closed));
  });
});
