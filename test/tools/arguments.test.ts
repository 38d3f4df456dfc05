import { describe, expect, it } from 'vitest';
import { createArgumentChecker } from '../../src/tools/arguments.ts';

const checker = createArgumentChecker();
const object = (properties: Record<string, object>, rest: object = {}) =>
  ({ type: 'object', properties, ...rest }) as Parameters<typeof checker.check>[1];

describe('arguments of a tool call', () => {
  it('that fit the schema are fine', () => {
    const schema = object({ id: { type: 'integer' } }, { required: ['id'] });
    expect(checker.check('{"id":7}', schema)).toBeUndefined();
    expect(checker.check('{"id":2512292042121000001}', schema)).toBeUndefined();
  });

  it('that are no JSON object are malformed', () => {
    expect(checker.check('{"id": 7', object({}))).toMatchObject({
      cause: 'malformed_arguments',
      message: expect.stringMatching(/^not valid JSON: /),
    });
    for (const text of ['[]', '7', '"{}"', 'null']) {
      expect(checker.check(text, object({}))).toEqual({ cause: 'malformed_arguments', message: 'not a JSON object' });
    }
  });

  it('that nest too deep are malformed, also for a schema that follows them down', () => {
    const tree = object({ a: { $ref: '#' } });
    const nested = (levels: number): string => `${'{"a":'.repeat(levels)}{}${'}'.repeat(levels)}`;
    expect(checker.check(nested(999), tree)).toBeUndefined();
    expect(checker.check(nested(100_000), tree)).toEqual({
      cause: 'malformed_arguments',
      message: 'nested deeper than 1000 levels',
    });
  });

  it('that do not fit are told with their paths', () => {
    const schema = object(
      { unit: { enum: ['c', 'f'] }, deep: object({ n: { type: 'number' } }) },
      { required: ['city'], additionalProperties: false },
    );
    const fault = checker.check('{"unit":"k","deep":{"n":"x"},"extra":1}', schema);
    expect(fault?.cause).toBe('invalid_arguments');
    for (const part of [
      "arguments must have required property 'city'",
      'arguments must NOT have additional properties (extra)',
      '/unit must be equal to one of the allowed values (["c","f"])',
      '/deep/n must be number',
    ]) {
      expect(fault?.message).toContain(part);
    }
  });

  it('with many faults show the first five', () => {
    const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
    const fault = checker.check('{}', object({}, { required: names }));
    expect(fault?.message.split('; ')).toHaveLength(6);
    expect(fault?.message).toMatch(/; and 2 more$/);
    expect(checker.check('{}', object({}, { required: names.slice(0, 5) }))?.message).not.toContain('more');
  });

  it('are not checked against a schema that cannot be compiled, nor one that points elsewhere', () => {
    expect(checker.check('{"x":1}', object({ x: { type: 'no-such-type' } }))).toBeUndefined();
    expect(checker.check('{"x":1}', object({ x: { $ref: 'https://example.com/x.json' } }))).toBeUndefined();
    expect(checker.check('{"x":1}', object({ x: { $ref: '#/$defs/missing' } }))).toBeUndefined();
  });

  it('are checked by the dialect the schema names, with or without an id', () => {
    const tuple = { type: 'array', items: [{ type: 'string' }, { type: 'number' }] };
    const old = object({ t: tuple }, { $schema: 'http://json-schema.org/draft-07/schema#', $id: 'urn:x' });
    expect(checker.check('{"t":["a","b"]}', old)?.message).toBe('/t/1 must be number');
    const prefix = { type: 'array', prefixItems: [{ type: 'string' }] };
    const current = object({ t: prefix }, { $schema: 'https://json-schema.org/draft/2020-12/schema', $id: 'urn:x' });
    expect(checker.check('{"t":[1]}', current)?.message).toBe('/t/0 must be string');
    expect(checker.check('{"t":[1]}', object({ t: prefix }))?.message).toBe('/t/0 must be string');
  });

  it('follow references inside the schema', () => {
    const schema = object({ at: { $ref: '#/$defs/place' } }, { $defs: { place: object({ n: { type: 'number' } }) } });
    expect(checker.check('{"at":{"n":"x"}}', schema)?.message).toBe('/at/n must be number');
  });

  it('never run a regular expression of the server', () => {
    const evil = '^(a+)+$';
    const schema = object(
      { x: { type: 'string', pattern: evil } },
      { patternProperties: { [evil]: { type: 'number' } }, additionalProperties: false },
    );
    const text = JSON.stringify({ x: `${'a'.repeat(60)}!`, [`${'a'.repeat(60)}!`]: 'z' });
    expect(checker.check(text, schema)).toBeUndefined();
  });

  /** Twelve levels of eight alternatives each: 8^12 ways to be wrong. */
  const multiplying = (at: string): Record<string, object> =>
    Object.fromEntries(
      Array.from({ length: 12 }, (_, n) => [
        `l${n}`,
        n === 11 ? { type: 'integer' } : { anyOf: Array.from({ length: 8 }, () => ({ $ref: `${at}/l${n + 1}` })) },
      ]),
    );

  it.each([
    ['$defs', '#/$defs', { $defs: multiplying('#/$defs') }],
    ['an unknown keyword', '#/x-parts', { 'x-parts': multiplying('#/x-parts') }],
    ['a default', '#/default', { default: multiplying('#/default') }],
    ['an enum', '#/properties/e/enum/0', {}],
    ['a const', '#/properties/c/const', {}],
  ])('are left to the server when the schema multiplies itself: in %s', (_name, at, rest) => {
    const e = { enum: [multiplying('#/properties/e/enum/0')] };
    const c = { const: multiplying('#/properties/c/const') };
    expect(checker.check('{"q":"no"}', object({ q: { $ref: `${at}/l0` }, e, c }, rest))).toBeUndefined();
  });

  it('are left to the server when the schema has no end', () => {
    expect(checker.check('{"q":1}', object({ q: { $ref: '#/properties/q' } }))).toBeUndefined();
    const twins = { $defs: { a: { allOf: [{ $ref: '#/$defs/a' }, { $ref: '#/$defs/a' }] } } };
    expect(checker.check('{"q":1}', object({ q: { $ref: '#/$defs/a' } }, twins))).toBeUndefined();
  });

  it('are checked where names look like keywords', () => {
    const schema = object({
      enum: { type: 'string' },
      default: { type: 'string' },
      again: { $ref: '#/properties/default' },
    });
    expect(checker.check('{"enum":1}', schema)?.message).toBe('/enum must be string');
    expect(checker.check('{"default":1}', schema)?.message).toBe('/default must be string');
    expect(checker.check('{"again":1}', schema)?.message).toBe('/again must be string');
  });

  it('do not have their formats judged', () => {
    expect(checker.check('{"d":"tomorrow"}', object({ d: { type: 'string', format: 'date' } }))).toBeUndefined();
  });

  it('are checked with a schema of any size up to a bound', () => {
    const wide = (count: number) =>
      object(Object.fromEntries(Array.from({ length: count }, (_, i) => [`property_${i}`, { type: 'string' }])));
    expect(checker.check('{"property_1":1}', wide(100))?.cause).toBe('invalid_arguments');
    expect(checker.check('{"property_1":1}', wide(20_000))).toBeUndefined();
  });
});
