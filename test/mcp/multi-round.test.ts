import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import { isJsonObject, type JsonObject } from '../../src/json.ts';
import type { AskPerson, PausedCall } from '../../src/mcp/types.ts';
import { startAskingStatelessServer } from '../support/asking-peers.ts';
import { type FakeMcpServer, type Reply, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { openPool, type Pool, textOf } from './pool.ts';

const FORM: JsonObject = { type: 'object', properties: { city: { type: 'string', default: 'Bergen' } } };
const elicit = (params: JsonObject): JsonObject => ({ method: 'elicitation/create', params });
const WHERE = elicit({ mode: 'form', message: 'Where to?', requestedSchema: FORM });
const SECRET = elicit({
  message: 'Sign in',
  requestedSchema: { type: 'object', properties: { password: { type: 'string', default: 'x' } } },
});
const asks = (members: JsonObject): Reply => ({ result: { resultType: 'input_required', ...members } });
const DONE: Reply = { result: { resultType: 'complete', content: [{ type: 'text', text: 'done' }] } };

/** Thrown by whoever pauses a run. */
class Paused extends Error {
  readonly paused: PausedCall;
  constructor(paused: PausedCall) {
    super('paused');
    this.paused = paused;
  }
}

describe('calls of the stateless era whose answer is questions', () => {
  let pool: Pool;
  let server: FakeMcpServer;

  async function serve(
    calls: readonly Reply[],
    elicitation: 'decline' | 'accept_defaults' | 'ask',
    more: { annotations?: JsonObject; config?: object } = {},
  ): Promise<void> {
    const tool = { name: 'book', inputSchema: { type: 'object' }, annotations: more.annotations ?? {} };
    server = await startFakeMcpServer({ modern: true, tools: [tool], on: { 'tools/call': calls } });
    pool.add('booking', `${server.origin}/mcp`, { config: { elicitation, ...more.config } });
  }
  const sent = (): JsonObject[] =>
    server.of('tools/call').map(({ message }) => (isJsonObject(message?.params) ? message.params : {}));
  const accept =
    (city: string): AskPerson =>
    async (questions) =>
      Object.fromEntries(Object.keys(questions).map((key) => [key, { action: 'accept' as const, content: { city } }]));

  beforeEach(async () => {
    pool = await openPool();
  });
  afterEach(async () => {
    await pool.dispose();
    await server?.stop();
  });

  it('are made again with the answers, the exact state, the same digits, under a new id', async () => {
    const requestState = '{"a":1.0}\u2028 ü\\u0041\ud800"';
    await serve([asks({ inputRequests: { where: WHERE }, requestState }), DONE], 'accept_defaults');
    const argumentsText = '{"price":1.50,"id":12345678901234567890}';
    expect(textOf(await pool.call('booking', 'book', {}, { argumentsText }))).toBe('done');
    const [first, second] = server.of('tools/call');
    expect(sent()[1]).toMatchObject({
      name: 'book',
      inputResponses: { where: { action: 'accept', content: { city: 'Bergen' } } },
      requestState,
    });
    expect(sent()[0]).not.toHaveProperty('requestState');
    expect(second?.message?.id).not.toBe(first?.message?.id);
    for (const { body } of server.of('tools/call')) expect(body).toContain(`"arguments":${argumentsText}`);
  });

  it('declare per request that forms and addresses can be asked, and nothing else', async () => {
    await serve([DONE], 'decline');
    await pool.call('booking', 'book');
    expect(sent()[0]).toHaveProperty(['_meta', 'io.modelcontextprotocol/clientCapabilities'], {
      elicitation: { form: {}, url: {} },
    });
  });

  it('are made again without a state where none was given', async () => {
    await serve([asks({ inputRequests: { where: WHERE } }), DONE], 'decline');
    await pool.call('booking', 'book');
    expect(sent()[1]).toHaveProperty('inputResponses', { where: { action: 'decline' } });
    expect(sent()[1]).not.toHaveProperty('requestState');
  });

  it('are made again with nothing but the state where nothing is asked', async () => {
    await serve([asks({ requestState: 'later' }), DONE], 'decline');
    expect(textOf(await pool.call('booking', 'book'))).toBe('done');
    expect(sent()[1]).toHaveProperty('requestState', 'later');
    expect(sent()[1]).not.toHaveProperty('inputResponses');
  });

  it('ask a person what may be asked, and answer the rest by policy', async () => {
    const inputRequests = { where: WHERE, ['__proto__']: SECRET, login: SECRET };
    await serve([asks({ inputRequests, requestState: 's' }), DONE], 'ask');
    const seen: [unknown, PausedCall | undefined][] = [];
    const ask: AskPerson = (questions, paused) => {
      seen.push([questions, paused]);
      return accept('Oslo')(questions, paused);
    };
    await pool.call('booking', 'book', {}, { ask });
    const where = { mode: 'form', message: 'Where to?', schema: FORM };
    const settled = { login: { action: 'decline' }, ['__proto__']: { action: 'decline' } };
    const paused = { questions: { where }, settled, requestState: 's', round: 1, server: expect.any(String) };
    expect(seen).toEqual([[{ where }, paused]]);
    expect(sent()[1]).toHaveProperty('inputResponses', {
      where: { action: 'accept', content: { city: 'Oslo' } },
      ...settled,
    });
    expect(server.of('tools/call')[1]?.body).toContain('"__proto__":{"action":"decline"}');
  });

  it.each([{}, { type: ['string', 'null'] }])('that ask for a password in a field %j are declined', async (field) => {
    const requestedSchema = { type: 'object', properties: { value: { ...field, default: 'x' } } };
    const inputRequests = { where: elicit({ message: 'Your password, please', requestedSchema }) };
    await serve([asks({ inputRequests }), DONE], 'accept_defaults');
    await pool.call('booking', 'book');
    expect(sent()[1]).toHaveProperty('inputResponses', { where: { action: 'decline' } });
  });

  it('count an unanswered question as cancelled', async () => {
    await serve([asks({ inputRequests: { toString: WHERE } }), DONE], 'ask');
    await pool.call('booking', 'book', {}, { ask: async () => ({}) });
    expect(sent()[1]).toHaveProperty('inputResponses', { toString: { action: 'cancel' } });
  });

  it('pause, and go on in another process', async () => {
    const first = asks({ inputRequests: { where: WHERE, login: SECRET }, requestState: 's-1' });
    const second = asks({ inputRequests: { again: WHERE }, requestState: 's-2' });
    await serve([first, second, DONE], 'ask');
    const pause: AskPerson = async (_questions, paused) => {
      throw paused ? new Paused(paused) : new Error('a call that is under way cannot be paused');
    };
    const stopped = await pool.call('booking', 'book', { n: 1 }, { ask: pause }).catch((error: unknown) => error);
    expect(stopped).toBeInstanceOf(Paused);
    expect(server.of('tools/call')).toHaveLength(1);
    const kept = JSON.parse(JSON.stringify((stopped as Paused).paused)) as PausedCall;
    const rounds: (number | undefined)[] = [];
    const ask: AskPerson = (questions, paused) => {
      rounds.push(paused?.round);
      return accept('Bodø')(questions, paused);
    };
    const answers = { where: { action: 'accept' as const, content: { city: 'Oslo' } } };
    const resumed = await pool.restarted().call('booking', {
      tool: 'book',
      argumentsText: '{"n":1}',
      principal: OPEN_PRINCIPAL,
      ask,
      resume: { paused: kept, answers },
    });
    expect(textOf(resumed)).toBe('done');
    expect(rounds).toEqual([2]);
    expect(sent()[1]).toMatchObject({
      arguments: { n: 1 },
      requestState: 's-1',
      inputResponses: { where: answers.where, login: { action: 'decline' } },
    });
    expect(sent()[2]).toMatchObject({ requestState: 's-2', inputResponses: { again: { content: { city: 'Bodø' } } } });
  });

  it('end after five rounds', async () => {
    await serve([asks({ inputRequests: { where: WHERE } })], 'accept_defaults');
    await expect(pool.call('booking', 'book')).rejects.toMatchObject({
      code: 'invalid_response',
      message: expect.stringContaining('still asks after 5 rounds of answers'),
    });
    expect(server.of('tools/call')).toHaveLength(6);
    expect((await pool.sessions.report('booking')).status).toBe('connected');
  });

  it.each(['sampling/createMessage', 'roots/list', 'x/y'])(
    'fail when asked for %s, which is not offered',
    async (method) => {
      await serve([asks({ inputRequests: { where: WHERE, other: { method, params: {} } } })], 'accept_defaults');
      await expect(pool.call('booking', 'book')).rejects.toThrow(`asking for ${method}, which is not offered`);
      expect(server.of('tools/call')).toHaveLength(1);
    },
  );

  it('fail when too much is asked at once', async () => {
    const inputRequests = Object.fromEntries(Array.from({ length: 17 }, (_none, index) => [`q${index}`, WHERE]));
    await serve([asks({ inputRequests })], 'accept_defaults');
    await expect(pool.call('booking', 'book')).rejects.toThrow('asks more than 16 questions at once');
    expect(server.of('tools/call')).toHaveLength(1);
  });

  it('fail when the answer asks for nothing at all', async () => {
    await serve([asks({})], 'decline');
    await expect(pool.call('booking', 'book')).rejects.toThrow(/neither inputRequests nor requestState/);
  });

  it('are not sent again after the answers when their outcome is unknown', async () => {
    await serve([asks({ inputRequests: { where: WHERE } }), { sse: [] }, DONE], 'accept_defaults');
    await expect(pool.call('booking', 'book')).rejects.toMatchObject({ code: 'outcome_unknown' });
    expect(server.of('tools/call')).toHaveLength(2);
  });

  it('are sent again with the same answers, asked for once, where the tool only reads', async () => {
    const replies = [asks({ inputRequests: { where: WHERE }, requestState: 's' }), { sse: [] }, DONE];
    await serve(replies, 'ask', { annotations: { readOnlyHint: true } });
    let times = 0;
    const ask: AskPerson = (questions, paused) => {
      times += 1;
      return accept('Oslo')(questions, paused);
    };
    expect(textOf(await pool.call('booking', 'book', {}, { ask }))).toBe('done');
    expect(times).toBe(1);
    const [, second, third] = sent();
    expect(third).toMatchObject({ inputResponses: second?.inputResponses, requestState: 's' });
  });

  it('have no time limit of the call run while a person is asked', async () => {
    const config = { read_timeout: 1, max_total_timeout: 1 };
    await serve([asks({ inputRequests: { where: WHERE } }), DONE], 'ask', { config });
    const ask: AskPerson = async (questions, paused) => {
      await new Promise((resolve) => setTimeout(resolve, 1200));
      return accept('Oslo')(questions, paused);
    };
    expect(textOf(await pool.call('booking', 'book', {}, { ask }))).toBe('done');
  });

  /** A call that waits, and what it waits for. */
  async function pausedCall(id: string): Promise<PausedCall> {
    const ask: AskPerson = async (_questions, paused) => {
      throw paused ? new Paused(paused) : new Error('not paused');
    };
    const stopped = await pool.call(id, 'book', {}, { ask }).catch((error: unknown) => error);
    return (stopped as Paused).paused;
  }

  it('do not go on with a server that meanwhile speaks the session era', async () => {
    await serve([asks({ inputRequests: { where: WHERE }, requestState: 's' })], 'ask');
    const paused = await pausedCall('booking');
    server.requests.length = 0;
    server.on('server/discover', { status: 404, body: '' });
    server.on('initialize', {
      result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'old', version: '1' } },
    });
    await pool.sessions.reset('booking', 'test');
    const resume = { paused, answers: {} };
    await expect(pool.call('booking', 'book', {}, { resume })).rejects.toMatchObject({ code: 'version_unsupported' });
    expect(server.of('tools/call')).toEqual([]);
  });

  it('do not go on at another server: the connector was changed while a person was asked', async () => {
    await serve([asks({ inputRequests: { where: WHERE }, requestState: 'of the first' }), DONE], 'ask');
    const other = await startFakeMcpServer({
      modern: true,
      tools: [{ name: 'book', inputSchema: { type: 'object' } }],
    });
    try {
      let reason: unknown;
      const ask: AskPerson = async (questions, paused, withdrawn) => {
        expect(withdrawn?.aborted).toBe(false);
        await pool.update('booking', { url: `${other.origin}/mcp` });
        reason = withdrawn?.reason;
        return accept('Oslo')(questions, paused);
      };
      await expect(pool.call('booking', 'book', {}, { ask })).rejects.toMatchObject({
        statusCode: 409,
        message: expect.stringMatching(/^The connector was changed while the call waited, so the call of tool "book"/),
      });
      expect(reason).toBe('The connector was changed while the call waited');
      expect(server.of('tools/call')).toHaveLength(1);
      expect(JSON.stringify(other.requests)).not.toMatch(/Oslo|of the first/);
      expect(other.of('tools/call')).toEqual([]);
    } finally {
      await other.stop();
    }
  });

  it('go on when the connector was changed and leads to the same server', async () => {
    await serve([asks({ inputRequests: { where: WHERE }, requestState: 's' }), DONE], 'ask');
    const ask: AskPerson = async (questions, paused, withdrawn) => {
      await pool.update('booking', { headers: { 'X-New': '1' } });
      expect(withdrawn?.aborted).toBe(false);
      return accept('Oslo')(questions, paused);
    };
    expect(textOf(await pool.call('booking', 'book', {}, { ask }))).toBe('done');
  });

  it('do not go on after a restart at another address, nor at another connector, nor when they do not say where', async () => {
    await serve([asks({ inputRequests: { where: WHERE }, requestState: 's' })], 'ask');
    const paused = await pausedCall('booking');
    const tools = [{ name: 'book', inputSchema: { type: 'object' } }];
    const other = await startFakeMcpServer({ modern: true, tools });
    try {
      pool.add('fallback', `${server.origin}/mcp`, { config: { elicitation: 'ask' } });
      const answers = { where: { action: 'accept' as const, content: { city: 'Oslo' } } };
      const go = (id: string, from: PausedCall): Promise<unknown> =>
        pool.restarted().call(id, {
          tool: 'book',
          argumentsText: '{}',
          principal: OPEN_PRINCIPAL,
          resume: { paused: from, answers },
        });
      const { server: _server, ...nowhere } = paused;
      await expect(go('fallback', paused)).rejects.toMatchObject({ statusCode: 409 });
      await expect(go('booking', nowhere)).rejects.toMatchObject({ statusCode: 409 });
      expect((await pool.sessions.watchPause('fallback', paused)).signal.aborted).toBe(true);
      const watching = await pool.sessions.watchPause('booking', paused);
      expect(watching.signal.aborted).toBe(false);
      await pool.update('booking', { url: `${other.origin}/mcp` });
      expect(watching.signal.reason).toBe('The connector was changed while the call waited');
      watching.end();
      await expect(go('booking', paused)).rejects.toMatchObject({ statusCode: 409 });
      expect(server.of('tools/call')).toHaveLength(1);
      expect(other.of('tools/call')).toEqual([]);
    } finally {
      await other.stop();
    }
  });

  it('do not go on at another command of a local server', async () => {
    const program = `
      const lines = require('node:readline').createInterface({ input: process.stdin });
      const say = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }));
      const META = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
      lines.on('line', (line) => {
        const { id, method, params } = JSON.parse(line);
        if (method === 'server/discover') {
          say({ id, result: { supportedVersions: ['2026-07-28'], capabilities: { tools: {} }, _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'p', version: '1' } }, ...META } });
        } else if (method === 'tools/list') say({ id, result: { tools: [{ name: 'book', inputSchema: { type: 'object' } }], ...META } });
        else if (method === 'tools/call' && params.inputResponses === undefined) {
          say({ id, result: { resultType: 'input_required', inputRequests: { where: ${JSON.stringify(WHERE)} } } });
        } else if (method === 'tools/call') say({ id, result: { resultType: 'complete', content: [{ type: 'text', text: 'done' }] } });
      });
    `;
    pool.addLocal('local', ['-e', program], { config: { elicitation: 'ask' } });
    const paused = await pausedCall('local');
    const resume = { paused, answers: {} };
    expect(textOf(await pool.call('local', 'book', {}, { resume }))).toBe('done');
    pool.addLocal('local', ['-e', `${program} // another`], { config: { elicitation: 'ask' } });
    await expect(pool.call('local', 'book', {}, { resume })).rejects.toMatchObject({ statusCode: 409 });
  });

  it('take a member of that name for an ordinary one in the session era', async () => {
    server = await startFakeMcpServer({
      on: { 'tools/call': { result: { resultType: 'input_required', content: [{ type: 'text', text: 'plain' }] } } },
    });
    pool.add('booking', `${server.origin}/mcp`);
    expect(textOf(await pool.call('booking', 'echo'))).toBe('plain');
  });

  it('are answered to a server of the second SDK generation', async () => {
    const peer = await startAskingStatelessServer();
    try {
      pool.add('real', peer.url, { config: { elicitation: 'ask' } });
      const answer = textOf(await pool.call('real', 'book', {}, { ask: accept('Oslo') }));
      expect(JSON.parse(String(answer))).toEqual({ action: 'accept', content: { city: 'Oslo' } });
    } finally {
      await peer.stop();
    }
  });
});
