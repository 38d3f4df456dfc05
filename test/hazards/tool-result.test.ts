import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/json.ts';
import type { Reply } from '../support/fake-mcp-server.ts';
import { startRig } from './rig.ts';

const rig = startRig();
const MIB = 1024 * 1024;

/** What the model is given of one call that is answered so. */
async function read(reply: Reply): Promise<string> {
  const server = await rig.serve({ on: { 'tools/call': reply } });
  const agent = await rig.agent(await rig.connector(server.origin));
  rig.llm.reset({ tool: 'echo', args: '{"text":"x"}' }, 'done');
  expect((await rig.ask(agent, 'go')).answer).toBe('done');
  expect(server.of('tools/call')).toHaveLength(1);
  return String(rig.llm.requests[1]?.messages.at(-1)?.content);
}
const result = (members: JsonObject): Reply => ({ result: members });
const text = (value: JsonValue): JsonObject => ({ type: 'text', text: value });

describe('a result without text', () => {
  it.each<[string, JsonObject]>([
    ['an empty list', { content: [], isError: false }],
    ['no list', {}],
    ['null for a list', { content: null }],
    ['an empty text', { content: [text('')] }],
    ['blank text', { content: [text(' \n')] }],
    ['a text that is a number', { content: [text(7)] }],
    ['a part that is no object', { content: ['text'] }],
    ['an image', { content: [{ type: 'image', data: 'AAAA', mimeType: 'image/png' }] }],
  ])('gives the model its structured content: %s', async (_name, members) => {
    const structuredContent = { lat: 50.5, id: 10491 };
    expect(await read(result({ ...members, structuredContent }))).toContain(JSON.stringify(structuredContent));
  });

  it.each<[string, JsonValue]>([
    ['a list', [1, 2, 3]],
    ['a text', 'plain'],
    ['zero', 0],
    ['false', false],
    ['an empty object', {}],
  ])('whose structured content is %s gives that', async (_name, structuredContent) => {
    expect(await read(result({ content: [], structuredContent }))).toBe(JSON.stringify(structuredContent));
  });

  it.each<[string, JsonObject]>([
    ['an empty list', { content: [] }],
    ['nothing at all', {}],
    ['a text of another type', { content: [{ type: 'text' }] }],
  ])('and without data says that there is none: %s', async (_name, members) => {
    expect(await read(result(members))).toBe('(the tool returned no content)');
  });
});

describe('a result that is an error of the tool', () => {
  it.each<[string, JsonObject, RegExp]>([
    ['in words', { isError: true, content: [text('date must be in the future')] }, /date must be in the future/],
    ['as data', { isError: true, content: [], structuredContent: { code: 17 } }, /"code":17/],
    ['without a word', { isError: true, content: [] }, /the tool failed and gave no reason/],
    ['without content', { isError: true }, /the tool failed and gave no reason/],
  ])('is marked for the model, recorded as a failure, and the run goes on: %s', async (_name, members, words) => {
    const server = await rig.serve({ on: { 'tools/call': [result(members), 'normal'] } });
    const id = await rig.connector(server.origin);
    const agent = await rig.agent(id);
    rig.llm.reset({ tool: 'echo', args: '{"text":"1"}' }, { tool: 'echo', args: '{"text":"2"}' }, 'done');
    const turn = await rig.ask(agent, 'go');
    expect(turn).toMatchObject({ answer: 'done', warning: null });
    const told = String(rig.llm.requests[1]?.messages.at(-1)?.content);
    expect(told).toMatch(words);
    expect(told).toMatch(/^Error|error/i);
    expect(rig.llm.requests[2]?.messages.at(-1)?.content).toBe('echo: {"text":"2"}');
    expect((await rig.status(id)).status).toBe('connected');
    const { text: audited } = await rig.send('POST', '/audit/_search', { query: { term: { connector_id: id } } });
    expect(audited.match(/"outcome":"tool_error"/g)).toHaveLength(1);
  });

  it.each<[string, JsonValue]>([
    ['a text', 'true'],
    ['a number', 1],
    ['null', null],
  ])('is not one because isError is %s', async (_name, isError) => {
    expect(await read(result({ isError, content: [text('fine')] }))).toBe('fine');
  });
});

describe('parts that are no text', () => {
  const parts: JsonObject[] = [
    { type: 'image', data: 'iVBORw0KGgo=', mimeType: 'image/png' },
    { type: 'audio', data: 'AAAA', mimeType: 'audio/wav' },
    { type: 'resource', resource: { uri: 'file:///a.txt', mimeType: 'text/plain', text: 'RES-TXT' } },
    { type: 'resource', resource: { uri: 'file:///b.pdf', mimeType: 'application/pdf', blob: 'JVBERi0=' } },
    { type: 'resource_link', uri: 'https://x/y', name: 'Y' },
    { type: 'json', json: { k: 1 } },
  ];

  it('are noted with type and size, links by their address, never as base64, never as nothing', async () => {
    const told = await read(result({ content: parts }));
    for (const word of ['RES-TXT', 'image/png', 'audio/wav', 'application/pdf', 'https://x/y', 'Y', 'json']) {
      expect(told).toContain(word);
    }
    for (const raw of ['iVBORw0KGgo=', 'JVBERi0=', 'AAAA']) expect(told).not.toContain(raw);
  });

  it('leave the text beside them as it is', async () => {
    const told = await read(result({ content: [text('before'), ...parts.slice(0, 1), text('after')] }));
    expect(told).toBe('before\n[image image/png, 8 bytes, not shown]\nafter');
  });

  it.each(['tools/call by REST'])('are handed over unchanged: %s', async () => {
    const server = await rig.serve({ on: { 'tools/call': result({ content: parts }) } });
    const { body } = await rig.call(await rig.connector(server.origin), 'echo', { text: 'x' });
    expect(body).toEqual({ content: parts, isError: false });
  });

  it.each<[string, JsonValue[]]>([
    ['null', [null, text('fine')]],
    ['a list', [[], text('fine')]],
    ['a type that is no text', [{ type: 7 }, text('fine')]],
    ['a resource that is none', [{ type: 'resource', resource: null }, text('fine')]],
    ['data that is no text', [{ type: 'image', data: { a: 1 }, mimeType: 'image/png' }, text('fine')]],
  ])('and are broken cost only themselves: %s', async (_name, content) => {
    expect(await read(result({ content }))).toContain('fine');
  });
});

describe('a result that is too much', () => {
  it.each([
    ['one text', [text('x'.repeat(7 * MIB))]],
    ['many texts', Array.from({ length: 7000 }, () => text('x'.repeat(1000)))],
    ['a text resource', [{ type: 'resource', resource: { uri: 'file:///x', text: 'x'.repeat(7 * MIB) } }]],
    ['many parts', Array.from({ length: 50_000 }, () => ({ type: 'image', data: '', mimeType: 'image/png' }))],
  ] as [string, JsonObject[]][])(
    'is cut for the model, and says how much of it is there: %s',
    async (_name, content) => {
      const told = await read(result({ content }));
      expect(told.length).toBeLessThan(MIB);
      expect(told).toMatch(/cut: \d+ of \d+/);
    },
  );

  it('is cut where it is structured', async () => {
    const told = await read(result({ content: [], structuredContent: { rows: Array(300_000).fill('0123456789') } }));
    expect(told.length).toBeLessThan(MIB);
    expect(told).toMatch(/cut: \d+ of \d+/);
  });

  it.each<[string, Reply]>([
    ['20 MiB', result({ content: [text('x'.repeat(20 * MIB))] })],
    [
      'more than its announced size',
      { headers: { 'Content-Type': 'application/json', 'Content-Length': '99999999999' }, chunks: ['{'], hold: 'open' },
    ],
  ])('to be read at all is refused, with memory bounded: %s', async (_name, reply) => {
    const before = process.memoryUsage().rss;
    expect(await read(reply)).toMatch(/larger than|more than is accepted|outcome of the call is unknown/i);
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * MIB);
  });
});

describe('a result that breaks its promise', () => {
  const promised = {
    name: 'echo',
    inputSchema: { type: 'object' },
    outputSchema: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] },
  };

  it.each<[string, JsonObject]>([
    ['no structured content', { content: [text('still useful')] }],
    ['another type', { content: [text('still useful')], structuredContent: { n: 'x' } }],
    ['a list', { content: [text('still useful')], structuredContent: [1] }],
  ])('of an output schema is given to the model all the same: %s', async (_name, members) => {
    const server = await rig.serve({ tools: [promised], on: { 'tools/call': result(members) } });
    const agent = await rig.agent(await rig.connector(server.origin));
    rig.llm.reset({ tool: 'echo', args: '{}' }, ({ messages }) => String(messages.at(-1)?.content));
    expect((await rig.ask(agent, 'go')).answer).toBe('still useful');
  });
});
