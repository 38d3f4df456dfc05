import { expect, it } from 'vitest';
import { createRevision } from '../../src/identity/revision.ts';
import { createClock } from '../support/clock.ts';

function slowStore() {
  const asked: ((value: number) => void)[] = [];
  return { asked, revision: () => new Promise<number>((resolve) => asked.push(resolve)) };
}

it('is asked for once a second, by whoever comes at the same time together', async () => {
  const clock = createClock();
  const store = slowStore();
  const revision = createRevision({ store, now: clock.now });
  const both = [revision.read(), revision.read()];
  store.asked[0]?.(7);
  expect(await Promise.all(both)).toEqual([7, 7]);
  clock.advance(999);
  expect(await revision.read()).toBe(7);
  expect(store.asked).toHaveLength(1);
  clock.advance(1);
  const next = revision.read();
  store.asked[1]?.(8);
  expect(await next).toBe(8);
});

it('is not remembered from an answer that was asked for before a change', async () => {
  const store = slowStore();
  const revision = createRevision({ store, now: createClock().now });
  const before = revision.read();
  revision.changed();
  const after = revision.read();
  store.asked[1]?.(8);
  expect(await after).toBe(8);
  store.asked[0]?.(7);
  expect(await before).toBe(7);
  expect(await revision.read()).toBe(8);
});

it('is asked for again after a failure', async () => {
  let fails = true;
  const store = { revision: async () => (fails ? Promise.reject(new Error('locked')) : 3) };
  const revision = createRevision({ store });
  await expect(revision.read()).rejects.toThrow('locked');
  fails = false;
  expect(await revision.read()).toBe(3);
});
