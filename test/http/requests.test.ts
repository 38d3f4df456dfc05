import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EMPTY_BODY } from '../../src/errors.ts';
import { type Edge, startEdge } from '../support/edge.ts';

const STRICT = {
  type: 'object',
  required: ['name'],
  properties: {
    name: { type: 'string' },
    client: { type: 'object', required: ['size'], properties: { size: { type: 'integer', minimum: 1 } } },
  },
};

let edge: Edge;
beforeAll(async () => {
  edge = await startEdge(async (app) => {
    app.get('/things/:id', { config: { queryParameters: ['probe'] } }, ({ params, query }) => ({ params, query }));
    app.delete('/things/:id', async () => ({ result: 'deleted' }));
    app.get('/search', { config: { bodyOnGet: true } }, ({ body }) => ({ body: body ?? 'none' }));
    app.post('/things/_create', async ({ body }) => ({ body }));
    app.post('/things/:id/_deploy', { config: { emptyBody: 'allowed' } }, ({ body }) => ({ body: body ?? 'none' }));
    app.post(
      '/io',
      { config: { emptyBody: () => new EMPTY_BODY('Create Connector request has empty body') } },
      async () => ({}),
    );
    app.post('/strict', { schema: { body: STRICT } }, async () => ({}));
    app.get('/nested', async () => ({ a: { b: 1, c: [{ d: 1, e: 2 }] }, f: 3 }));
  });
});
afterAll(() => edge.close());

interface Answer {
  status: number;
  headers: Headers;
  text: string;
  body: Record<string, unknown> & { error: Record<string, unknown> };
}
async function call(method: string, path: string, body?: string, type?: string): Promise<Answer> {
  const response = await fetch(edge.url + path, {
    method,
    headers: type === undefined ? {} : { 'content-type': type },
    ...(body === undefined ? {} : { body: Buffer.from(body) }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: text === '' ? {} : JSON.parse(text) };
}
const post = (path: string, body: string): Promise<Answer> => call('POST', path, body, 'application/json');

describe('paths and methods', () => {
  it('says that a path is unknown, without a status member', async () => {
    const answer = await call('GET', '/nowhere');
    expect(answer.status).toBe(400);
    expect(answer.body).toEqual({ error: 'no handler found for uri [/nowhere] and method [GET]' });
  });
  it('does so whatever the body is', async () => {
    const answer = await call('POST', '/nowhere', '{broken', 'application/json');
    expect(answer.body).toEqual({ error: 'no handler found for uri [/nowhere] and method [POST]' });
  });
  it('names the methods of a path that exists', async () => {
    const answer = await call('PUT', '/things/x', '{}', 'application/json');
    expect(answer.status).toBe(405);
    expect(answer.headers.get('allow')).toBe('DELETE, GET');
    expect(answer.body).toEqual({
      error: 'Incorrect HTTP method for uri [/things/x] and method [PUT], allowed: [DELETE, GET]',
      status: 405,
    });
  });
  it('tolerates a trailing slash', async () => {
    expect((await call('GET', '/things/x/')).body['params']).toEqual({ id: 'x' });
    expect((await call('PATCH', '/things/x/', '{}', 'application/json')).status).toBe(405);
  });
  it('refuses a path that cannot be decoded', async () => {
    const answer = await call('GET', '/things/%zz');
    expect(answer.status).toBe(400);
    expect(answer.body.error['type']).toBe('illegal_argument_exception');
  });
  it('refuses an id that is far too long', async () => {
    const answer = await call('GET', `/things/${'x'.repeat(5000)}`);
    expect(answer.status).toBe(400);
    expect(answer.body.error['reason']).toContain('too long');
  });
});

describe('query parameters', () => {
  it('accepts the server-wide ones and those of the route', async () => {
    const query = 'human&format=json&error_trace&probe=true';
    expect((await call('GET', `/things/x?${query}`)).status).toBe(200);
  });
  it('refuses any other by name', async () => {
    const answer = await call('GET', '/things/x/?nope=1');
    expect(answer.status).toBe(400);
    const reason = 'request [/things/x/] contains unrecognized parameter: [nope]';
    expect(answer.body.error).toMatchObject({ type: 'illegal_argument_exception', reason });
  });
  it('names several', async () => {
    expect((await call('GET', '/things/x?a=1&b=2')).body.error['reason']).toBe(
      'request [/things/x] contains unrecognized parameters: [a], [b]',
    );
  });
  it('prints pretty answers, errors too', async () => {
    expect((await call('GET', '/nested?pretty')).text).toBe(
      `${JSON.stringify({ a: { b: 1, c: [{ d: 1, e: 2 }] }, f: 3 }, null, 2)}\n`,
    );
    expect((await call('GET', '/nested?pretty=false')).text).not.toContain('\n');
    expect((await call('GET', '/nowhere?pretty=true')).text).toContain('{\n  "error"');
  });
  it.each([
    ['a.b', { a: { b: 1 } }],
    ['a.c.d,f', { a: { c: [{ d: 1 }] }, f: 3 }],
    ['**.e', { a: { c: [{ e: 2 }] } }],
    ['-a', { f: 3 }],
    ['nothing.here', {}],
  ])('shows the part that filter_path=%s names', async (path, expected) => {
    expect((await call('GET', `/nested?filter_path=${path}`)).body).toEqual(expected);
  });
  it('takes a body from source', async () => {
    const source = encodeURIComponent('{"query":{}}');
    const answer = await call('GET', `/search?source=${source}&source_content_type=application/json`);
    expect(answer.body).toEqual({ body: { query: {} } });
    expect((await call('GET', `/search?source=${source}`)).status).toBe(406);
  });
});

describe('media types', () => {
  it('needs one with a body', async () => {
    const answer = await edge.raw(
      'POST /things/_create HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}',
    );
    expect(answer).toMatch(/^HTTP\/1\.1 406 /);
    expect(answer).toContain('{"error":"Content-Type header is missing","status":406}');
  });
  it.each(['text/plain', 'application/x-www-form-urlencoded', 'application/json; charset=latin1', 'nonsense'])(
    'refuses %s',
    async (type) => {
      const answer = await call('POST', '/things/_create', '{}', type);
      expect(answer.status).toBe(406);
      expect(answer.body).toEqual({ error: `Content-Type header [${type}] is not supported`, status: 406 });
    },
  );
  it.each(['application/json', 'application/json; charset=utf-8', 'APPLICATION/JSON;charset="UTF-8"'])(
    'takes %s',
    async (type) => {
      expect((await call('POST', '/things/_create', '{}', type)).status).toBe(200);
    },
  );
  it.each(['GET', 'DELETE'])('takes %s with a media type and no body', async (method) => {
    expect((await call(method, '/things/x', undefined, 'application/json')).status).toBe(200);
  });
});

describe('bodies', () => {
  it.each([
    ['[]', 'START_ARRAY'],
    ['"text"', 'VALUE_STRING'],
    ['5', 'VALUE_NUMBER'],
    ['true', 'VALUE_BOOLEAN'],
    ['null', 'VALUE_NULL'],
  ])('refuses %s in place of an object', async (body, token) => {
    const answer = await post('/things/_create', body);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toMatchObject({
      type: 'parsing_exception',
      reason: `Failed to parse request body: expecting token of type [START_OBJECT] but found [${token}]`,
    });
  });
  it.each(['{"a":', '{"secret":"CANARY-77" "b"}', '{a:1}', ' ', '{"a":1}}', '{"a":NaN}', "{'a':1}"])(
    'refuses broken JSON %s without quoting it',
    async (body) => {
      const answer = await post('/things/_create', body);
      expect(answer.status).toBe(400);
      expect(answer.body.error['type']).toBe('json_parse_exception');
      expect(answer.text).not.toContain('CANARY');
    },
  );
  it('needs one where none is documented otherwise', async () => {
    for (const answer of [await post('/things/_create', ''), await call('POST', '/things/_create')]) {
      expect(answer.status).toBe(400);
      expect(answer.body.error).toMatchObject({ type: 'parse_exception', reason: 'request body is required' });
    }
  });
  it('answers an empty one as the route documents', async () => {
    const answer = await post('/io', '');
    expect(answer.status).toBe(500);
    expect(answer.body.error).toMatchObject({
      type: 'i_o_exception',
      reason: 'Create Connector request has empty body',
    });
    expect((await call('POST', '/things/x/_deploy')).body).toEqual({ body: 'none' });
  });
  it('reads one on GET for searches only', async () => {
    const payload = '{"query":{}}';
    const head = `Content-Type: application/json\r\nContent-Length: ${payload.length}\r\nConnection: close\r\n\r\n`;
    const search = await edge.raw(`GET /search HTTP/1.1\r\nHost: localhost\r\n${head}${payload}`);
    expect(search).toContain('{"body":{"query":{}}}');
    const refused = await edge.raw(`GET /things/x HTTP/1.1\r\nHost: localhost\r\n${head}${payload}`);
    expect(refused).toContain('request [GET /things/x] does not support having a body');
    expect(refused).toContain('illegal_argument_exception');
  });
  it.each([
    ['{}', 'illegal_argument_exception', '[name] is required'],
    ['{"name":5}', 'parsing_exception', '[name] must be string'],
    ['{"name":"n","client":[]}', 'parsing_exception', '[client] must be object'],
    ['{"name":"n","client":{}}', 'illegal_argument_exception', '[client.size] is required'],
    ['{"name":"n","client":{"size":0}}', 'illegal_argument_exception', '[client.size] must be >= 1'],
  ])('names the field that is wrong in %s', async (body, type, reason) => {
    const answer = await post('/strict', body);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toMatchObject({ type, reason });
  });
  it('keeps the last of two equal members and refuses __proto__', async () => {
    expect((await post('/things/_create', '{"a":1,"a":2}')).body['body']).toEqual({ a: 2 });
    for (const body of ['{"__proto__":{"x":1}}', '{"a":[{"\\u005f_proto__":1}]}']) {
      const answer = await post('/things/_create', body);
      expect(answer.status).toBe(400);
      expect(answer.body.error['reason']).toContain('__proto__');
    }
    expect(({} as Record<string, unknown>)['x']).toBeUndefined();
  });
});
