import { expect, it } from 'vitest';
import { createAuditRetention } from '../../src/telemetry/audit-retention.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { createRedactor } from '../../src/telemetry/redactor.ts';

const DAY = 86_400_000;

function retentionOf(rows: number, days: number) {
  const calls: { time: number; limit: number }[] = [];
  let left = rows;
  const store = {
    async deleteBefore(time: number, limit: number): Promise<number> {
      calls.push({ time, limit });
      const deleted = Math.min(limit, left);
      left -= deleted;
      return deleted;
    },
  };
  const log = createLogger({ level: 'silent', redactor: createRedactor() });
  return { calls, retention: createAuditRetention({ store, days: () => days, log, now: () => 100 * DAY }) };
}

it('deletes what is older than the days to keep, in batches', async () => {
  const { calls, retention } = retentionOf(1201, 90);
  expect(await retention.sweep()).toBe(1201);
  await retention.stop();
  expect(calls).toEqual(Array.from({ length: 3 }, () => ({ time: 10 * DAY, limit: 500 })));
});

it('keeps everything when no days are set', async () => {
  const { calls, retention } = retentionOf(1201, 0);
  expect(await retention.sweep()).toBe(0);
  await retention.stop();
  expect(calls).toEqual([]);
});

it('stops after the batch under way', async () => {
  const { calls, retention } = retentionOf(Number.MAX_SAFE_INTEGER, 90);
  const swept = retention.sweep();
  while (calls.length < 2) await new Promise((done) => setImmediate(done));
  await retention.stop();
  const made = calls.length;
  expect(await swept).toBe(made * 500);
  await new Promise((done) => setImmediate(done));
  expect(calls).toHaveLength(made);
});
