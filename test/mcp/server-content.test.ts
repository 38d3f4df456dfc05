import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { serverContentRoutes } from '../../src/http/routes/server-content.ts';
import type { JsonObject } from '../../src/json.ts';
import { type Edge, startEdge } from '../support/edge.ts';
import { type FakeMcpScript, type FakeMcpServer, type Reply, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { type McpPeer, startEverythingServer } from '../support/mcp-peers.ts';
import { createRest, type Rest } from '../support/rest.ts';
import { openPool, type Pool } from './pool.ts';

const capabilities = { tools: {}, resources: {}, prompts: {} };

describe('prompts and resources of servers', () => {
  let pool: Pool;
  let edge: Edge;
  let rest: Rest;
  const servers: FakeMcpServer[] = [];

  async function serve(on: FakeMcpScript['on'], more: FakeMcpScript = {}, headers = {}): Promise<FakeMcpServer> {
    const server = await startFakeMcpServer({ capabilities, ...more, on: on ?? {} });
    servers.push(server);
    pool.add('docs', `${server.origin}/mcp`, { headers, config: { max_retry_times: 0, read_timeout: 1 } });
    return server;
  }
  const params = (server: FakeMcpServer, rpc: string): unknown[] =>
    server.of(rpc).map(({ message }) => message?.params);
  const reason = (answer: { body: unknown }): string => (answer.body as { error: { reason: string } }).error.reason;

  beforeEach(async () => {
    pool = await openPool();
    edge = await startEdge(async (app) => {
      await app.register(serverContentRoutes, {
        prefix: '/_plugins/_ml',
        content: pool.sessions,
        connectors: pool.connectors,
      });
    });
    rest = createRest(edge.url);
  });
  afterEach(async () => {
    await edge.close();
    await pool.dispose();
    await Promise.all(servers.splice(0).map((server) => server.stop()));
  });

  it('are listed once each when the cursors of their server go in circles', async () => {
    const server = await serve({
      'prompts/list': { result: { prompts: [{ name: 'a' }, { name: 'b' }], nextCursor: 'again' } },
      'resources/list': [
        { result: { resources: [{ uri: 'x://1' }], nextCursor: 'c' } },
        { result: { resources: [{ uri: 'x://2' }], nextCursor: 'd' } },
        { result: { resources: [{ uri: 'x://1' }], nextCursor: 'c' } },
      ],
    });
    expect(await rest.ok('GET', '/connectors/docs/prompts')).toEqual({ prompts: [{ name: 'a' }, { name: 'b' }] });
    expect(server.of('prompts/list')).toHaveLength(2);
    expect(await rest.ok('GET', '/connectors/docs/resources')).toEqual({
      resources: [{ uri: 'x://1' }, { uri: 'x://2' }],
    });
    expect(server.of('resources/list')).toHaveLength(3);
  });

  it('are listed over all their pages, as the server gives them', async () => {
    const one = { uri: 'x://1', name: 'one', annotations: { audience: ['user'] }, size: 7 };
    const server = await serve({
      'resources/list': [
        { result: { resources: [one, 'odd'], nextCursor: 'c' } },
        { result: { resources: [{ uri: 'x://2' }] } },
      ],
      'prompts/list': { result: { prompts: [{ name: 'greet', arguments: [{ name: 'who', required: true }] }] } },
    });
    expect(await rest.ok('GET', '/connectors/docs/resources')).toEqual({ resources: [one, { uri: 'x://2' }] });
    expect(params(server, 'resources/list')[1]).toMatchObject({ cursor: 'c' });
    expect(await rest.ok('GET', '/connectors/docs/prompts')).toEqual({
      prompts: [{ name: 'greet', arguments: [{ name: 'who', required: true }] }],
    });
  });

  it('end where the pages go in circles', async () => {
    const server = await serve({ 'resources/list': { result: { resources: [{ uri: 'x://1' }], nextCursor: 'c' } } });
    expect(await rest.ok('GET', '/connectors/docs/resources')).toEqual({ resources: [{ uri: 'x://1' }] });
    expect(server.of('resources/list')).toHaveLength(2);
  });

  it('are read: texts without our credential, binary contents untouched', async () => {
    const blob = Buffer.from([0, 255, 1, 254]).toString('base64');
    const contents = [
      { uri: 'x://1', mimeType: 'text/plain', text: 'key: very-secret-credential' },
      { uri: 'x://1', mimeType: 'image/png', blob },
    ];
    const server = await serve(
      { 'resources/read': { result: { contents } } },
      {},
      { 'X-Key': 'very-secret-credential' },
    );
    expect(await rest.ok('POST', '/connectors/docs/resources/_read', { uri: 'x://a b' })).toEqual({
      contents: [{ uri: 'x://1', mimeType: 'text/plain', text: 'key: [redacted]' }, contents[1]],
    });
    expect(params(server, 'resources/read')).toMatchObject([{ uri: 'x://a b' }]);
  });

  it('are got with arguments, by a percent-encoded name', async () => {
    const messages = [{ role: 'user', content: { type: 'text', text: 'Hello Ann' } }];
    const server = await serve({ 'prompts/get': { result: { description: 'Greets', messages, _meta: { x: 1 } } } });
    const got = await rest.ok('POST', '/connectors/docs/prompts/gr%C3%BC%C3%9Fe%2F1/_get', {
      arguments: { who: 'Ann' },
    });
    expect(got).toEqual({ description: 'Greets', messages });
    expect(params(server, 'prompts/get')).toMatchObject([{ name: 'grüße/1', arguments: { who: 'Ann' } }]);
    await rest.ok('POST', '/connectors/docs/prompts/greet/_get');
    expect(params(server, 'prompts/get')[1]).toMatchObject({ name: 'greet', arguments: {} });
  });

  it.each([
    ['POST', '/connectors/docs/resources/_read', {}, 'uri must be a text'],
    ['POST', '/connectors/docs/resources/_read', { uri: 5 }, 'uri must be a text'],
    ['POST', '/connectors/docs/prompts/greet/_get', { arguments: [] }, 'arguments must be an object'],
    ['POST', '/connectors/docs/prompts/greet/_get', { arguments: { who: 5 } }, 'arguments.who must be a text'],
  ])('are refused with 400: %s %s %o', async (method, path, body, text) => {
    const server = await serve({});
    const answer = await rest.send(method, path, body);
    expect([answer.status, reason(answer)]).toEqual([400, expect.stringContaining(text)]);
    expect(server.requests).toEqual([]);
  });

  it.each([-32602, -32002])('are a 404 where the server does not know them: error %i', async (code) => {
    await serve({ 'resources/read': { error: { code, message: 'Resource not found' } } });
    const answer = await rest.send('POST', '/connectors/docs/resources/_read', { uri: 'x://none' });
    expect([answer.status, reason(answer)]).toEqual([
      404,
      'Connector docs has no resource x://none; GET /_plugins/_ml/connectors/docs/resources lists them',
    ]);
    expect((await pool.sessions.report('docs')).status).toBe('connected');
  });

  it('are a 404 when no prompt has that name, and a 400 when its arguments are refused', async () => {
    await serve({
      'prompts/get': { error: { code: -32602, message: 'Missing argument who' } },
      'prompts/list': { result: { prompts: [{ name: 'greet' }] } },
    });
    const missing = await rest.send('POST', '/connectors/docs/prompts/none/_get', {});
    expect([missing.status, reason(missing)]).toEqual([404, expect.stringContaining('has no prompt named none')]);
    const refused = await rest.send('POST', '/connectors/docs/prompts/greet/_get', {});
    expect([refused.status, reason(refused)]).toEqual([400, expect.stringContaining('Missing argument who')]);
  });

  it.each([
    ['does not declare them', { tools: {} }, undefined],
    ['does not know the method', capabilities, { error: { code: -32601, message: 'Method not found' } }],
  ] as [string, JsonObject, Reply | undefined][])('are a 404 where the server %s', async (_name, declared, reply) => {
    const on = reply === undefined ? {} : { 'resources/list': reply, 'prompts/get': reply };
    await serve(on, { capabilities: declared });
    const resources = await rest.send('GET', '/connectors/docs/resources');
    expect([resources.status, reason(resources)]).toEqual([404, 'The server of connector docs offers no resources']);
    const prompt = await rest.send('POST', '/connectors/docs/prompts/greet/_get', {});
    expect([prompt.status, reason(prompt)]).toEqual([404, 'The server of connector docs offers no prompts']);
  });

  it('are a 404 without the connector and a 400 where it is none to an MCP server', async () => {
    pool.add('plain', 'http://127.0.0.1:1/', { protocol: 'http' });
    expect((await rest.send('GET', '/connectors/none/resources')).status).toBe(404);
    expect((await rest.send('GET', '/connectors/plain/prompts')).status).toBe(400);
  });

  it.each([
    ['an answer without contents', { result: {} }, 502],
    ['an internal error', { error: { code: -32603, message: 'oops' } }, 502],
    ['silence', { hold: 'never' }, 504],
    ['401', { status: 401 }, 409],
    ['429', { status: 429, headers: { 'Retry-After': '7' } }, 503],
  ] as [string, Reply, number][])('fail with the status of the server: %s', async (_name, reply, status) => {
    await serve({ 'resources/read': reply });
    expect((await rest.send('POST', '/connectors/docs/resources/_read', { uri: 'x://1' })).status).toBe(status);
  });

  it('turn the status before the answer of the read that found the server gone', async () => {
    const server = await serve({});
    await pool.sessions.tools('docs');
    await server.stop();
    expect((await rest.send('GET', '/connectors/docs/resources')).status).toBe(502);
    expect((await pool.sessions.report('docs')).status).toBe('failed');
    await server.start();
  });

  it('are read once more in a new session when the server no longer knew the old one', async () => {
    const server = await serve({ 'resources/list': ['normal', { result: { resources: [{ uri: 'x://1' }] } }] });
    await pool.sessions.tools('docs');
    server.forget();
    expect(await rest.ok('GET', '/connectors/docs/resources')).toEqual({ resources: [{ uri: 'x://1' }] });
    expect(server.of('initialize')).toHaveLength(2);
  });

  it('answer the questions of a server of the stateless era by policy', async () => {
    const request = {
      method: 'elicitation/create',
      params: { message: '?', requestedSchema: { type: 'object', properties: {} } },
    };
    const asks = { result: { resultType: 'input_required', inputRequests: { q: request }, requestState: 's' } };
    const messages = [{ role: 'user', content: { type: 'text', text: 'hi' } }];
    const server = await serve(
      { 'prompts/get': [asks, { result: { resultType: 'complete', messages } }] },
      { modern: true },
    );
    expect(await rest.ok('POST', '/connectors/docs/prompts/greet/_get', {})).toEqual({ messages });
    expect(params(server, 'prompts/get')[1]).toMatchObject({
      name: 'greet',
      inputResponses: { q: { action: 'decline' } },
      requestState: 's',
    });
    expect(server.of('prompts/get')[1]?.headers['mcp-name']).toBe('greet');
  });

  it('are those of the everything server', async () => {
    let peer: McpPeer | undefined;
    try {
      peer = await startEverythingServer();
      pool.add('everything', peer.url);
      const { resources } = (await rest.ok('GET', '/connectors/everything/resources')) as {
        resources: { uri: string }[];
      };
      expect(resources.length).toBeGreaterThan(3);
      const { contents } = (await rest.ok('POST', '/connectors/everything/resources/_read', {
        uri: resources[0]?.uri ?? '',
      })) as { contents: JsonObject[] };
      expect(contents[0]).toHaveProperty('uri', resources[0]?.uri);
      const { prompts } = (await rest.ok('GET', '/connectors/everything/prompts')) as { prompts: { name: string }[] };
      expect(prompts.map(({ name }) => name)).toContain('simple-prompt');
      const { messages } = await rest.ok('POST', '/connectors/everything/prompts/simple-prompt/_get', {});
      expect(messages).toHaveLength(1);
      expect((await rest.send('POST', '/connectors/everything/prompts/none/_get', {})).status).toBe(404);
    } finally {
      await peer?.stop();
    }
  });
});
