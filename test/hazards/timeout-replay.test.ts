import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import type { FakeMcpServer, Reply } from '../support/fake-mcp-server.ts';
import { startRig } from './rig.ts';

const rig = startRig();
const sse = { 'Content-Type': 'text/event-stream' };
const RESULT = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"late but good"}]}}';
const tool = (annotations?: JsonObject): JsonObject[] => [
  { name: 'act', inputSchema: { type: 'object' }, ...(annotations && { annotations }) },
];

/** One call by the model; resolves with what the model is told of it. */
async function call(server: FakeMcpServer, config: JsonObject = {}): Promise<string> {
  const agent = await rig.agent(await rig.connector(server.origin, { client_config: config }));
  rig.llm.reset({ tool: 'act', args: '{"amount":5}' }, ({ messages }) => String(messages.at(-1)?.content));
  return (await rig.ask(agent, 'go')).answer;
}

/** Progress for the token the request carries. */
const reporting =
  (everyMs: number, times: number, ...last: string[]): Reply =>
  ({ message }) => {
    const { _meta: meta } = (message?.params ?? {}) as { _meta?: { progressToken?: number } };
    const at = (progress: number): string =>
      JSON.stringify({
        jsonrpc: '2.0',
        method: 'notifications/progress',
        params: { progressToken: meta?.progressToken ?? null, progress },
      });
    const reports = Array.from({ length: times }, (_, n) => [everyMs, at(n + 1)]).flat();
    return { sse: [...reports, ...last] };
  };

describe('a call that breaks off after it was sent', () => {
  const BREAKS: readonly [string, Reply][] = [
    ['the socket is reset', { reset: true }],
    ['the answer begins and is reset', { headers: sse, chunks: [': wait\n\n'], reset: true }],
    ['the stream ends', { sse: [] }],
    [
      'half of the JSON',
      { headers: { 'Content-Type': 'application/json', 'Content-Length': '500' }, chunks: ['{'], reset: true },
    ],
    ['HTTP 500', { status: 500 }],
    ['HTTP 502', { status: 502, body: 'Bad gateway' }],
    ['HTTP 504', { status: 504 }],
    ['no answer in time', { hold: 'never' }],
    ['202 in place of a result', { status: 202 }],
    ['a page in place of a result', { status: 200, headers: { 'Content-Type': 'text/html' }, body: '<html>' }],
  ];

  it.each(BREAKS)('is sent once, and its outcome is unknown: %s', async (_name, reply) => {
    const server = await rig.serve({ tools: tool(), on: { 'tools/call': reply } });
    expect(await call(server, { read_timeout: 1 })).toMatch(/outcome of the call is unknown/i);
    expect(server.of('tools/call')).toHaveLength(1);
  });

  it.each(BREAKS.slice(0, 7))('is sent again where the tool only reads: %s', async (_name, reply) => {
    const server = await rig.serve({ tools: tool({ readOnlyHint: true }), on: { 'tools/call': [reply, 'normal'] } });
    expect(await call(server, { read_timeout: 1 })).toBe('act: {"amount":5}');
    expect(server.of('tools/call').map(({ body }) => body.includes('"amount":5'))).toEqual([true, true]);
  });

  it.each([
    ['destructive', { destructiveHint: true }],
    ['read-only as a text', { readOnlyHint: 'true' }],
    ['not idempotent', { idempotentHint: false, readOnlyHint: false }],
    ['open to the world', { openWorldHint: false }],
  ])('is sent once where the tool is %s', async (_name, annotations) => {
    const server = await rig.serve({ tools: tool(annotations), on: { 'tools/call': [{ reset: true }, 'normal'] } });
    expect(await call(server)).toMatch(/outcome of the call is unknown/i);
    expect(server.of('tools/call')).toHaveLength(1);
  });
});

describe('a call that surely was not processed', () => {
  it('is sent again after the wait that a rate limit names', async () => {
    const server = await rig.serve({
      tools: tool(),
      on: { 'tools/call': [{ status: 429, headers: { 'Retry-After': '1' } }, 'normal'] },
    });
    expect(await call(server)).toBe('act: {"amount":5}');
    const [first, second] = server.of('tools/call');
    expect((second?.time ?? 0) - (first?.time ?? 0)).toBeGreaterThanOrEqual(950);
  });

  it('is sent again in a new session', async () => {
    const server = await rig.serve({
      tools: tool(),
      on: { 'tools/call': ({ headers }) => (headers['mcp-session-id'] === 's-1' ? { status: 404 } : 'normal') },
    });
    expect(await call(server)).toBe('act: {"amount":5}');
    expect(server.of('tools/call')).toHaveLength(2);
  });

  it('because the rest of its connections was gone is sent on a new one', async () => {
    const server = await rig.serve({ tools: tool() });
    expect(await call(server)).toBe('act: {"amount":5}');
    await server.stop();
    await server.start();
    expect(await call(server)).toBe('act: {"amount":5}');
  });
});

describe('progress', () => {
  it('is asked for, and a call that gives it is waited for', async () => {
    const server = await rig.serve({ tools: tool(), on: { 'tools/call': reporting(300, 8, RESULT) } });
    expect(await call(server, { read_timeout: 1, max_total_timeout: 8 })).toBe('late but good');
    const [request] = server.of('tools/call');
    expect(request?.message).toMatchObject({ params: { _meta: { progressToken: expect.anything() } } });
  });

  it('for ever ends at the limit of a call, and says which', async () => {
    const server = await rig.serve({ tools: tool(), on: { 'tools/call': reporting(200, 60) } });
    const began = performance.now();
    expect(await call(server, { read_timeout: 1, max_total_timeout: 2 })).toMatch(/within 2 s.*max_total_timeout/);
    expect(performance.now() - began).toBeGreaterThanOrEqual(1950);
    expect(server.of('tools/call')).toHaveLength(1);
    expect((await server.seen('notifications/cancelled')).message?.params).toMatchObject({
      requestId: server.of('tools/call')[0]?.message?.id,
    });
  });

  it.each<[string, JsonObject]>([
    ['of another call', { progressToken: 'somebody else', progress: 1 }],
    ['without a token', { progress: 1 }],
  ])('%s does not extend the wait', async (_name, params) => {
    const other = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress', params });
    const sent = Array.from({ length: 20 }, () => [other, 200]).flat();
    const server = await rig.serve({ tools: tool(), on: { 'tools/call': { sse: sent, hold: 'open' } } });
    expect(await call(server, { read_timeout: 1, max_total_timeout: 8 })).toMatch(
      /for 1 s \(client_config.read_timeout\)/,
    );
  });
});
