import { describe, expect, it } from 'vitest';
import type { Reply, ScriptedReply } from '../support/fake-mcp-server.ts';
import { found, reasonOf, startRig } from './rig.ts';

const rig = startRig();
const throttled = (status: number, retryAfter?: string): ScriptedReply => ({
  status,
  ...(retryAfter !== undefined && { headers: { 'Retry-After': retryAfter } }),
});

describe('a refusal of the optional stream', () => {
  it.each<[string, Reply]>([
    ['404', { status: 404 }],
    ['406', { status: 406 }],
    ['400 with a word about sessions', { status: 400, body: 'No sessionId' }],
    ['501', { status: 501 }],
    ['405', { status: 405 }],
    ['401', { status: 401 }],
    ['429', throttled(429, '60')],
    ['500', { status: 500 }],
    ['a page', { status: 200, headers: { 'Content-Type': 'text/html' }, body: '<html>' }],
    ['a redirect', { status: 302, headers: { Location: '/login' } }],
    ['a broken connection', { reset: true }],
    ['no answer', { hold: 'never' }],
    ['a stream that ends at once', { sse: [] }],
  ])('means that there is none, and nothing else: %s', async (_name, refusal) => {
    const server = await rig.serve({ on: { GET: refusal } });
    const id = await rig.connector(server.origin);
    const agent = await rig.agent(id);
    rig.llm.reset({ tool: 'echo', args: '{"text":"a"}' }, { tool: 'echo', args: '{"text":"b"}' }, 'done');
    expect(await rig.ask(agent, 'go')).toMatchObject({ answer: 'done', warning: null });
    await server.seen('GET');
    expect(await rig.connections(agent, '?probe=true')).toMatchObject([{ status: 'connected', tools: ['echo'] }]);
    expect((await rig.call(id, 'echo', { text: 'c' })).status).toBe(200);
    expect(server.of('GET')).toHaveLength(1);
    expect(server.of('initialize')).toHaveLength(1);
    expect(server.of('tools/call')).toHaveLength(3);
  });
});

describe('a server that limits the rate', () => {
  it('of lists is asked again when it says so, and the run goes on', async () => {
    const server = await rig.serve({ on: { 'tools/list': [throttled(429, '1'), 'normal'] } });
    const agent = await rig.agent(await rig.connector(server.origin));
    rig.llm.reset({ tool: 'echo', args: '{"text":"a"}' }, 'done');
    expect(await rig.ask(agent, 'go')).toMatchObject({ answer: 'done', warning: null });
    const [first, second, ...more] = server.of('tools/list');
    expect((second?.time ?? 0) - (first?.time ?? 0)).toBeGreaterThanOrEqual(990);
    expect(more).toEqual([]);
    expect(server.of('initialize')).toHaveLength(1);
  });

  it('of calls runs the call once, after the wait', async () => {
    const server = await rig.serve({ on: { 'tools/call': [throttled(429, '1'), 'normal'] } });
    const agent = await rig.agent(await rig.connector(server.origin));
    rig.llm.reset({ tool: 'echo', args: '{"text":"a"}' }, ({ messages }) => String(messages.at(-1)?.content));
    expect((await rig.ask(agent, 'go')).answer).toBe('echo: {"text":"a"}');
    const [first, second, ...more] = server.of('tools/call');
    expect((second?.time ?? 0) - (first?.time ?? 0)).toBeGreaterThanOrEqual(990);
    expect(more).toEqual([]);
  });

  it.each(['server/discover', 'initialize', 'notifications/initialized', 'tools/list'])(
    'at %s for good is given up, says rate limited, and is passed on with its wait',
    async (step) => {
      const server = await rig.serve({ on: { [step]: throttled(429, '3') } });
      const id = await rig.connector(server.origin, { client_config: { retry_timeout_seconds: 2 } });
      const answer = await rig.call(id, 'echo', { text: 'a' });
      expect(answer.status).toBe(503);
      expect(reasonOf(answer)).toMatch(/limits the rate/);
      expect(reasonOf(answer)).toMatch(/asked to wait 3 s, more than/);
      expect(Number(answer.headers.get('retry-after'))).toBe(3);
      expect(await rig.status(id)).toMatchObject({ status: 'failed', error: { code: 'rate_limited' } });
      expect(server.of(step)).toHaveLength(1);
    },
  );

  it('without a wait is asked again on the own ladder, then given up', async () => {
    const server = await rig.serve({ on: { 'tools/list': throttled(429) } });
    const id = await rig.connector(server.origin, { client_config: { max_retry_times: 2 } });
    const answer = await rig.call(id, 'echo', { text: 'a' });
    expect(answer.status).toBe(503);
    expect(reasonOf(answer)).toMatch(/limits the rate.*tried 3 times/);
    expect(server.of('tools/list')).toHaveLength(3);
  });

  it('is no reason to stop the run: the model is told', async () => {
    const server = await rig.serve({ on: { 'tools/call': throttled(429, '86400') } });
    const agent = await rig.agent(await rig.connector(server.origin));
    rig.llm.reset({ tool: 'echo', args: '{"text":"a"}' }, ({ messages }) => String(messages.at(-1)?.content));
    const { answer } = await rig.ask(agent, 'go');
    expect(answer).toMatch(/limits the rate/);
    expect(answer).toMatch(/86400 s/);
    expect(answer).not.toMatch(/outcome is unknown/);
    expect(server.of('tools/call')).toHaveLength(1);
  });
});

describe('a server that is not ready', () => {
  const connectTimes = async (retryAfter: string) => {
    const server = await rig.serve({ on: { initialize: [throttled(503, retryAfter), 'normal'] } });
    const id = await rig.connector(server.origin);
    expect((await rig.call(id, 'echo', { text: 'a' })).status).toBe(200);
    return server.of('initialize').map(({ time }) => time);
  };
  const imfDate = (aheadMs: number): string => new Date(Date.now() + aheadMs).toUTCString();
  const weekdays = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
  const rfc850 = (aheadMs: number): string => {
    const date = new Date(Date.now() + aheadMs);
    const [, day, month, year, time] = date.toUTCString().split(' ');
    return `${weekdays[date.getUTCDay()]}, ${day}-${month}-${year?.slice(2)} ${time} GMT`;
  };

  it.each([
    ['seconds', () => '1'],
    ['a date', () => imfDate(2000)],
    ['a date in the older form', () => rfc850(2000)],
  ])('is asked again at the time it names: %s', async (_name, value) => {
    const [first = 0, second = 0, ...more] = await connectTimes(value());
    expect(second - first).toBeGreaterThanOrEqual(990);
    expect(more).toEqual([]);
  });

  it.each([
    'soon',
    '-5',
    '1.5',
    '',
    '0',
    'Thu, 01 Jan 1970 00:00:00 GMT',
    '9999-12-31T00:00:00Z',
    'Fri, 31 Feb 2990 00:00:00 GMT',
  ])('is asked again on the own ladder when it names no time to come: "%s"', async (value) => {
    expect(await connectTimes(value)).toHaveLength(2);
  });

  it.each([
    ['86400', '86400 s'],
    ['99999999999999999999', 's, more than'],
    ['Sat, 01 Jan 2990 00:00:00 GMT', 's, more than'],
  ])('for longer than a caller can wait fails at once and names the limit: %s', async (value, named) => {
    const server = await rig.serve({ on: { initialize: throttled(503, value) } });
    const id = await rig.connector(server.origin);
    const agent = await rig.agent(id);
    rig.llm.reset('without');
    const turn = await rig.ask(agent, 'go');
    expect(turn.answer).toBe('without');
    expect(turn.warning).toContain('server_error');
    const { error } = await rig.status(id);
    expect(JSON.stringify(error)).toContain(named);
    expect(JSON.stringify(error)).toContain('the 30 s this may take');
    expect(server.of('initialize')).toHaveLength(1);
  });
});

describe('a sign-in page in place of an answer', () => {
  const page = '<!doctype html><title>SSO</title><input name=csrf value=Q7-hidden-token>';
  const html: ScriptedReply = { status: 200, headers: { 'Content-Type': 'text/html; charset=utf-8' }, body: page };

  it.each<[string, Record<string, ScriptedReply>]>([
    ['at initialize', { initialize: html }],
    ['at the first request', { '*': html }],
    ['at tools/list', { 'tools/list': html }],
    ['called JSON', { initialize: { ...html, headers: { 'Content-Type': 'application/json' } } }],
    ['with no type', { initialize: { status: 200, headers: {}, body: page } }],
    ['with 403', { initialize: { ...html, status: 403 } }],
    ['with 500', { initialize: { ...html, status: 500 } }],
    ['as text', { initialize: { ...html, headers: { 'Content-Type': 'text/plain' } } }],
    ['as the last event of a stream', { initialize: { sse: [page] } }],
  ])('is named as what it is and shown to nobody: %s', async (name, on) => {
    const server = await rig.serve({ on });
    const id = await rig.connector(server.origin, { client_config: { max_retry_times: 0 } });
    const agent = await rig.agent(id);
    rig.llm.reset('without tools');
    const turn = await rig.ask(agent, 'go');
    expect(turn.answer).toBe('without tools');
    expect(turn.warning).toMatch(/^299 /);
    const answer = await rig.call(id, 'echo', { text: 'x' });
    expect(answer.status).toBe(502);
    expect(await rig.status(id)).toMatchObject({ status: 'failed' });
    if (on.initialize === html || on['*']) {
      expect(reasonOf(answer)).toContain('not an MCP answer (text/html)');
      expect(await rig.status(id)).toMatchObject({ error: { code: 'not_mcp' } });
    }
    const told = rig.llm.requests.map(({ text }) => text).join('');
    for (const text of [rig.said(), told, await rig.databaseOctets()]) {
      expect(found(text, 'Q7-hidden', /<!doctype/i), name).toEqual([]);
    }
  });

  it('in answer to a call is a failed call, and is shown to nobody', async () => {
    const server = await rig.serve({ on: { 'tools/call': html } });
    const agent = await rig.agent(await rig.connector(server.origin));
    rig.llm.reset({ tool: 'echo', args: '{"text":"x"}' }, ({ messages }) => String(messages.at(-1)?.content));
    expect((await rig.ask(agent, 'go')).answer).toContain('not an MCP answer (text/html)');
    const told = rig.llm.requests.map(({ text }) => text).join('');
    for (const text of [rig.said(), told, await rig.databaseOctets()])
      expect(found(text, 'Q7-hidden', /<!doctype/i)).toEqual([]);
  });
});
