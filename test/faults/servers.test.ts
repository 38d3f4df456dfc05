import { beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { startRig } from '../hazards/rig.ts';
import { type Pems, privateAuthority, serverCertificate } from '../support/certificates.ts';
import type { FakeMcpScript, Reply } from '../support/fake-mcp-server.ts';
import { brief, connected, failed } from './matrix.ts';
import { callsWith, startFaultRig } from './rig.ts';

const rig = startRig();
const faults = startFaultRig(rig);

const schema = { type: 'object' };
const named = (...names: string[]): JsonObject[] => names.map((name) => ({ name, inputSchema: schema }));
const changed = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';
const reply = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"done"}]}}';
/** A change of address or of its options, as a person makes it when the fault is on our side. */
const change = (id: string, members: JsonObject) => rig.ok('PUT', `/connectors/${id}`, members);

describe('a server that cannot be reached by its address', () => {
  it('says so of a name that does not exist, and is there as soon as the address is right', async () => {
    const server = await faults.serve();
    const id = await faults.connector('https://mcp.tenon-test.invalid');
    const agent = await rig.agent(id);
    const during = await faults.turn(agent, id, 'during');
    expect(brief(during.before)).toEqual(failed('dns_failed'));
    expect(during.told).toMatch(/cannot be reached now/);
    expect(during.warning).toMatch(/^299 .*weather.*dns_failed/);
    expect(brief(await rig.status(id, '?probe=true'))).toEqual(failed('dns_failed'));
    await change(id, { url: server.origin });
    expect((await faults.turn(agent, id, 'after')).answer).toBe('echo: {"text":"after"}');
    expect(brief(await rig.status(id))).toEqual(connected);
  });

  describe('with TLS', () => {
    let ca: Pems;
    let pairs: Record<'unknown' | 'expired', Pems>;
    beforeAll(async () => {
      ca = await privateAuthority();
      const until = new Date(Date.now() - 86_400_000);
      pairs = { unknown: await serverCertificate(ca), expired: await serverCertificate(ca, 'old', { until }) };
    });

    it.each(['unknown', 'expired'] as const)('and an %s certificate is told from any other fault', async (kind) => {
      const server = await faults.serve({ tls: pairs[kind] });
      const id = await faults.connector(server.origin);
      const agent = await rig.agent(id);
      const { before, warning } = await faults.turn(agent, id, 'during');
      expect(brief(before)).toEqual(failed('tls_failed'));
      expect((before.error as JsonObject).remedy).toMatch(/certificate/);
      expect(warning).toMatch(/tls_failed/);
      expect(server.requests).toEqual([]);
      const config = { client_config: { connection_timeout: 2, max_retry_times: 0, skip_ssl_verification: true } };
      await change(id, config);
      expect((await faults.turn(agent, id, 'after')).answer).toBe('echo: {"text":"after"}');
    });

    it('and a port that does not speak it is told so', async () => {
      const server = await faults.serve();
      const id = await faults.connector(server.origin.replace('http:', 'https:'));
      expect(brief(await rig.status(id, '?probe=true'))).toEqual(failed('tls_failed'));
      await change(id, { url: server.origin });
      expect(brief(await rig.status(id, '?probe=true'))).toEqual(connected);
    });
  });
});

describe('a server whose tools change', () => {
  it('with a restart is used with the new ones at the next run', async () => {
    const server = await faults.serve({ tools: named('old', 'kept') });
    const id = await faults.connector(server.origin, { max_retry_times: 3 });
    const agent = await rig.agent(id);
    await faults.turn(agent, id, 'before');
    await server.stop();
    server.tools(named('kept', 'new'));
    await server.start();
    const met = await faults.turn(agent, id, 'during');
    expect(callsWith(server, 'during')).toBeLessThanOrEqual(2);
    expect(met.warning).toBeNull();
    rig.llm.reset('done');
    await rig.ask(agent, 'and now?');
    expect(rig.llm.requests[0]?.toolNames.toSorted()).toEqual(['kept', 'new']);
    const { tools, status } = await rig.status(id);
    expect(status).toBe('connected');
    expect((tools as unknown as { name: string }[]).map(({ name }) => name)).toEqual(['kept', 'new']);
    const { tools: rows } = await rig.ok('GET', `/connectors/${id}/tools`);
    expect(rows).toMatchObject([{ name: 'kept' }, { name: 'new' }]);
  });

  it('and that says so a thousand times is asked once more, not a thousand times', async () => {
    const flood: Reply = { sse: [...Array.from({ length: 900 }, () => changed), reply] };
    const server = await faults.serve({ on: { 'tools/call': flood } });
    const id = await faults.connector(server.origin);
    const agent = await rig.agent(id);
    expect((await faults.turn(agent, id, 'one')).answer).toBe('done');
    const listed = server.of('tools/list').length;
    server.on('tools/call', 'normal');
    expect((await faults.turn(agent, id, 'two')).answer).toBe('echo: {"text":"two"}');
    expect(server.of('tools/list').length - listed).toBe(1);
    expect(brief(await rig.status(id))).toEqual(connected);
  });

  it('and that floods a stream nobody waits for stays in use', async () => {
    const server = await faults.serve({
      on: { GET: { sse: Array.from({ length: 5000 }, () => changed), hold: 'open' } },
    });
    const id = await faults.connector(server.origin);
    const agent = await rig.agent(id);
    for (const text of ['one', 'two', 'three']) {
      expect((await faults.turn(agent, id, text)).answer).toBe(`echo: {"text":"${text}"}`);
      expect(callsWith(server, text)).toBe(1);
    }
    expect(server.of('tools/list').length).toBeLessThanOrEqual(5);
    expect(brief(await rig.status(id))).toEqual(connected);
  });
});

describe('a list that is not simple', () => {
  it('over five pages is offered whole', async () => {
    const pages = [1, 2, 3, 4, 5].map((page) => ({
      result: { tools: named(`t${page}a`, `t${page}b`), ...(page < 5 && { nextCursor: `page ${page + 1}` }) },
    }));
    const server = await faults.serve({ on: { 'tools/list': pages } });
    const id = await faults.connector(server.origin);
    const agent = await rig.agent(id);
    await faults.turn(agent, id, 'x');
    expect(rig.llm.requests[0]?.toolNames).toHaveLength(10);
    expect(await rig.status(id)).toMatchObject({ status: 'connected', tool_count: 10 });
    expect(server.of('tools/list')).toHaveLength(5);
  });

  it('with one tool of fifty that cannot be used offers forty-nine, and names the one', async () => {
    const tools = named(...Array.from({ length: 50 }, (_, n) => `t${n}`));
    const server = await faults.serve({ tools: tools.with(17, { name: 't17', inputSchema: { type: 'string' } }) });
    const id = await faults.connector(server.origin);
    const agent = await rig.agent(id);
    await faults.turn(agent, id, 'x');
    expect(rig.llm.requests[0]?.toolNames).toHaveLength(49);
    expect(await rig.status(id)).toMatchObject({ status: 'connected', tool_count: 49 });
    const reason = 'the root of its inputSchema has type "string", not "object"';
    expect((await rig.connections(agent))[0]).toMatchObject({ left_out: [{ name: 't17', reason }] });
  });

  it('with the tool of another server reaches each under its own name, once', async () => {
    const [one, two] = [await faults.serve({ tools: named('send') }), await faults.serve({ tools: named('send') })];
    const ids = [await faults.connector(one.origin), await faults.connector(two.origin)];
    const agent = await rig.agent(...ids);
    rig.llm.reset(
      ({ toolNames }) => ({
        calls: toolNames.map((tool, index) => ({ tool, args: JSON.stringify({ text: `to ${index}` }) })),
      }),
      'done',
    );
    await rig.ask(agent, 'go');
    expect(new Set(rig.llm.requests[0]?.toolNames).size).toBe(2);
    expect([one, two].map((server) => server.of('tools/call').length)).toEqual([1, 1]);
  });
});

describe('a call that takes its time', () => {
  const progress = (request: JsonObject | undefined, value: number): string => {
    const { _meta: meta } = (request?.params ?? {}) as { _meta?: { progressToken?: number } };
    const params = { progressToken: meta?.progressToken ?? null, progress: value };
    return JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress', params });
  };
  const reporting =
    (everyMs: number, times: number, last: readonly string[]): Reply =>
    ({ message }) => ({
      sse: Array.from({ length: times }, (_, n) => [everyMs, progress(message, n + 1)])
        .flat()
        .concat(last),
    });

  it('and reports progress is waited for, long beyond the time for a silent one', async () => {
    const server = await faults.serve({ on: { 'tools/call': reporting(400, 8, [reply]) } });
    const id = await faults.connector(server.origin);
    const agent = await rig.agent(id);
    expect((await faults.turn(agent, id, 'long')).answer).toBe('done');
    expect(callsWith(server, 'long')).toBe(1);
    expect(brief(await rig.status(id))).toEqual(connected);
  });

  it('and reports progress for ever ends at the limit of them all', async () => {
    const server = await faults.serve({ on: { 'tools/call': reporting(300, 100, []) } });
    const id = await faults.connector(server.origin, { max_total_timeout: 2 });
    const agent = await rig.agent(id);
    const { told, before } = await faults.turn(agent, id, 'ever');
    expect(told).toMatch(/max_total_timeout.*outcome of the call is unknown/i);
    expect(brief(before)).toEqual(connected);
    expect(callsWith(server, 'ever')).toBe(1);
  });

  it('of a server that is slow in everything is no fault', async () => {
    const slow: FakeMcpScript = { on: { '*': { delayMs: 700 } } };
    const server = await faults.serve(slow);
    const id = await faults.connector(server.origin, { connection_timeout: 2, read_timeout: 2, max_retry_times: 3 });
    const agent = await rig.agent(id);
    for (const text of ['one', 'two']) expect((await faults.turn(agent, id, text)).answer).toMatch(/echo/);
    expect(await rig.status(id, '?probe=true')).toMatchObject({
      status: 'connected',
      breaker: { state: 'closed', failures: 0 },
    });
    expect(['initialize', 'tools/list', 'tools/call'].map((rpc) => server.of(rpc).length)).toEqual([1, 1, 2]);
  });
});

describe('a server of one protocol only', () => {
  it.each([
    ['2026-07-28', { modern: true }],
    ['2025-06-18', { protocolVersion: '2025-06-18' }],
    ['2025-03-26', { protocolVersion: '2025-03-26' }],
  ])('%s is spoken to in it', async (version, script) => {
    const server = await faults.serve(script);
    const id = await faults.connector(server.origin);
    const agent = await rig.agent(id);
    expect((await faults.turn(agent, id, 'x')).answer).toBe('echo: {"text":"x"}');
    expect(await rig.status(id)).toMatchObject({ status: 'connected', protocol_version: version });
    expect(server.of('tools/call')[0]?.headers['mcp-protocol-version']).toBe(version);
  });
});

describe('a server that keeps failing', () => {
  it('is left alone after three openings, says when it is tried again, and a reconnect tries at once', async () => {
    const server = await faults.serve({ on: { '*': { status: 503 } } });
    const id = await faults.connector(server.origin);
    const agent = await rig.agent(id);
    for (const text of ['1', '2', '3']) await faults.turn(agent, id, text);
    const seen = server.requests.length;
    const { before, warning } = await faults.turn(agent, id, '4');
    expect(before).toMatchObject({ status: 'failed', breaker: { state: 'open', failures: 3 } });
    expect((before.error as JsonObject).code).toBe('server_error');
    expect(Number((before.error as JsonObject).next_retry_time)).toBeGreaterThan(Date.now() - 1000);
    expect(warning).toMatch(/breaker_open/);
    expect(server.requests.length).toBe(seen);
    server.on('*', 'normal');
    expect(await rig.ok('POST', `/connectors/${id}/_reconnect`)).toMatchObject({ status: 'connected' });
    expect((await faults.turn(agent, id, '5')).answer).toBe('echo: {"text":"5"}');
  });

  it.each(['readOnlyHint', 'idempotentHint'])('gets a call again whose tool has %s', async (hint) => {
    const tools = [{ name: 'echo', inputSchema: schema, annotations: { [hint]: true } }];
    const server = await faults.serve({ tools, on: { 'tools/call': [{ reset: true }, { status: 502 }, 'normal'] } });
    const id = await faults.connector(server.origin, { max_retry_times: 3 });
    const agent = await rig.agent(id);
    expect((await faults.turn(agent, id, 'safe')).answer).toBe('echo: {"text":"safe"}');
    expect(callsWith(server, 'safe')).toBe(3);
  });

  it('in the middle of many calls fails those under way, each once, and no other', async () => {
    const server = await faults.serve();
    const id = await faults.connector(server.origin);
    const agent = await rig.agent(id);
    await faults.turn(agent, id, 'first');
    server.on('tools/call', { hold: 'never' });
    const calls = [1, 2, 3, 4, 5].map((n) => rig.call(id, 'echo', { text: `held ${n}` }));
    await server.seen('tools/call', 6);
    await server.stop();
    const answers = await Promise.all(calls);
    expect(answers.map(({ status }) => status)).toEqual(Array(5).fill(502));
    expect(brief(await rig.status(id))).toEqual(failed('connection_refused'));
    expect([1, 2, 3, 4, 5].map((n) => callsWith(server, `held ${n}`))).toEqual([1, 1, 1, 1, 1]);
    server.on('tools/call', 'normal');
    await server.start();
    expect((await faults.turn(agent, id, 'after')).answer).toBe('echo: {"text":"after"}');
  });
});

it('leaves no request, session or socket behind', async () => {
  await faults.leave();
  await faults.nothingIsLeft();
});
