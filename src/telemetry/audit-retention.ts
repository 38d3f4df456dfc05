import { Cron } from 'croner';
import type { Logger } from './logger.ts';

export interface AuditRetentionDeps {
  readonly store: { deleteBefore(time: number, limit: number): Promise<number> };
  /** Days a row is kept, now; 0 keeps all for ever. */
  readonly days: () => number;
  readonly log: Logger;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

export interface AuditRetention {
  /** Deletes what is too old, in batches between which others write; resolves with the number of rows. */
  sweep(): Promise<number>;
  /** Waits for the batch under way; nothing is swept afterwards. */
  stop(): Promise<void>;
}

const DAY_MS = 86_400_000;
const BATCH = 500;
/** What is left goes with the next hour's sweep. */
const MAX_BATCHES = 2000;
const HOURLY = '23 * * * *';

/** Sweeps the audit trail once an hour; keeps no process alive. */
export function createAuditRetention({ store, days, log, now }: AuditRetentionDeps): AuditRetention {
  let stopped = false;
  let sweeping: Promise<number> = Promise.resolve(0);

  async function deleteOld(): Promise<number> {
    const kept = days();
    let deleted = 0;
    if (kept === 0) return deleted;
    const before = now() - kept * DAY_MS;
    for (let batch = 0; batch < MAX_BATCHES && !stopped; batch += 1) {
      const count = await store.deleteBefore(before, BATCH);
      deleted += count;
      if (count < BATCH) break;
    }
    if (deleted > 0) log.info({ deleted, days: kept }, 'audit rows that are too old were deleted');
    return deleted;
  }

  function sweep(): Promise<number> {
    sweeping = sweeping.then(deleteOld, deleteOld);
    return sweeping;
  }

  const job = new Cron(HOURLY, { unref: true, protect: true }, () =>
    sweep().then(
      () => undefined,
      (error: unknown) => log.error({ err: error }, 'old audit rows were not deleted'),
    ),
  );

  return {
    sweep,
    async stop() {
      stopped = true;
      job.stop();
      await sweeping.catch(() => undefined);
    },
  };
}
