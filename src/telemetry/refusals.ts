import { LRUCache } from 'lru-cache';
import type { AuditEntry } from '../schemas/audit.ts';
import type { Audit } from './audit.ts';

export interface RefusalsDeps {
  readonly audit: Audit;
  /** Epoch milliseconds. */
  readonly now?: () => number;
}

export interface Refusals {
  /** Never waits and never throws. `what`, a permission say, is what is counted with the principal and the action. */
  record(what: string, entry: Omit<AuditEntry, 'outcome'>): void;
}

interface Seen {
  readonly time: number;
  leftOut: number;
}

const WINDOW_MS = 1000;
const REMEMBERED = 10_000;

/**
 * Refusals in the audit trail, at most one row a second for each principal, action and `what`: asking again and again
 * must not fill the trail. The next row of the same kind says how many were left out before it.
 */
export function createRefusals({ audit, now = Date.now }: RefusalsDeps): Refusals {
  const seen = new LRUCache<string, Seen>({ max: REMEMBERED });

  return {
    record(what, entry) {
      const key = JSON.stringify([entry.principal, entry.action, what]);
      const before = seen.get(key);
      const time = now();
      if (before !== undefined && Math.abs(time - before.time) < WINDOW_MS) {
        before.leftOut += 1;
        return;
      }
      seen.set(key, { time, leftOut: 0 });
      const leftOut = before?.leftOut ?? 0;
      const texts = [entry.detail, ...(leftOut === 0 ? [] : [`${leftOut} more before this were left out`])];
      const detail = texts.filter((text) => text !== undefined).join('; ');
      void audit.record({ ...entry, outcome: 'refused', ...(detail === '' ? {} : { detail }) });
    },
  };
}
