import { expect, it } from 'vitest';
import type { JsonValue } from '../../src/json.ts';
import { createModelRateLimiter } from '../../src/models/rate-limiter.ts';

function limiter(): { at(time: number, rate?: JsonValue, model?: string): number | 'taken' } {
  let now = 0;
  const { take } = createModelRateLimiter({ now: () => now });
  return {
    at(time, rate = { limit: 2, unit: 'MINUTES' }, model = 'm') {
      now = time;
      try {
        take(model, rate);
        return 'taken';
      } catch (error) {
        return (error as { retryAfterMs: number }).retryAfterMs;
      }
    },
  };
}

it('lets the calls of a unit come at once, and gives them back evenly', () => {
  const { at } = limiter();
  expect([at(0), at(0), at(0)]).toEqual(['taken', 'taken', 30_000]);
  expect([at(20_000), at(30_000), at(30_000)]).toEqual([10_000, 'taken', 30_000]);
  expect([at(600_000), at(600_000), at(600_000)]).toEqual(['taken', 'taken', 30_000]);
});

it('counts each model alone, and anew when its limiter changes', () => {
  const { at } = limiter();
  const one = { limit: '1', unit: 'hours' };
  expect([at(0, one, 'a'), at(0, one, 'b'), at(0, one, 'a')]).toEqual(['taken', 'taken', 3_600_000]);
  expect(at(0, { limit: 2, unit: 'HOURS' }, 'a')).toBe('taken');
});

it.each([
  undefined,
  null,
  {},
  { limit: 1 },
  { unit: 'SECONDS' },
  { limit: 0, unit: 'SECONDS' },
  { limit: 1, unit: 'x' },
])('does not limit by %j', (rate) => {
  const { at } = limiter();
  expect([at(0, rate ?? null), at(0, rate ?? null)]).toEqual(['taken', 'taken']);
});
