import { LRUCache } from 'lru-cache';
import type { SignInFailureStore } from '../store/sign-in-failures.ts';
import type { Logger } from '../telemetry/logger.ts';

/** Whose failures are counted together. */
export interface ThrottleSubject {
  readonly kind: 'name' | 'peer';
  readonly value: string;
  /** Outlives a restart. `false` for a name nobody has, which may be a password typed into the wrong field. */
  readonly kept: boolean;
}

export type Attempt<T> =
  /** Not tried: too many failures before it. */
  { readonly waitMs: number } | { readonly result: T | undefined };

/** Slows guessing: after some failures each further one doubles the time until the next attempt is looked at. */
export interface SignInThrottle {
  /** `work` answers `undefined` for a failure; a result forgets the failures of all subjects. */
  attempt<T>(subjects: readonly ThrottleSubject[], work: () => Promise<T | undefined>): Promise<Attempt<T>>;
}

export interface SignInThrottleDeps {
  readonly store: SignInFailureStore;
  readonly log: Logger;
  readonly now?: () => number;
}

interface Counter {
  failures: number;
  lastTime: number;
  running: number;
  stored: boolean;
}

/** Failures that cost nothing. A peer may be a proxy with many users behind it. */
const FREE = { name: 5, peer: 20 } as const;
const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 60_000;
/** Without a failure for this long, the count starts again. */
const FORGET_MS = 15 * 60_000;
const SUBJECTS = 10_000;
const PURGE_MS = 60 * 60_000;

export function createSignInThrottle({ store, log, now = Date.now }: SignInThrottleDeps): SignInThrottle {
  const counters = new LRUCache<string, Promise<Counter>>({ max: SUBJECTS });
  let purged = Number.NEGATIVE_INFINITY;

  function counter(subject: ThrottleSubject): Promise<Counter> {
    const key = keyOf(subject);
    const known = counters.get(key);
    if (known !== undefined) return known;
    const loading = load(subject, key);
    counters.set(key, loading);
    loading.catch(() => counters.delete(key));
    return loading;
  }

  async function load({ kept }: ThrottleSubject, key: string): Promise<Counter> {
    const row = kept ? await store.get(key) : undefined;
    return { failures: row?.failures ?? 0, lastTime: row?.lastTime ?? 0, running: 0, stored: row !== undefined };
  }

  function waitOf({ kind }: ThrottleSubject, count: Counter): number {
    if (now() - count.lastTime >= FORGET_MS) count.failures = 0;
    // Attempts under way may all fail: as many as are free run side by side for one name, the others wait for them.
    const running = kind === 'name' ? count.running : 0;
    const over = count.failures + running - FREE[kind];
    if (over < 0) return 0;
    if (running > 0) return FIRST_WAIT_MS;
    return Math.max(0, count.lastTime + Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** over) - now());
  }

  /** Not awaited: a name that is kept must not take longer than one that is not. */
  function inBackground(work: Promise<void>): void {
    work.catch((err) => log.error({ err }, 'failed sign-ins could not be recorded'));
  }

  function failed(subject: ThrottleSubject, count: Counter): void {
    count.failures += 1;
    count.lastTime = now();
    if (!subject.kept || count.failures * 2 < FREE[subject.kind]) return;
    count.stored = true;
    const { failures, lastTime } = count;
    inBackground(store.save(keyOf(subject), { failures, lastTime }));
    if (now() - purged < PURGE_MS) return;
    purged = now();
    inBackground(store.forgetBefore(now() - FORGET_MS));
  }

  function succeeded(subject: ThrottleSubject, count: Counter): void {
    count.failures = 0;
    if (!count.stored) return;
    count.stored = false;
    inBackground(store.forget(keyOf(subject)));
  }

  return {
    async attempt(subjects, work) {
      const counts = await Promise.all(subjects.map(async (subject) => ({ subject, count: await counter(subject) })));
      const waitMs = Math.max(...counts.map(({ subject, count }) => waitOf(subject, count)));
      if (waitMs > 0) return { waitMs };
      for (const { count } of counts) count.running += 1;
      try {
        const result = await work();
        for (const { subject, count } of counts) (result === undefined ? failed : succeeded)(subject, count);
        return { result };
      } finally {
        for (const { count } of counts) count.running -= 1;
      }
    },
  };
}

function keyOf({ kind, value }: ThrottleSubject): string {
  return `${kind}:${value}`;
}
