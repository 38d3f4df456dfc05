/** When a stream of notifications that ended is opened again: later each time, a bounded number of times in a row. */
export interface Reopening {
  /** The stream stands. */
  opened(): void;
  /** It ended. @returns how long to wait, in milliseconds; `undefined`: it is not opened again */
  ended(askedMs?: number): number | undefined;
}

const MAX_IN_A_ROW = 6;
const FIRST_MS = 1000;
const MAX_MS = 60_000;
/** A stream that stood for so long was a good one. */
const GOOD_MS = 60_000;

/** For one stream. Waits of 1, 2, 4 … seconds up to 60, each by chance up to half shorter; a server may ask for more. */
export function createReopening(random: () => number = Math.random): Reopening {
  let inRow = 0;
  let since: number | undefined;
  return {
    opened() {
      since = performance.now();
    },
    ended(askedMs = 0) {
      if (since !== undefined && performance.now() - since >= GOOD_MS) inRow = 0;
      since = undefined;
      inRow += 1;
      if (inRow > MAX_IN_A_ROW) return undefined;
      const backoff = Math.min(FIRST_MS * 2 ** (inRow - 1), MAX_MS) * (1 - random() / 2);
      return Math.min(Math.max(backoff, askedMs), MAX_MS);
    },
  };
}

/** Waits; ends early, without a failure, when `signal` does. */
export function pauseUnless(signal: AbortSignal, milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    timer.unref();
    if (signal.aborted) done();
    else signal.addEventListener('abort', done, { once: true });
  });
}
