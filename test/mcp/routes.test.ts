import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connectionRoutes } from '../../src/http/routes/connections.ts';
import { type Edge, startEdge } from '../support/edge.ts';
import { type FakeMcpScript, type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { createRest, type Rest } from '../support/rest.ts';
import { openPool, type Pool } from './pool.ts';

describe('the routes of connections', () => {
  let pool: Pool;
  let edge: Edge;
  let rest: Rest;
  const servers: FakeMcpServer[] = [];

  async function serve(script: FakeMcpScript = {}): Promise<FakeMcpServer> {
    const server = await startFakeMcpServer(script);
    servers.push(server);
    pool.add('weather', `${server.origin}/mcp`, { config: { max_retry_times: 0, read_timeout: 1 } });
    return server;
  }

  beforeEach(async () => {
    pool = await openPool();
    edge = await startEdge(async (app) => {
      await app.register(connectionRoutes, {
        prefix: '/_plugins/_ml',
        sessions: pool.sessions,
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

  it('shows the status, asking the server only when told to', async () => {
    const server = await serve();
    expect((await rest.ok('GET', '/connectors/weather/_status')).status).toBe('idle');
    expect(server.requests).toEqual([]);
    const probed = await rest.ok('GET', '/connectors/weather/_status?probe=true');
    expect(probed).toMatchObject({
      connector_id: 'weather',
      status: 'connected',
      tool_count: 1,
      tools: [{ name: 'echo', offered_as: 'echo', state: 'available' }],
      protocol_version: '2025-11-25',
      breaker: { state: 'closed', failures: 0 },
      actions: ['disable'],
    });
    expect(await rest.ok('GET', '/connectors/_status')).toMatchObject({ connectors: [{ connector_id: 'weather' }] });
  });

  it('lists tools in the documented shape', async () => {
    await serve();
    expect(await rest.ok('GET', '/connectors/weather/tools')).toEqual({
      tools: [
        {
          name: 'echo',
          type: 'McpStreamableHttpTool',
          description: 'Says it back.',
          input_schema: JSON.stringify({
            type: 'object',
            properties: { text: { type: 'string' } },
            required: ['text'],
          }),
        },
      ],
    });
  });

  it('calls a tool by its own name, percent-encoded, or by its offered one', async () => {
    const server = await serve({ tools: [{ name: 'a/b c', inputSchema: { type: 'object' } }] });
    for (const name of [encodeURIComponent('a/b c'), 'weather_a_b_c']) {
      expect(await rest.ok('POST', `/connectors/weather/tools/${name}/_execute`, { arguments: { x: 1 } })).toEqual({
        content: [{ type: 'text', text: 'a/b c: {"x":1}' }],
        isError: false,
      });
    }
    for (const { message } of server.of('tools/call')) expect(message?.params).toMatchObject({ name: 'a/b c' });
    expect(pool.audited).toHaveLength(2);
  });

  it('answers 200 to a failing tool, with what it said', async () => {
    const content = [{ type: 'text', text: 'no such city' }];
    await serve({ on: { 'tools/call': { result: { content, structuredContent: { a: 1 }, isError: true } } } });
    expect(await rest.ok('POST', '/connectors/weather/tools/echo/_execute', {})).toEqual({
      content,
      structuredContent: { a: 1 },
      isError: true,
    });
  });

  it('answers 404 to an unknown connector or tool', async () => {
    await serve();
    expect(await rest.send('GET', '/connectors/nobody/tools')).toMatchObject({
      status: 404,
      body: { error: { type: 'status_exception', reason: 'Failed to find connector:nobody' }, status: 404 },
    });
    expect((await rest.send('GET', '/connectors/nobody/_status')).status).toBe(404);
    expect((await rest.send('POST', '/connectors/weather/tools/nothing/_execute', {})).status).toBe(404);
  });

  it('answers 400 to a connector of another protocol and to arguments that are no object', async () => {
    await serve();
    pool.add('chat', 'http://127.0.0.1:9/', { protocol: 'http' });
    expect(await rest.send('GET', '/connectors/chat/tools')).toMatchObject({
      status: 400,
      body: {
        error: {
          type: 'illegal_argument_exception',
          reason: 'Connector with ID chat is not of type McpConnector or McpStreamableHttpConnector',
        },
      },
    });
    expect((await rest.send('POST', '/connectors/weather/tools/echo/_execute', { arguments: [1] })).status).toBe(400);
  });

  it('answers 500 with the documented text when MCP is switched off', async () => {
    await serve();
    pool.setEnabled(false);
    expect(await rest.send('GET', '/connectors/weather/tools')).toMatchObject({
      status: 500,
      body: { error: { type: 'exception', reason: expect.stringContaining('mcp_connector_enabled') } },
    });
  });

  it.each([
    { name: 'a sign-in that is missing', reply: { status: 401 }, status: 409, more: { action: 'authenticate' } },
    {
      name: 'another kind of server',
      reply: { status: 200, headers: { 'Content-Type': 'text/html' }, body: '<p>' },
      status: 502,
    },
    { name: 'a refusal', reply: { status: 403 }, status: 502 },
  ])('answers $status to $name', async ({ reply, status, more = {} }) => {
    await serve({ on: { '*': reply } });
    const answer = await rest.send('GET', '/connectors/weather/tools');
    expect(answer).toMatchObject({ status, body: { error: { type: 'status_exception', ...more }, status } });
  });

  it('answers 502 to a server that is not there, 503 with the wait once the breaker is open', async () => {
    const server = await serve();
    await server.stop();
    for (let round = 0; round < 3; round += 1) {
      expect((await rest.send('GET', '/connectors/weather/tools')).status).toBe(502);
    }
    const refused = await rest.send('GET', '/connectors/weather/tools');
    expect(refused.status).toBe(503);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  });

  it('answers 504 to a call that does not end, and 502 to one that breaks off', async () => {
    const server = await serve({ on: { 'tools/call': { hold: 'never' } } });
    const late = await rest.send('POST', '/connectors/weather/tools/echo/_execute', {});
    expect(late).toMatchObject({ status: 504, body: { error: { reason: expect.stringContaining('outcome') } } });
    server.on('tools/call', { reset: true });
    expect((await rest.send('POST', '/connectors/weather/tools/echo/_execute', {})).status).toBe(502);
  });
});
