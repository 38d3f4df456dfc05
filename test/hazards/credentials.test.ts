import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { chatConnector } from '../support/rest.ts';
import { found, octetsOf, reasonOf, startRig, until } from './rig.ts';

const rig = startRig();
const NOWHERE = 'http://127.0.0.1:9';

const create = (more: JsonObject) =>
  rig.send('POST', '/connectors/_create', { name: 'weather', version: 1, protocol: 'mcp_streamable_http', ...more });

describe('a credential in a header', () => {
  it.each([
    "a$&b$$c$1$`d$'e\\f",
    '$&',
    '$$',
    '$1$2$<k>',
    '${credential.k}',
    '$<credential.other>',
    '${parameters.x:-y}',
    '\\r\\n\\u0000',
    '"quoted" \'and\' `ticked`',
    'pässwörd-€-日本-🦉',
    '%41%0d%0a&#36;',
    'tab\tinside',
    'x'.repeat(8192),
  ])('arrives as it was stored: %j', async (secret) => {
    const server = await rig.serve();
    const id = await rig.connector(server.origin, {
      credential: { k: secret, other: 'another-value' },
      headers: { 'X-Key': 'pre-${credential.k}-post' },
    });
    expect((await rig.call(id, 'echo', { text: 'hello' })).status).toBe(200);
    await rig.ok('PUT', `/connectors/${id}`, { headers: { 'X-Key': 'pre-$<credential.k>-post' } });
    expect((await rig.call(id, 'echo', { text: 'hello' })).status).toBe(200);
    expect(server.of('DELETE')).toHaveLength(1);
    for (const { headers } of server.requests) expect(headers['x-key']).toBe(octetsOf(`pre-${secret}-post`));
  });

  it('arrives as it was stored at a model provider too', async () => {
    const secret = "sk-$&$$$1$`$'\\é";
    const connector = { ...chatConnector(rig.llm.url), credential: { openai_key: secret } };
    const model = { name: 'own', function_name: 'remote', connector };
    const { model_id: id } = await rig.ok('POST', '/models/_register?deploy=true', model);
    await rig.ok('POST', `/models/${id}/_predict`, { parameters: { prompt: 'hello $& ${credential.openai_key}' } });
    const last = rig.llm.requests.at(-1);
    expect(last?.headers.authorization).toBe(octetsOf(`Bearer ${secret}`));
    expect(last?.messages).toEqual([{ role: 'user', content: 'hello $& ${credential.openai_key}' }]);
  });

  it('is sent with every request of a session, also the ones between the calls', async () => {
    const server = await rig.serve({
      on: { '*': ({ headers }) => (headers['x-api-key'] === 'v1-key' ? 'normal' : { status: 401 }) },
    });
    const id = await rig.connector(server.origin, {
      credential: { k: 'v1-key' },
      headers: { 'X-Api-Key': '${credential.k}' },
    });
    const agent = await rig.agent(id);
    rig.llm.reset({ tool: 'echo', args: '{"text":"a"}' }, 'done');
    expect((await rig.ask(agent, 'go')).answer).toBe('done');
    expect(await rig.status(id, '?probe=true')).toMatchObject({ status: 'connected' });
    server.forget();
    expect((await rig.call(id, 'echo', { text: 'b' })).status).toBe(200);
    await rig.ok('DELETE', `/connectors/${id}`);
    await until(() => server.of('DELETE').length > 0);
    expect(new Set(server.requests.map(({ rpc }) => rpc))).toEqual(
      new Set('server/discover initialize notifications/initialized GET tools/list tools/call ping DELETE'.split(' ')),
    );
    expect(server.requests.filter(({ headers }) => headers['x-api-key'] !== 'v1-key')).toEqual([]);
  });

  it('is sent with every request to a server of the stateless era', async () => {
    const server = await rig.serve({ modern: true });
    const id = await rig.connector(server.origin, {
      credential: { k: 'v1-key' },
      headers: { 'X-Api-Key': '${credential.k}' },
    });
    expect((await rig.call(id, 'echo', { text: 'b' })).status).toBe(200);
    expect(await rig.status(id, '?probe=true')).toMatchObject({ protocol_version: '2026-07-28' });
    expect(server.requests.length).toBeGreaterThan(3);
    expect(server.requests.filter(({ headers }) => headers['x-api-key'] !== 'v1-key')).toEqual([]);
  });
});

describe('a header template without a value', () => {
  it.each<[string, JsonObject, string, string]>([
    [
      'a key that is misspelt',
      { credential: { api_key: 'v' }, headers: { 'X-Key': '${credential.api_kye}' } },
      'X-Key',
      'api_kye',
    ],
    ['no credential at all', { headers: { Authorization: 'Bearer ${credential.t}' } }, 'Authorization', "'t'"],
    [
      'an empty credential',
      { credential: { t: '' }, headers: { Authorization: 'Bearer ${credential.t}' } },
      'Authorization',
      "'t'",
    ],
    ['an empty map', { credential: {}, headers: { Authorization: 'Bearer ${credential.t}' } }, 'Authorization', "'t'"],
    [
      'a null value',
      { credential: { t: null }, headers: { Authorization: 'Bearer ${credential.t}' } },
      'credential',
      "'t'",
    ],
    ['the other spelling', { credential: { a: 'v' }, headers: { 'X-Key': '$<credential.b>' } }, 'X-Key', "'b'"],
    [
      'a name of the prototype',
      { credential: { a: 'v' }, headers: { 'X-Key': '${credential.constructor}' } },
      'X-Key',
      'constructor',
    ],
    ['another case', { credential: { Token: 'v' }, headers: { 'X-Key': '${credential.token}' } }, 'X-Key', 'token'],
    ['one of two', { credential: { a: 'v' }, headers: { 'X-Key': '${credential.a}:${credential.b}' } }, 'X-Key', "'b'"],
    [
      'spaces inside',
      { credential: { a: 'v' }, headers: { 'X-Key': '${ credential.a }' } },
      'X-Key',
      '${ credential.a }',
    ],
    ['another word', { credential: { a: 'v' }, headers: { 'X-Key': '${credentials.a}' } }, 'X-Key', '${credentials.a}'],
    ['no key', { credential: { a: 'v' }, headers: { 'X-Key': '${credential.}' } }, 'X-Key', '${credential.}'],
  ])('is refused at create: %s', async (_name, members, header, named) => {
    const server = await rig.serve();
    const answer = await create({ url: server.origin, ...members });
    expect(answer.status).toBe(400);
    expect(reasonOf(answer)).toContain(header);
    expect(reasonOf(answer)).toContain(named);
    expect(server.requests).toEqual([]);
  });

  it.each<[string, JsonObject, string]>([
    ['a header that names another key', { headers: { 'X-Key': '${credential.api_kye}' } }, 'api_kye'],
    ['a credential without the key', { credential: { other: 'v' } }, 'api_key'],
    ['a credential that empties it', { credential: { api_key: '' } }, 'api_key'],
  ])('is refused at update, which then changes nothing: %s', async (_name, members, named) => {
    const server = await rig.serve();
    const id = await rig.connector(server.origin, {
      credential: { api_key: 'the-first' },
      headers: { 'X-Key': '${credential.api_key}' },
    });
    const answer = await rig.send('PUT', `/connectors/${id}`, members);
    expect(answer.status).toBe(400);
    expect(reasonOf(answer)).toContain(named);
    expect((await rig.call(id, 'echo', { text: 'x' })).status).toBe(200);
    for (const { headers } of server.requests) expect(headers['x-key']).toBe('the-first');
  });

  it('is refused at the call when it is a parameter that the call leaves empty', async () => {
    const connector = {
      ...chatConnector(rig.llm.url),
      actions: [
        {
          action_type: 'predict',
          method: 'POST',
          url: rig.llm.url,
          headers: { Authorization: 'Bearer ${credential.openai_key}', 'X-Tenant': '${parameters.tenant}' },
          request_body: '{"messages":[]}',
        },
      ],
    };
    const model = { name: 'tenants', function_name: 'remote', connector };
    const { model_id: id } = await rig.ok('POST', '/models/_register?deploy=true', model);
    rig.llm.reset();
    for (const parameters of [{ x: '1' }, { tenant: '' }]) {
      const answer = await rig.send('POST', `/models/${id}/_predict`, { parameters });
      expect(answer.status).toBe(400);
      expect(reasonOf(answer)).toMatch(/X-Tenant.*tenant/);
    }
    expect(rig.llm.requests).toEqual([]);
  });
});

describe('a value that would break a header', () => {
  it.each<[string, string]>([
    ['a further header', 'tok-9\r\nX-Admin: 1'],
    ['a line break at the end', 'tok-9\n'],
    ['a carriage return', 'tok-9\r'],
    ['a line feed in front', '\ntok-9'],
    ['a NUL', 'tok-9\0'],
    ['an escape', 'tok-9\u001b[2J'],
  ])('is refused without being shown, at create and update: %s', async (_name, token) => {
    const server = await rig.serve();
    const headers = { Authorization: 'Bearer ${credential.t}' };
    const created = await create({ url: server.origin, credential: { t: token }, headers });
    const id = await rig.connector(server.origin, { credential: { t: 'fine' }, headers });
    const updated = await rig.send('PUT', `/connectors/${id}`, { credential: { t: token } });
    for (const answer of [created, updated]) {
      expect(answer.status).toBe(400);
      expect(reasonOf(answer)).toMatch(/Authorization.*credential 't'/);
    }
    expect((await rig.call(id, 'echo', { text: 'x' })).status).toBe(200);
    for (const { headers: sent } of server.requests) {
      expect(sent['x-admin']).toBeUndefined();
      expect(sent.authorization).toBe('Bearer fine');
    }
    expect(found(rig.said(), 'tok-9')).toEqual([]);
  });

  it('is refused when the header name or its text holds it', async () => {
    for (const headers of [{ 'X-A: 1\r\nX-Admin': '1' }, { 'X-A': '1\r\nX-Admin: 1' }, { '': 'x' }, { 'X Y': 'x' }]) {
      const answer = await create({ url: NOWHERE, headers: headers as unknown as JsonObject });
      expect(answer.status).toBe(400);
    }
  });

  it('is refused when a call brings it', async () => {
    const connector = {
      ...chatConnector(rig.llm.url),
      actions: [
        {
          action_type: 'predict',
          method: 'POST',
          url: rig.llm.url,
          headers: { Authorization: 'Bearer ${credential.openai_key}', 'X-Tenant': '${parameters.tenant}' },
          request_body: '{"messages":[{"role":"user","content":"x"}]}',
        },
      ],
    };
    const model = { name: 'tenants', function_name: 'remote', connector };
    const { model_id: id } = await rig.ok('POST', '/models/_register?deploy=true', model);
    rig.llm.reset();
    const answer = await rig.send('POST', `/models/${id}/_predict`, { parameters: { tenant: 'acme\r\nX-Admin: 1' } });
    expect(answer.status).toBe(400);
    expect(reasonOf(answer)).toMatch(/X-Tenant.*'tenant'/);
    await rig.ok('POST', `/models/${id}/_predict`, { parameters: { tenant: 'acme' } });
    expect(rig.llm.requests.map(({ headers }) => headers['x-tenant'])).toEqual(['acme']);
  });
});

describe('basic authentication', () => {
  const template = 'Basic ${credential.username}:${credential.password}';
  const encoded = (text: string): string => `Basic ${Buffer.from(text, 'utf8').toString('base64')}`;

  it.each<[string, JsonObject, string, string]>([
    ['the colon and letters beyond ASCII', { username: 'svc', password: 'p:ä€' }, template, 'Basic c3ZjOnA6w6Tigqw='],
    ['an encoded value', { b64: 'c3ZjOng=' }, 'Basic ${credential.b64}', 'Basic c3ZjOng='],
    ['one credential that holds both', { both: 'svc:x' }, 'Basic ${credential.both}', 'Basic c3ZjOng='],
    ['several colons', { username: 'u', password: ':a::b:' }, template, encoded('u::a::b:')],
    ['a password that looks encoded', { username: 'u', password: 'c3ZjOng=' }, template, encoded('u:c3ZjOng=')],
    ['replacement patterns', { username: '$&', password: '$$' }, template, encoded('$&:$$')],
    ['spaces', { username: 'a user', password: ' x ' }, template, encoded('a user: x ')],
  ])('is encoded once, from UTF-8: %s', async (_name, credential, value, arriving) => {
    const server = await rig.serve();
    const id = await rig.connector(server.origin, { credential, headers: { Authorization: value } });
    expect((await rig.call(id, 'echo', { text: 'x' })).status).toBe(200);
    for (const { headers } of server.requests) expect(headers.authorization).toBe(arriving);
  });

  it('is not made of other schemes and other headers', async () => {
    const server = await rig.serve();
    const id = await rig.connector(server.origin, {
      credential: { t: 'a:b' },
      headers: { Authorization: 'Bearer ${credential.t}', 'X-Login': 'Basic ${credential.t}' },
    });
    expect((await rig.call(id, 'echo', { text: 'x' })).status).toBe(200);
    for (const { headers } of server.requests) {
      expect([headers.authorization, headers['x-login']]).toEqual(['Bearer a:b', 'Basic a:b']);
    }
  });
});

describe('header names that differ in case only', () => {
  const lines = (octets: string, name: string): string[] =>
    [...octets.matchAll(new RegExp(`^${name}: (.*)\r$`, 'gim'))].map(([, value = '']) => value);

  it.each<[string, JsonObject]>([
    [
      'written in another case',
      { authorization: 'Bearer ${credential.k}', Accept: 'text/html', 'mcp-session-id': 'zzz' },
    ],
    ['given twice', { Authorization: 'Bearer old', authorization: 'Bearer ${credential.k}' }],
    ['given twice, the other way round', { AUTHORIZATION: 'Bearer ${credential.k}', Authorization: 'Bearer old' }],
    [
      'that the transport owns',
      {
        Authorization: 'Bearer ${credential.k}',
        'MCP-Protocol-Version': '1999-01-01',
        'content-TYPE': 'text/plain',
        Host: 'elsewhere.example',
        'Content-Length': '3',
        'Transfer-Encoding': 'chunked',
        'Mcp-Session-Id': 'zzz',
        accept: 'text/html',
      },
    ],
  ])('are one field on the wire, and do not break the exchange: %s', async (_name, headers) => {
    const server = await rig.serve();
    const tap = await rig.tap(server);
    const id = await rig.connector(tap.url, { credential: { k: 'new-key' }, headers });
    expect((await rig.call(id, 'echo', { text: 'x' })).status).toBe(200);
    const octets = tap.octets();
    const requests = [...octets.matchAll(/(?:POST|GET|DELETE) \S+ HTTP\/1\.1\r\n/g)].length;
    expect(requests).toBe(server.requests.length);
    expect(lines(octets, 'authorization')).toEqual(Array(requests).fill('Bearer new-key'));
    const posts = server.requests.filter(({ method }) => method === 'POST');
    for (const { headers: sent } of posts) {
      expect(sent.accept).toMatch(/application\/json/);
      expect(sent.accept).toMatch(/text\/event-stream/);
      expect(sent['content-type']).toBe('application/json');
      expect(sent.host).toBe(tap.url.slice('http://'.length));
    }
    const afterwards = server.requests.filter(({ rpc }) => !['server/discover', 'initialize'].includes(rpc));
    for (const { headers: sent } of afterwards) {
      expect([sent['mcp-session-id'], sent['mcp-protocol-version']]).toEqual(['s-1', '2025-11-25']);
    }
    expect(server.of('initialize')[0]?.headers['mcp-session-id']).toBeUndefined();
    expect(lines(octets, 'mcp-session-id')).toEqual(Array(afterwards.length).fill('s-1'));
  });
});
