import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import type { FakeMcpServer, Reply } from '../support/fake-mcp-server.ts';
import { reasonOf, startRig, until } from './rig.ts';

const rig = startRig();

/** Requests that were let in, by their method. */
const calls = (server: FakeMcpServer, session: string) =>
  server.of('tools/call').filter(({ headers }) => headers['mcp-session-id'] === session);

/** One tool call, then the answer is what the tool said. */
function scriptCall(args: string): void {
  rig.llm.reset({ tool: 'echo', args }, ({ messages }) => String(messages.at(-1)?.content));
}

describe('a session the server no longer knows', () => {
  const lost: [string, Reply][] = [
    ['404 with an error', { status: 404, error: { code: -32001, message: 'Session not found' } }],
    ['404 without a body', { status: 404 }],
    ['404 with text', { status: 404, headers: { 'Content-Type': 'text/plain' }, body: 'gone' }],
    [
      '400 "No valid session ID"',
      { status: 400, error: { code: -32000, message: 'Bad Request: No valid session ID provided' } },
    ],
    ['400 as text', { status: 400, body: 'Invalid or expired session id' }],
  ];

  it.each(lost)('is replaced at a call, which then runs once: %s', async (_name, refusal) => {
    const server = await rig.serve();
    const agent = await rig.agent(await rig.connector(server.origin));
    scriptCall('{"text":"1"}');
    expect((await rig.ask(agent, 'go')).answer).toBe('echo: {"text":"1"}');
    server.on('*', ({ headers }) => (headers['mcp-session-id'] === 's-1' ? refusal : 'normal'));
    scriptCall('{"text":"2"}');
    expect(await rig.ask(agent, 'again')).toMatchObject({ answer: 'echo: {"text":"2"}', warning: null });

    expect(server.of('initialize').map(({ headers }) => headers['mcp-session-id'])).toEqual([undefined, undefined]);
    expect(calls(server, 's-1').map(({ body }) => body.includes('"1"'))).toEqual([true, false]);
    expect(calls(server, 's-2').map(({ body }) => body.includes('"2"'))).toEqual([true]);
    expect(server.of('DELETE')).toEqual([]);
    expect(await rig.connections(agent)).toMatchObject([{ status: 'connected' }]);
  });

  it.each(lost)('is replaced at a list: %s', async (_name, refusal) => {
    const changed = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';
    const reply = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"ok"}]}}';
    const server = await rig.serve({ on: { 'tools/call': { sse: [changed, reply] } } });
    const id = await rig.connector(server.origin);
    expect((await rig.call(id, 'echo', { text: '1' })).status).toBe(200);
    server.on('tools/list', ({ headers }) => (headers['mcp-session-id'] === 's-1' ? refusal : 'normal'));
    server.tools([{ name: 'other', inputSchema: { type: 'object' } }]);
    const { tools } = await rig.ok('GET', `/connectors/${id}/tools`);
    expect(tools).toMatchObject([{ name: 'other' }]);
    expect(server.of('initialize')).toHaveLength(2);
    expect(server.of('tools/list').at(-1)?.headers['mcp-session-id']).toBe('s-2');
  });

  it('is replaced once for all who lose it together', async () => {
    const server = await rig.serve();
    const id = await rig.connector(server.origin);
    expect((await rig.call(id, 'echo', { text: '0' })).status).toBe(200);
    server.forget();
    const answers = await Promise.all([1, 2, 3, 4, 5].map((n) => rig.call(id, 'echo', { text: String(n) })));
    expect(answers.map(({ status }) => status)).toEqual(Array(5).fill(200));
    expect(server.of('initialize')).toHaveLength(2);
    expect(calls(server, 's-2')).toHaveLength(5);
  });

  it('that is lost again at once is given up without a storm, and the call is not taken for made', async () => {
    const server = await rig.serve({
      on: { 'tools/call': { status: 404, error: { code: -32001, message: 'Session not found' } } },
    });
    const id = await rig.connector(server.origin);
    const agent = await rig.agent(id);
    scriptCall('{"text":"1"}');
    const { answer } = await rig.ask(agent, 'go');
    expect(answer).toMatch(/no longer knows the session/);
    expect(answer).not.toMatch(/outcome is unknown/);
    expect(server.of('tools/call')).toHaveLength(2);
    expect(server.of('initialize').length).toBeLessThanOrEqual(3);
  });

  it('whose successor has other tools leaves the model with a clear word', async () => {
    const server = await rig.serve();
    const agent = await rig.agent(await rig.connector(server.origin));
    scriptCall('{"text":"1"}');
    await rig.ask(agent, 'go');
    server.forget();
    server.tools([{ name: 'other', inputSchema: { type: 'object' } }]);
    server.on('tools/call', ({ message }) => {
      const { name } = (message?.params ?? {}) as { name?: string };
      return name === 'other' ? 'normal' : { error: { code: -32602, message: `Unknown tool: ${name}` } };
    });
    rig.llm.reset({ tool: 'echo', args: '{"text":"2"}' }, ({ messages }) => String(messages.at(-1)?.content));
    expect((await rig.ask(agent, 'again')).answer).toContain('Unknown tool: echo');
    rig.llm.reset('done');
    await rig.ask(agent, 'once more');
    expect(rig.llm.requests[0]?.toolNames).toEqual(['other']);
  });

  it('is no reason to take a 404 for it where there never was one', async () => {
    const server = await rig.serve({ sessions: false, on: { 'tools/call': { status: 404 } } });
    const id = await rig.connector(server.origin);
    const answer = await rig.call(id, 'echo', { text: '1' });
    expect(answer.status).toBe(502);
    expect(await rig.status(id)).toMatchObject({ error: { code: 'wrong_path' } });
    expect(server.requests.every(({ headers }) => headers['mcp-session-id'] === undefined)).toBe(true);
  });
});

it('shows a server that is gone, tells the model, and picks it up when it is back', async () => {
  const server = await rig.serve();
  const id = await rig.connector(server.origin, { client_config: { max_retry_times: 0 } });
  const agent = await rig.agent(id);
  scriptCall('{"text":"1"}');
  expect((await rig.ask(agent, 'go')).answer).toBe('echo: {"text":"1"}');
  const [before] = await rig.connections(agent);
  expect(before).toMatchObject({ status: 'connected' });

  await server.stop();
  scriptCall('{"text":"2"}');
  const during = await rig.ask(agent, 'go on');
  expect(during.status).toBe(200);
  expect(during.answer).toMatch(/^Error: .*weather.*refused the connection/);
  const [gone] = await rig.connections(agent);
  expect(gone).toMatchObject({ status: 'failed', error: { code: 'connection_refused', remedy: expect.any(String) } });
  expect(Number(gone?.since)).toBeGreaterThanOrEqual(Number(before?.since));
  expect(gone?.last_success_time).toBe(before?.last_success_time);
  rig.llm.reset('without');
  expect((await rig.ask(agent, 'and now?')).warning).toMatch(/^299 .*weather.*connection_refused/);
  expect(rig.llm.requests[0]?.text).toMatch(/cannot be reached now/);

  await server.start();
  scriptCall('{"text":"3"}');
  expect(await rig.ask(agent, 'go on')).toMatchObject({ answer: 'echo: {"text":"3"}', warning: null });
  expect(await rig.connections(agent)).toMatchObject([{ status: 'connected' }]);
  expect((await rig.connections(agent))[0]).not.toHaveProperty('error');
});

describe('versions of the protocol', () => {
  const refusal = (data: object): Reply => ({
    status: 400,
    error: { code: -32022, message: 'Unsupported protocol version', data: { requested: '2025-11-25', ...data } },
  });

  it('that only the server speaks are named, without a storm', async () => {
    const server = await rig.serve({ on: { initialize: refusal({ supported: ['2031-01-01', '2030-06-30'] }) } });
    const id = await rig.connector(server.origin);
    const agent = await rig.agent(id);
    const answer = await rig.call(id, 'echo', { text: '1' });
    const [connection] = await rig.connections(agent);
    for (const text of [reasonOf(answer), JSON.stringify(connection?.error)]) {
      expect(text).toContain('2031-01-01, 2030-06-30');
    }
    expect(connection).toMatchObject({ status: 'failed', error: { code: 'version_unsupported' } });
    expect(server.requests.length).toBeLessThanOrEqual(3);
  });

  it('that a refusal of the handshake names are spoken without one', async () => {
    const server = await rig.serve({ on: { initialize: refusal({ supported: ['2026-07-28'] }) } });
    const id = await rig.connector(server.origin);
    expect((await rig.call(id, 'echo', { text: '1' })).status).toBe(200);
    expect(await rig.status(id)).toMatchObject({ status: 'connected', protocol_version: '2026-07-28' });
    expect(server.of('initialize')).toHaveLength(1);
    expect(server.of('tools/call')[0]?.headers).toMatchObject({
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': 'echo',
    });
    expect(server.requests.length).toBeLessThanOrEqual(6);
  });

  it('of the new era are spoken, also when only the refusal of the old one shows them', async () => {
    const modern = await rig.serve({ modern: true });
    expect((await rig.call(await rig.connector(modern.origin), 'echo', { text: '1' })).status).toBe(200);
    expect(modern.of('initialize')).toEqual([]);

    const shy = await rig.serve({ modern: true, on: { 'server/discover': [{ status: 404 }, 'normal'] } });
    const id = await rig.connector(shy.origin);
    expect((await rig.call(id, 'echo', { text: '1' })).status).toBe(200);
    expect(await rig.status(id)).toMatchObject({ status: 'connected', protocol_version: '2026-07-28' });
    expect(shy.of('initialize')).toHaveLength(1);
  });

  it('that the connector excludes are named with those of the server', async () => {
    const server = await rig.serve({ modern: true });
    const id = await rig.connector(server.origin, { client_config: { protocol_version: 'legacy' } });
    expect((await rig.call(id, 'echo', { text: '1' })).status).toBe(502);
    expect(await rig.status(id)).toMatchObject({ status: 'failed', error: { code: 'version_unsupported' } });
    expect(JSON.stringify(await rig.status(id))).toContain('2026-07-28');
    expect(server.requests.length).toBeLessThanOrEqual(3);
  });

  it.each(['2025-06-18', '2025-03-26', '2024-11-05'])(
    'that the server answers with are used from then on: %s',
    async (version) => {
      const server = await rig.serve({ protocolVersion: version });
      const id = await rig.connector(server.origin);
      expect((await rig.call(id, 'echo', { text: '1' })).status).toBe(200);
      await server.seen('GET');
      const later = server.requests.filter(({ rpc }) => !['server/discover', 'initialize'].includes(rpc));
      expect(new Set(later.map(({ headers }) => headers['mcp-protocol-version']))).toEqual(new Set([version]));
      expect(await rig.status(id)).toMatchObject({ protocol_version: version });
    },
  );

  it.each<[string, Reply]>([
    [
      'in words',
      { status: 400, body: 'Bad Request: Unsupported protocol version (supported versions: 2025-06-18, 2025-03-26)' },
    ],
    ['as data', refusal({ supported: ['2025-03-26', '2025-06-18'] })],
    [
      'in an error of JSON-RPC',
      { error: { code: -32602, message: 'Unsupported protocol version', data: { supported: ['2025-06-18'] } } },
    ],
  ])('that a refusal lists %s are tried, once', async (_name, first) => {
    const server = await rig.serve({ protocolVersion: '2025-06-18', on: { initialize: [first, 'normal'] } });
    const id = await rig.connector(server.origin);
    expect((await rig.call(id, 'echo', { text: '1' })).status).toBe(200);
    const asked = server
      .of('initialize')
      .map(({ message }) => (message?.params as JsonObject | undefined)?.protocolVersion);
    expect(asked).toEqual(['2025-11-25', '2025-06-18']);
    expect(server.of('tools/call')[0]?.headers['mcp-protocol-version']).toBe('2025-06-18');
  });

  it.each(['1999-01-01', '2031-01-01', 'newest', ''])(
    'that nobody knows end the connection with a clear error: "%s"',
    async (version) => {
      const server = await rig.serve({ protocolVersion: version });
      const id = await rig.connector(server.origin);
      expect((await rig.call(id, 'echo', { text: '1' })).status).toBe(502);
      const { error } = await rig.status(id);
      expect(error).toMatchObject({ code: 'version_unsupported' });
      expect(JSON.stringify(error)).toContain(version);
      expect(JSON.stringify(error)).toContain('2025-11-25');
      expect(server.of('tools/list')).toEqual([]);
      expect(server.requests.length).toBeLessThanOrEqual(4);
    },
  );
});

describe('a handshake', () => {
  it('is finished before anything else is asked', async () => {
    let confirmed = false;
    const server = await rig.serve({
      on: {
        'notifications/initialized': async () => {
          await new Promise((resolve) => setTimeout(resolve, 300));
          confirmed = true;
          return { status: 202 };
        },
        'tools/list': () => (confirmed ? 'normal' : { error: { code: -32002, message: 'Server not initialized' } }),
      },
    });
    const agent = await rig.agent(await rig.connector(server.origin));
    scriptCall('{"text":"1"}');
    expect((await rig.ask(agent, 'go')).answer).toBe('echo: {"text":"1"}');
    expect(server.of('tools/list')).toHaveLength(1);
    expect(server.requests.map(({ rpc }) => rpc).filter((rpc) => rpc !== 'GET')).toEqual([
      'server/discover',
      'initialize',
      'notifications/initialized',
      'tools/list',
      'tools/call',
    ]);
  });

  it('is made once, however many need it first', async () => {
    const server = await rig.serve({ on: { initialize: { delayMs: 100 } } });
    const id = await rig.connector(server.origin);
    const agents = await Promise.all([1, 2, 3].map(() => rig.agent(id)));
    rig.llm.reset(({ messages }) =>
      messages.at(-1)?.role === 'tool' ? 'done' : { tool: 'echo', args: '{"text":"x"}' },
    );
    const turns = await Promise.all([
      ...agents.map((agent) => rig.ask(agent, 'go')),
      rig.call(id, 'echo', { text: 'x' }),
      rig.send('GET', `/connectors/${id}/tools`),
      rig.send('GET', `/connectors/${id}/_status?probe=true`),
    ]);
    expect(turns.map(({ status }) => status)).toEqual(Array(6).fill(200));
    for (const rpc of ['server/discover', 'initialize', 'notifications/initialized', 'tools/list']) {
      expect(server.of(rpc), rpc).toHaveLength(1);
    }
    expect(server.of('tools/call')).toHaveLength(4);
  });

  it('is made for each connector, with its own session and key, though they share a server', async () => {
    const server = await rig.serve();
    const ids = await Promise.all(
      ['one-key', 'two-key'].map((k, index) =>
        rig.connector(server.origin, {
          name: `c${index}`,
          credential: { k },
          headers: { 'X-Key': '${credential.k}' },
        }),
      ),
    );
    for (const id of [...ids, ...ids]) expect((await rig.call(id, 'echo', { text: 'x' })).status).toBe(200);
    const pairs = new Set(
      server.of('tools/call').map(({ headers }) => `${headers['mcp-session-id']} ${headers['x-key']}`),
    );
    expect(pairs).toEqual(new Set(['s-1 one-key', 's-2 two-key']));
    await rig.ok('DELETE', `/connectors/${ids[0]}`);
    await until(() => server.of('DELETE').length === 1);
    expect((await rig.call(String(ids[1]), 'echo', { text: 'x' })).status).toBe(200);
    expect(server.of('initialize')).toHaveLength(2);
  });

  it.each(['a'.repeat(200), '!#$%&()*+,-./:;<=>?@[]^_`{|}~', 'with space inside'])(
    'carries the session id back as it came: %s',
    async (session) => {
      const server = await rig.serve({
        sessions: false,
        on: { initialize: { headers: { 'Mcp-Session-Id': session } } },
      });
      const id = await rig.connector(server.origin);
      expect((await rig.call(id, 'echo', { text: 'x' })).status).toBe(200);
      expect(server.of('tools/call')[0]?.headers['mcp-session-id']).toBe(session);
      await rig.ok('DELETE', `/connectors/${id}`);
      expect((await server.seen('DELETE')).headers['mcp-session-id']).toBe(session);
    },
  );
});
