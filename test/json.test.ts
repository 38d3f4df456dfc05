import { expect, it } from 'vitest';
import { exceedsDepth, type JsonValue } from '../src/json.ts';

it.each<[JsonValue, number]>([
  [1, 0],
  ['[[]]', 0],
  [null, 0],
  [[], 1],
  [{ a: [1, { b: 2 }], c: 1 }, 3],
])('%j nests %d deep', (value, depth) => {
  expect(exceedsDepth(value, depth)).toBe(false);
  if (depth > 0) expect(exceedsDepth(value, depth - 1)).toBe(true);
});

it('depth is told without recursion', () => {
  const deep = JSON.parse(`${'[{"a":'.repeat(50_000)}1${'}]'.repeat(50_000)}`) as JsonValue;
  expect(exceedsDepth(deep, 100_000)).toBe(false);
  expect(exceedsDepth(deep, 99_999)).toBe(true);
});
