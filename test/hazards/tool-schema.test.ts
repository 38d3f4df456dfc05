import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/json.ts';
import type { FakeMcpServer } from '../support/fake-mcp-server.ts';
import { startRig } from './rig.ts';

const rig = startRig();

/** One run in which the model calls every tool it is offered; resolves with the schemas it was given, by name. */
async function offeredBy(
  server: FakeMcpServer,
  args = '{}',
): Promise<{ agent: string; schemas: Record<string, JsonObject> }> {
  const agent = await rig.agent(await rig.connector(server.origin));
  rig.llm.reset(
    ({ toolNames }) => (toolNames.length === 0 ? 'done' : { calls: toolNames.map((tool) => ({ tool, args })) }),
    'done',
  );
  expect((await rig.ask(agent, 'go')).answer).toBe('done');
  expect(rig.llm.faults).toEqual([]);
  const functions = (rig.llm.requests[0]?.tools ?? []).map((tool) => tool.function as JsonObject);
  return { agent, schemas: Object.fromEntries(functions.map((f) => [f.name, f.parameters as JsonObject])) };
}
const called = (server: FakeMcpServer): unknown[] =>
  server.of('tools/call').map(({ message }) => (message?.params as JsonObject | undefined)?.name);

describe('one tool with an unusual schema', () => {
  it('costs none of the others, and is named with its reason', async () => {
    const tools: JsonObject[] = [
      { name: 'good', inputSchema: { type: 'object', properties: { q: { type: 'string' } } } },
      { name: 'none' },
      { name: 'nul', inputSchema: null },
      { name: 'empty', inputSchema: {} },
      { name: 'meta', inputSchema: { $schema: 'http://json-schema.org/draft-07/schema#' } },
      { name: 'noprops', inputSchema: { type: 'object' } },
      { name: 'str', inputSchema: { type: 'string' } },
    ];
    const server = await rig.serve({ tools });
    const { agent, schemas } = await offeredBy(server);
    expect(Object.keys(schemas)).toEqual(['good', 'empty', 'meta', 'noprops']);
    for (const schema of Object.values(schemas)) {
      expect(schema).toMatchObject({ type: 'object', properties: expect.any(Object) });
    }
    expect(called(server)).toEqual(['good', 'empty', 'meta', 'noprops']);
    const [connection] = await rig.connections(agent);
    expect(connection).toMatchObject({ status: 'connected', tool_count: 4 });
    const left = ['none', 'nul', 'str'].map((name) => ({ name, reason: expect.any(String) }));
    expect(connection?.left_out).toEqual(left);
  });

  it.each<[string, JsonValue]>([
    ['a list', []],
    ['true', true],
    ['false', false],
    ['a text', '{"type":"object"}'],
    ['a number', 7],
    ['a list of types without object', { type: ['string', 'null'] }],
    ['properties that are a list', { type: 'object', properties: ['a'] }],
    ['an array', { type: 'array', items: {} }],
  ])('is left out, and the next one offered: %s', async (_name, inputSchema) => {
    const server = await rig.serve({
      tools: [
        { name: 'odd', inputSchema },
        { name: 'good', inputSchema: {} },
      ],
    });
    const { agent, schemas } = await offeredBy(server);
    expect(Object.keys(schemas)).toEqual(['good']);
    expect((await rig.connections(agent))[0]).toMatchObject({
      left_out: [{ name: 'odd', reason: expect.any(String) }],
    });
  });

  it.each<[string, JsonObject]>([
    ['several types', { type: ['object', 'null'], properties: { a: { type: 'string' } } }],
    ['alternatives at its root', { type: 'object', anyOf: [{ properties: { a: {} } }, { properties: { b: {} } }] }],
    ['exclusive alternatives', { oneOf: [{ required: ['a'], properties: { a: {} } }, { properties: { b: {} } }] }],
    [
      'parts at its root',
      { allOf: [{ properties: { a: {} } }, { $ref: '#/$defs/p' }], $defs: { p: { properties: { b: {} } } } },
    ],
    [
      'a reference at its root',
      { $ref: '#/definitions/A', definitions: { A: { type: 'object', properties: { a: {} } } } },
    ],
    ['properties that are true and false', { properties: { a: true, b: false } }],
    ['a required list that is none', { properties: { a: {} }, required: 'a' }],
    ['a property without anything', { properties: { a: {} } }],
    ['a dialect that nobody knows', { $schema: 'urn:x:y', properties: { a: {} } }],
    ['a dialect of 2019', { $schema: 'https://json-schema.org/draft/2019-09/schema', properties: { a: {} } }],
    ['a type that does not exist', { properties: { a: { type: 'file' } } }],
    ['a pattern that is none', { properties: { a: { type: 'string', pattern: '([' } } }],
    ['an empty enum', { properties: { a: { enum: [] } } }],
    ['null for what it does not say', { properties: { a: { type: 'string', description: null, enum: null } } }],
    ['names of the prototype', { properties: { constructor: { type: 'string' }, toString: { type: 'string' } } }],
  ])('that can be used is offered as an object and can be called: %s', async (_name, inputSchema) => {
    const server = await rig.serve({ tools: [{ name: 'odd', inputSchema }] });
    const { schemas } = await offeredBy(server);
    expect(schemas.odd).toMatchObject({ type: 'object', properties: expect.any(Object) });
    expect(called(server)).toEqual(['odd']);
  });
});

describe('a schema that refers to itself', () => {
  const kids = (at: string): JsonObject => ({ type: 'array', items: { $ref: at } });
  const tree = (at: string): JsonObject => ({ type: 'object', properties: { v: { type: 'string' }, kids: kids(at) } });
  const nested = '{"v":"a","kids":[{"v":"b","kids":[{"v":"c","kids":[]}]}]}';

  it.each<[string, JsonObject]>([
    [
      'through $defs',
      { $defs: { node: tree('#/$defs/node') }, properties: { root: { $ref: '#/$defs/node' } }, required: ['root'] },
    ],
    [
      'through definitions',
      { definitions: { n: tree('#/definitions/n') }, properties: { root: { $ref: '#/definitions/n' } } },
    ],
    [
      'into its own tree',
      { properties: { root: { type: 'object', properties: { v: {}, kids: kids('#/properties/root') } } } },
    ],
    [
      'through two that refer to each other',
      {
        $defs: { a: { type: 'object', properties: { v: {}, kids: kids('#/$defs/b') } }, b: { $ref: '#/$defs/a' } },
        properties: { root: { $ref: '#/$defs/a' } },
      },
    ],
    ['through its root', { properties: { root: { type: 'object' }, again: { $ref: '#' } } }],
  ])('%s reaches the model with references that resolve, and nested arguments the server', async (_name, more) => {
    const server = await rig.serve({ tools: [{ name: 'tree', inputSchema: { type: 'object', ...more } }] });
    const { schemas } = await offeredBy(server, `{"root":${nested}}`);
    const offered = schemas.tree ?? {};
    for (const [, pointer = ''] of JSON.stringify(offered).matchAll(/"\$ref":"#([^"]*)"/g)) {
      const target = pointer
        .split('/')
        .slice(1)
        .reduce<unknown>((at, key) => (at as JsonObject | undefined)?.[key], offered);
      expect(target, pointer).toBeTypeOf('object');
    }
    expect(server.of('tools/call')[0]?.body).toContain(nested);
  });
});

describe('arguments', () => {
  it('that do not fit are told to the model with what would fit, and never reach the server', async () => {
    const inputSchema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] };
    const server = await rig.serve({ tools: [{ name: 'count', inputSchema }] });
    const agent = await rig.agent(await rig.connector(server.origin));
    rig.llm.reset({ tool: 'count', args: '{"n":"x"}' }, { tool: 'count', args: '{"n":3}' }, ({ messages }) =>
      String(messages.at(-1)?.content),
    );
    expect((await rig.ask(agent, 'go')).answer).toBe('count: {"n":3}');
    expect(JSON.stringify(rig.llm.requests[1]?.messages.at(-1))).toMatch(/\/n must be integer/);
    expect(server.of('tools/call')).toHaveLength(1);
  });
});
