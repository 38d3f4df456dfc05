import { request as httpRequest } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import type { McpCallResult } from '../../src/mcp/types.ts';
import { startApp, type TestAnswer, type TestApp } from '../support/build-app.ts';
import { type FakeLlmServer, startFakeLlm } from '../support/fake-llm-server.ts';
import {
  type FakeMcpScript,
  type FakeMcpServer,
  type RecordedRequest,
  startFakeMcpServer,
} from '../support/fake-mcp-server.ts';
import { userPrincipal } from '../support/principals.ts';
import { createRest, registerChatModel } from '../support/rest.ts';
import { openPool, type Pool } from './pool.ts';

const ANN = userPrincipal('ann');
const BOB = userPrincipal('bob');
const ENABLED = 'plugins.ml_commons.mcp_header_passthrough_enabled';
const ONE_YEAR = 31_536_000_000;

const servers: FakeMcpServer[] = [];
async function serve(script: FakeMcpScript = {}): Promise<FakeMcpServer> {
  const server = await startFakeMcpServer(script);
  servers.push(server);
  return server;
}
afterEach(() => Promise.all(servers.splice(0).map((server) => server.stop())));

function sessionsOf(server: FakeMcpServer): string[] {
  return [...new Set(server.of('tools/call').map(({ headers }) => String(headers['mcp-session-id'])))];
}

describe('sessions with headers of their callers', () => {
  let pool: Pool;
  let time = 0;
  beforeEach(async () => {
    time = Date.now();
    pool = await openPool({ sweepMs: 20, idleMs: ONE_YEAR, maxSessions: 3 }, () => time);
  });
  afterEach(() => pool.dispose());

  const call = (principal: typeof ANN, token?: string): Promise<McpCallResult> =>
    pool.call('weather', 'echo', { text: 'hi' }, { principal, ...(token && { callerHeaders: { 'x-token': token } }) });

  async function weather(script: FakeMcpScript = {}): Promise<FakeMcpServer> {
    const server = await serve(script);
    const options = { passthroughHeaders: ['X-Token'], headers: { 'X-Own': 'stays' }, config: { max_retry_times: 0 } };
    pool.add('weather', `${server.origin}/mcp`, options);
    return server;
  }

  it('are one for each caller and value, and carry that value on every request', async () => {
    const server = await weather();
    for (const [who, token] of [
      [ANN, 'ann-token-1'],
      [BOB, 'bob-token-1'],
      [ANN, 'ann-token-1'],
      [ANN, 'ann-token-2'],
      [BOB, 'ann-token-1'],
    ] as const) {
      await call(who, token);
    }
    expect(sessionsOf(server)).toHaveLength(4);
    for (const { headers } of server.requests) {
      expect(headers['x-token']).toMatch(/^(ann|bob)-token-\d$/);
      expect(headers['x-own']).toBe('stays');
    }
    const bySession = new Map<string, Set<unknown>>();
    for (const { headers } of server.requests) {
      const id = String(headers['mcp-session-id']);
      bySession.set(id, (bySession.get(id) ?? new Set()).add(headers['x-token']));
    }
    bySession.delete('undefined');
    expect([...bySession.values()].map((values) => values.size)).toEqual([1, 1, 1, 1]);
  });

  it('stay apart from the shared one, which callers without such headers use', async () => {
    const server = await weather();
    await call(ANN);
    await call(BOB);
    await call(ANN, 'ann-token-1');
    expect(sessionsOf(server)).toHaveLength(2);
    expect(server.of('tools/call').map(({ headers }) => headers['x-token'])).toEqual([
      undefined,
      undefined,
      'ann-token-1',
    ]);
  });

  it('keep their failures and their tools to themselves', async () => {
    const own = (request: RecordedRequest) => request.headers['x-token'] !== undefined;
    await weather({
      on: {
        '*': (request) => (request.headers['x-token'] === 'bad-token' ? { status: 401 } : 'normal'),
        'tools/list': (request) =>
          own(request) ? { result: { tools: [{ name: 'secret_tool', inputSchema: { type: 'object' } }] } } : 'normal',
      },
    });
    await call(ANN);
    await expect(call(BOB, 'bad-token')).rejects.toMatchObject({ code: 'auth_required' });
    await call(ANN, 'ann-token-1');
    const report = await pool.sessions.report('weather');
    expect(report).toMatchObject({ status: 'connected', caller_sessions: 1, breaker: { failures: 0 } });
    expect(report.tools.map(({ name }) => name)).toEqual(['echo']);
    const caller = { principal: ANN, headers: { 'x-token': 'ann-token-1' } };
    expect((await pool.sessions.tools('weather', { caller })).tools.map(({ name }) => name)).toEqual(['secret_tool']);
    expect((await pool.sessions.tools('weather')).tools.map(({ name }) => name)).toEqual(['echo']);
    expect((await pool.connections.history('weather', 50)).map(({ to }) => to)).not.toContain('auth_required');
  });

  it('are closed when idle, and beyond the limit of open ones the oldest first', async () => {
    const server = await weather();
    for (const token of ['token-1', 'token-2', 'token-3', 'token-4']) {
      time += 1;
      await call(ANN, token);
    }
    expect((await server.seen('DELETE')).headers['x-token']).toBe('token-1');
    time += ONE_YEAR;
    await server.seen('DELETE', 4);
    expect(new Set(server.of('DELETE').map(({ headers }) => headers['x-token'])).size).toBe(4);
    expect(await pool.sessions.report('weather')).toMatchObject({ caller_sessions: 0 });
  });

  it.each(['updated', 'deleted', 'reset', 'shut down'])('are closed when their connector is %s', async (how) => {
    const server = await weather();
    await call(ANN, 'ann-token-1');
    if (how === 'updated') await pool.update('weather', {});
    else if (how === 'deleted') await pool.remove('weather');
    else if (how === 'reset') await pool.sessions.reset('weather', 'told to');
    else await pool.sessions.close(1000);
    expect((await server.seen('DELETE')).headers['x-token']).toBe('ann-token-1');
  });

  it('leave no value in a log line or an audit row', async () => {
    await weather({ on: { 'tools/call': { error: { code: -32000, message: 'not for ann-token-1' } } } });
    const result = await call(ANN, 'ann-token-1');
    expect(JSON.stringify([result.content, pool.audited, pool.lines])).not.toContain('ann-token-1');
    expect(pool.redactor.clean('the ann-token-1')).toBe('the [redacted]');
    expect(pool.lines.join('')).toContain(ANN.id);
  });

  it('share the limit of calls at a time with everybody', async () => {
    let running = 0;
    let most = 0;
    const server = await serve({
      on: {
        'tools/call': async () => {
          running += 1;
          most = Math.max(most, running);
          await new Promise((done) => setTimeout(done, 30));
          running -= 1;
          return 'normal' as const;
        },
      },
    });
    pool.add('weather', `${server.origin}/mcp`, { passthroughHeaders: ['x-token'], config: { max_connection: 1 } });
    await Promise.all([call(ANN, 'token-a'), call(BOB, 'token-b'), call(ANN)]);
    expect(server.of('tools/call')).toHaveLength(3);
    expect(most).toBe(1);
  });
});

describe('headers of the caller, over the wire', () => {
  const KEY = 'tenon-key-canary-1';
  const CANARIES = { cookie: 'session=cookie-canary-2', 'x-api-key': 'api-key-canary-3', 'x-other': 'other-canary-4' };
  let app: TestApp;
  let llm: FakeLlmServer;
  beforeEach(async () => {
    [app, llm] = await Promise.all([
      startApp({ config: { apiKey: KEY, trustedPrivateEndpoints: ['^http://127\\.0\\.0\\.1:\\d+/.*$'] } }),
      startFakeLlm({ strict: true }),
    ]);
  });
  afterEach(async () => {
    await Promise.all([app.close(), llm.close()]);
  });

  const send = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
    app.request(method, path.startsWith('/_') ? path : `/_plugins/_ml${path}`, body, {
      authorization: `Bearer ${KEY}`,
      ...headers,
    });
  const enable = () => send('PUT', '/_cluster/settings', { persistent: { [ENABLED]: true } });

  async function connector(url: string, more: JsonObject = {}): Promise<string> {
    const {
      status,
      body,
      text: reason,
    } = await send('POST', '/connectors/_create', {
      name: 'weather',
      version: 1,
      protocol: 'mcp_streamable_http',
      url,
      passthrough_headers: ['X-User-Token', 'aws-region'],
      client_config: { max_retry_times: 0 },
      ...more,
    });
    if (status !== 200) throw new Error(reason);
    return String(body['connector_id']);
  }
  const callTool = (id: string, headers: Record<string, string>): Promise<TestAnswer> =>
    send('POST', `/connectors/${id}/tools/echo/_execute`, { arguments: { text: 'hi' } }, headers);

  function everythingSent(server: FakeMcpServer): string {
    return JSON.stringify(server.requests.map(({ path, headers, body }) => [path, headers, body]));
  }

  it('go on to the server whose connector names them, and to no other', async () => {
    await enable();
    const [named, other] = await Promise.all([serve(), serve()]);
    const sent = { 'x-user-token': 'user-canary-5', 'aws-region': 'eu-north-1', ...CANARIES };
    expect((await callTool(await connector(named.origin), sent)).status).toBe(200);
    expect((await callTool(await connector(other.origin, { passthrough_headers: ['x-nothing'] }), sent)).status).toBe(
      200,
    );
    for (const { headers } of named.requests) {
      expect(headers).toMatchObject({ 'x-user-token': 'user-canary-5', 'aws-region': 'eu-north-1' });
    }
    for (const server of [named, other]) expect(everythingSent(server)).not.toMatch(/canary-[1-4]/);
    expect(everythingSent(other)).not.toContain('canary-5');
    expect(app.lines.join('')).not.toMatch(/canary-[1-5]/);
  });

  it('go on through an agent, to the server and not to the model', async () => {
    await enable();
    const server = await serve();
    const rest = createRest(app.url);
    const authorised = {
      ...rest,
      ok: async (method: string, path: string, body?: unknown) => (await send(method, path, body)).body as JsonObject,
    };
    const { body: agent } = await send('POST', '/agents/_register', {
      name: 'helper',
      type: 'conversational',
      llm: { model_id: await registerChatModel(authorised, llm.url) },
      tools: [{ type: 'MCPTool', parameters: { connector_id: await connector(server.origin) } }],
    });
    llm.reset({ tool: 'echo', args: '{"text":"hi"}' }, { text: 'done' });
    const asked = await send(
      'POST',
      `/agents/${String(agent['agent_id'])}/_execute`,
      { parameters: { question: 'hi?' } },
      { 'x-user-token': 'user-canary-5', ...CANARIES },
    );
    expect([asked.status, asked.text]).toEqual([200, expect.stringContaining('done')]);
    expect(server.of('tools/call')).toHaveLength(1);
    for (const { headers } of server.requests) expect(headers['x-user-token']).toBe('user-canary-5');
    expect(everythingSent(server)).not.toMatch(/canary-[1-4]/);
    expect(JSON.stringify(llm.requests)).not.toContain('canary');
    expect(app.lines.join('')).not.toContain('canary');
  });

  it('follow a redirect within the origin only', async () => {
    await enable();
    const elsewhere = await serve();
    const server = await serve({
      on: { 'POST /moved/mcp': 'normal', '*': { status: 307, headers: { Location: '/moved/mcp' } } },
    });
    const within = await callTool(await connector(server.origin), { 'x-user-token': 'user-canary-5', ...CANARIES });
    expect(within.status).toBe(200);
    expect(everythingSent(server)).not.toMatch(/canary-[1-4]/);
    const away = await serve({ on: { '*': { status: 307, headers: { Location: `${elsewhere.origin}/mcp` } } } });
    const refused = await callTool(await connector(away.origin), { 'x-user-token': 'user-canary-5', ...CANARIES });
    expect(refused.status).toBe(502);
    expect(elsewhere.requests).toEqual([]);
    expect(refused.text).not.toContain('canary');
  });

  it.each([
    'authorization',
    'Authorization',
    'Proxy-Authorization',
    'cookie',
    'X-API-Key',
    'x_api_key',
    'Proxy_Authorization',
    'Cookie2',
    'Set-Cookie',
    'set_cookie',
    'Mcp_Session_Id',
    'X_Tenon_Exchange',
    'Host',
    'Mcp-Session-Id',
    'x-tenon-exchange',
  ])('are refused at create when they are named %s', async (name) => {
    const body = { name: 'weather', version: 1, protocol: 'mcp_streamable_http', url: 'http://127.0.0.1:9/' };
    const answer = await send('POST', '/connectors/_create', { ...body, passthrough_headers: ['X-Fine', name] });
    expect(answer).toMatchObject({
      status: 400,
      body: { error: { type: 'illegal_argument_exception', reason: expect.stringContaining(name) } },
    });
  });

  it('are refused at create when the connector sets the same header itself', async () => {
    await expect(
      connector('http://127.0.0.1:9/', { headers: { 'x-user-TOKEN': 'fixed' }, passthrough_headers: ['X-User-Token'] }),
    ).rejects.toThrow('which headers sets too');
  });

  it.each([
    'aws-access-key-id',
    'aws-secret-access-key',
    'aws-session-token',
    'aws-region',
    'aws-service-name',
    'opensearch-url',
  ])('are a 400 with the documented text while passing on is off: %s', async (name) => {
    const reason =
      'MCP header passthrough is not enabled. To enable, please update the setting: plugins.ml_commons.mcp_header_passthrough_enabled';
    const expected = {
      error: {
        root_cause: [{ type: 'illegal_argument_exception', reason }],
        type: 'illegal_argument_exception',
        reason,
      },
      status: 400,
    };
    const server = await serve();
    const id = await connector(server.origin);
    expect(await callTool(id, { [name]: 'value' })).toMatchObject({ status: 400, body: expected });
    const agent = await send('POST', '/agents/any/_execute', { parameters: { question: 'hi' } }, { [name]: 'value' });
    expect(agent).toMatchObject({ status: 400, body: expected });
    expect(server.requests).toEqual([]);
  });

  it('of two users with one value are two sessions, and the name and password of neither goes on', async () => {
    await enable();
    const server = await serve();
    const id = await connector(server.origin);
    const password = 'password-canary-6-Aa';
    for (const name of ['ann', 'bob']) {
      const body = { password, opendistro_security_roles: ['ml_full_access'] };
      expect((await send('PUT', `/_plugins/_security/api/internalusers/${name}`, body)).status).toBeLessThan(300);
      const basic = Buffer.from(`${name}:${password}`).toString('base64');
      for (let round = 0; round < 2; round += 1) {
        const sent = { authorization: `Basic ${basic}`, 'x-user-token': 'user-canary-5' };
        expect((await callTool(id, sent)).status).toBe(200);
      }
      expect(everythingSent(server)).not.toContain(basic);
    }
    expect(sessionsOf(server)).toHaveLength(2);
    expect(everythingSent(server)).not.toMatch(/canary-[1-46]/);
    expect((await send('GET', `/connectors/${id}/_status`)).body).toMatchObject({ status: 'idle', caller_sessions: 2 });
  });

  it('are not passed on while that is off', async () => {
    const server = await serve();
    expect((await callTool(await connector(server.origin), { 'x-user-token': 'user-canary-5' })).status).toBe(200);
    expect(everythingSent(server)).not.toContain('canary');
  });

  it('reach the server octet by octet, and an empty one not at all', async () => {
    await enable();
    const server = await serve();
    const id = await connector(server.origin);
    const octets = Buffer.from('Zoë ☂', 'utf8').toString('latin1');
    const answer = await raw(`${app.url}/_plugins/_ml/connectors/${id}/tools/echo/_execute`, {
      authorization: `Bearer ${KEY}`,
      'content-type': 'application/json',
      'x-user-token': octets,
      'aws-region': '',
    });
    expect(answer).toContain('hi');
    const [sent] = server.of('tools/call');
    expect(sent?.headers['x-user-token']).toBe(octets);
    expect(sent?.headers).not.toHaveProperty('aws-region');
  });
});

/** Header values are sent as the octets they are. */
function raw(url: string, headers: Record<string, string>): Promise<string> {
  return new Promise((done, fail) => {
    const request = httpRequest(url, { method: 'POST', headers }, async (response) => {
      done(await text(response));
    });
    request.once('error', fail).end(Buffer.from('{"arguments":{"text":"hi"}}'));
  });
}
