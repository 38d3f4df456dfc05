import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/json.ts';
import { readToolList } from '../../src/mcp/tool-list.ts';

const read = (entries: JsonValue[], statelessEra = false) => readToolList(entries, { statelessEra });
const object = { type: 'object' };

function nested(depth: number): JsonObject {
  let schema: JsonObject = { type: 'string' };
  for (let level = 1; level < depth; level += 1) schema = { items: schema };
  return schema;
}

describe('reading a tool list', () => {
  it('judges tools one by one', () => {
    const { tools, leftOut } = read([
      { name: 'good', inputSchema: { type: 'object', properties: { q: { type: 'string' } } } },
      { name: 'none' },
      { name: 'nul', inputSchema: null },
      { name: 'empty', inputSchema: {} },
      { name: 'meta', inputSchema: { $schema: 'http://json-schema.org/draft-07/schema#' } },
      { name: 'noprops', inputSchema: object },
      { name: 'str', inputSchema: { type: 'string' } },
      { name: 'bool', inputSchema: true },
      { name: 'list', inputSchema: [] },
      { name: 'oddprops', inputSchema: { type: 'object', properties: [] } },
      'text',
      { inputSchema: object },
      { name: '', inputSchema: object },
    ]);
    expect(tools.map(({ name }) => name)).toEqual(['good', 'empty', 'meta', 'noprops']);
    for (const { inputSchema } of tools) {
      expect(inputSchema.type).toBe('object');
      expect(inputSchema.properties).toBeTypeOf('object');
    }
    expect(leftOut).toEqual([
      { name: 'none', reason: 'it has no inputSchema' },
      { name: 'nul', reason: 'its inputSchema is null' },
      { name: 'str', reason: 'the root of its inputSchema has type "string", not "object"' },
      { name: 'bool', reason: 'its inputSchema is not an object' },
      { name: 'list', reason: 'its inputSchema is not an object' },
      { name: 'oddprops', reason: 'the properties of its inputSchema are not an object' },
      { name: '(entry 11)', reason: 'the definition is not an object' },
      { name: '(entry 12)', reason: 'it has no name' },
      { name: '(entry 13)', reason: 'it has no name' },
    ]);
  });

  it('keeps schemas that refer to themselves as they are', () => {
    const node = { type: 'object', properties: { kids: { type: 'array', items: { $ref: '#/$defs/node' } } } };
    const tree = {
      type: 'object',
      $defs: { node },
      properties: { root: { $ref: '#/$defs/node' } },
      required: ['root'],
    };
    const inner = {
      type: 'object',
      properties: {
        nodes: { type: 'array', items: { type: 'object', properties: { kids: { $ref: '#/properties/nodes/items' } } } },
        ext: { $ref: 'http://127.0.0.1:7898/s.json' },
      },
    };
    const { tools } = read([
      { name: 'tree', inputSchema: tree },
      { name: 'inner', inputSchema: inner },
    ]);
    expect(tools.map(({ inputSchema }) => inputSchema)).toEqual([tree, inner]);
  });

  it('keeps a tool whose outputSchema cannot be used', () => {
    const { tools, warnings } = read([
      { name: 'a', inputSchema: object, outputSchema: 'text' },
      { name: 'b', inputSchema: object, outputSchema: nested(40) },
      { name: 'c', inputSchema: object, outputSchema: object },
    ]);
    expect(tools.map(({ outputSchema }) => outputSchema)).toEqual([undefined, undefined, object]);
    expect(warnings).toHaveLength(2);
  });

  it('bounds size, depth and number', () => {
    const deep: JsonObject = { type: 'object', properties: { a: nested(30) } };
    const deeper: JsonObject = { type: 'object', properties: { a: nested(31) } };
    const big: JsonObject = { type: 'object', description: 'x'.repeat(65 * 1024) };
    const { tools, leftOut } = read([
      { name: 'deep', inputSchema: deep },
      { name: 'deeper', inputSchema: deeper },
      { name: 'big', inputSchema: big },
    ]);
    expect(tools.map(({ name }) => name)).toEqual(['deep']);
    expect(leftOut.map(({ reason }) => reason)).toEqual([
      'its inputSchema is nested deeper than 32 levels',
      'its inputSchema is larger than 64 KiB',
    ]);
    const many = read(Array.from({ length: 600 }, (_, n) => ({ name: `t${n}`, inputSchema: object })));
    expect(many.tools).toHaveLength(512);
    expect(many.warnings).toEqual(['the server lists 88 tools beyond the first 512; they are left out']);
  });

  it('survives a schema nested beyond any stack', () => {
    const { leftOut } = read([{ name: 'abyss', inputSchema: { type: 'object', properties: { a: nested(100_000) } } }]);
    expect(leftOut).toEqual([{ name: 'abyss', reason: 'its inputSchema is nested deeper than 32 levels' }]);
  });

  it('takes the first of repeated names and says so', () => {
    const { tools, warnings } = read([
      { name: 'a', inputSchema: object, description: 'first' },
      { name: 'a', inputSchema: object, description: 'second' },
    ]);
    expect(tools.map(({ description }) => description)).toEqual(['first']);
    expect(warnings).toEqual(['the server lists "a" more than once; the first definition counts']);
  });

  it('removes hidden characters from what a model reads, and cuts long descriptions', () => {
    const hidden = 'safe\u200b\u202e\u{e0041}\u0007 text\nnext';
    const { tools } = read([
      {
        name: 'a',
        title: hidden,
        description: hidden,
        inputSchema: { type: 'object', properties: { q: { type: 'string', description: hidden, enum: ['\u200b'] } } },
      },
      { name: 'b', inputSchema: object, description: `${'d'.repeat(4094)}😀tail` },
    ]);
    expect(tools[0]).toMatchObject({ title: 'safe text\nnext', description: 'safe text\nnext' });
    expect(tools[0]?.inputSchema.properties).toEqual({
      q: { type: 'string', description: 'safe text\nnext', enum: ['\u200b'] },
    });
    expect(tools[1]?.description).toBe(`${'d'.repeat(4094)}…`);
  });

  it('keeps a property named __proto__ or description', () => {
    const inputSchema = JSON.parse(
      '{"type":"object","properties":{"__proto__":{"type":"string"},"description":{"type":"string"}}}',
    ) as JsonObject;
    expect(JSON.stringify(read([{ name: 'a', inputSchema }]).tools[0]?.inputSchema)).toBe(JSON.stringify(inputSchema));
  });

  it('hashes name, description, schemas and annotations, whatever the order of members', () => {
    const hashOf = (entry: JsonObject): string | undefined => read([entry]).tools[0]?.hash;
    const base: JsonObject = { name: 'a', description: 'd', inputSchema: { type: 'object', properties: {} } };
    const hash = hashOf(base);
    expect(hash).toMatch(/^[0-9a-f]{64}$/);
    expect(hashOf({ inputSchema: { properties: {}, type: 'object' }, description: 'd', name: 'a' })).toBe(hash);
    const changes: JsonObject[] = [
      { name: 'b' },
      { description: 'e' },
      { inputSchema: { type: 'object', required: ['x'] } },
      { outputSchema: object },
      { annotations: { readOnlyHint: true } },
    ];
    for (const change of changes) expect(hashOf({ ...base, ...change })).not.toBe(hash);
  });

  it.each([
    { name: 'no token', property: { type: 'string', 'x-mcp-header': 'My Region' } },
    { name: 'empty', property: { type: 'string', 'x-mcp-header': '' } },
    { name: 'a number', property: { type: 'number', 'x-mcp-header': 'A' } },
    { name: 'no type', property: { 'x-mcp-header': 'A' } },
    { name: 'below items', property: { type: 'array', items: { type: 'string', 'x-mcp-header': 'A' } } },
    { name: 'below anyOf', property: { anyOf: [{ type: 'string', 'x-mcp-header': 'A' }] } },
    {
      name: 'below patternProperties',
      property: { patternProperties: { x: { type: 'string', 'x-mcp-header': 'A' } } },
    },
  ])('leaves out a tool with a wrong header annotation in the stateless era: $name', ({ property }) => {
    const entry: JsonObject = { name: 'a', inputSchema: { type: 'object', properties: { p: property as JsonObject } } };
    expect(read([entry], true).tools).toEqual([]);
    expect(read([entry], true).leftOut[0]?.reason).toContain('x-mcp-header');
    expect(read([entry], false).tools).toHaveLength(1);
  });

  it('keeps good header annotations, also nested ones, but no two of one name', () => {
    const inputSchema = (second: string): JsonObject => ({
      type: 'object',
      properties: {
        p: { type: 'string', 'x-mcp-header': 'Region' },
        o: { type: 'object', properties: { q: { type: 'integer', 'x-mcp-header': second } } },
      },
    });
    expect(read([{ name: 'a', inputSchema: inputSchema('Zone') }], true).tools).toHaveLength(1);
    expect(read([{ name: 'a', inputSchema: inputSchema('REGION') }], true).tools).toHaveLength(0);
  });
});
