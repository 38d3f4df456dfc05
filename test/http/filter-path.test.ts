import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { filterFault, filterPath } from '../../src/http/filter-path.ts';
import type { JsonValue } from '../../src/json.ts';
import { type Edge, startEdge } from '../support/edge.ts';

const DEEP = 5000;
function nested(depth: number, name: string): JsonValue {
  let value: JsonValue = 'leaf';
  for (let level = 0; level < depth; level++) value = { [name]: value };
  return value;
}
function membersOf(value: JsonValue): number {
  if (typeof value !== 'object' || value === null) return 0;
  const own = Array.isArray(value) ? 0 : Object.keys(value).length;
  return Object.values(value).reduce((sum: number, member) => sum + membersOf(member), own);
}

describe('a filter', () => {
  const value = { a: { b: { c: 1, d: 2 }, e: 3 }, list: [{ c: 4, d: 5 }, { d: 6 }], q: { q: 7 }, f: null };

  it.each<[string, JsonValue]>([
    ['a.b.c', { a: { b: { c: 1 } } }],
    ['a.*.c,f', { a: { b: { c: 1 } }, f: null }],
    ['**.c', { a: { b: { c: 1 } }, list: [{ c: 4 }] }],
    ['**.**.**.c', { a: { b: { c: 1 } }, list: [{ c: 4 }] }],
    ['a.**', { a: { b: { c: 1, d: 2 }, e: 3 } }],
    ['a.e.**.**', { a: { e: 3 } }],
    ['**.q', { q: { q: 7 } }],
    ['l*t.d', { list: [{ d: 5 }, { d: 6 }] }],
    ['-a.b,-list,-q', { a: { e: 3 }, f: null }],
    ['a.b,-**.c', { a: { b: { d: 2 } } }],
    ['-**.d', { a: { b: { c: 1 }, e: 3 }, list: [{ c: 4 }, {}], q: { q: 7 }, f: null }],
    ['nothing', {}],
    ['a.b.c.x', {}],
  ])('%s', (expression, shown) => {
    expect(filterPath(value, expression)).toEqual(shown);
  });

  it('compares no member with a segment twice, whatever the expression and the value', () => {
    const segment = fc.constantFrom('**', '*', 'a', 'b', 'q', 'a*');
    const path = fc.array(segment, { minLength: 1, maxLength: 12 }).map((segments) => segments.join('.'));
    const expressions = fc.array(path, { minLength: 1, maxLength: 6 });
    const { tree } = fc.letrec<{ tree: JsonValue }>((tie) => ({
      tree: fc.oneof(
        { depthSize: 'large', maxDepth: 8 },
        fc.constant<JsonValue>('leaf'),
        fc.dictionary(fc.constantFrom('a', 'b', 'q'), tie('tree'), { maxKeys: 3 }),
        fc.array(tie('tree'), { maxLength: 3 }),
      ) as fc.Arbitrary<JsonValue>,
    }));
    fc.assert(
      fc.property(tree, expressions, fc.boolean(), (document, paths, leavesOut) => {
        const meter = { steps: 0 };
        filterPath(document, paths.map((text) => (leavesOut ? `-${text}` : text)).join(','), meter);
        const segments = paths.reduce((sum, text) => sum + text.split('.').length, 0);
        expect(meter.steps).toBeLessThanOrEqual(membersOf(document) * segments);
      }),
    );
  });

  it.each(['**.**.**.**.**.**.q', '**.a.**.a.**.a.**.a.**.q', '-**.**.**.a.**.q'])(
    'works in proportion to the depth of the document for %s',
    (expression) => {
      const meter = { steps: 0 };
      filterPath(nested(DEEP, 'a'), expression, meter);
      expect(meter.steps).toBeLessThanOrEqual(DEEP * 6);
    },
  );

  it('finds what lies deeper than the stack', () => {
    expect(Object.keys(filterPath(nested(100_000, 'a'), '**.a') as object)).toEqual(['a']);
    expect(filterPath({ b: nested(100_000, 'a') }, '**.q')).toEqual({});
    expect(filterPath({ b: nested(100_000, 'a') }, '-b.**.q')).toHaveProperty('b');
  });

  it('is refused when it is too long', () => {
    const segments = (count: number): string => Array(count).fill('a').join('.');
    expect(filterFault(segments(256))).toBeUndefined();
    expect(filterFault(segments(257))).toBe('[filter_path] has 257 segments, at most 256 are read');
    expect(filterFault(`${segments(200)},-${segments(57)}`)).toContain('257 segments');
    expect(filterFault('a'.repeat(4097))).toContain('max length is 4096');
  });
});

describe('a request', () => {
  let handled = 0;
  let edge: Edge;
  let keyed: Edge;
  beforeAll(async () => {
    const start = (options: { apiKey?: string }): Promise<Edge> =>
      startEdge(async (app) => {
        app.get('/things', async () => {
          handled += 1;
          return { a: { q: 1 }, b: 2 };
        });
      }, options);
    [edge, keyed] = await Promise.all([start({}), start({ apiKey: 'k-0123456789' })]);
  });
  afterAll(() => Promise.all([edge.close(), keyed.close()]));

  it('with a filter that is too large is refused before it is handled', async () => {
    const path = `/things?filter_path=${Array(2000).fill('x').join('.')}`;
    const response = await fetch(edge.url + path);
    const reason = '[filter_path] has 2000 segments, at most 256 are read';
    const top = { type: 'illegal_argument_exception', reason };
    expect([response.status, await response.json()]).toEqual([
      400,
      { error: { root_cause: [top], ...top }, status: 400 },
    ]);
    expect(handled).toBe(0);
    const stranger = await fetch(keyed.url + path);
    expect([stranger.status, Object.keys((await stranger.json()) as object)]).toEqual([401, ['error', 'status']]);
  });

  it('gets what its filter leaves', async () => {
    const response = await fetch(`${edge.url}/things?filter_path=**.**.**.**.**.**.q`);
    expect(await response.json()).toEqual({ a: { q: 1 } });
  });
});
