/** Work whose result nobody wants any more: the connector changed, or was reset, while it ran. */
export class Superseded extends Error {
  override name = 'Superseded';
}

/** The promise, or the reason of `signal` if that comes first; the work itself goes on for the others who wait. */
export function whileNotAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const aborted = (): void => reject(signal.reason);
    if (signal.aborted) aborted();
    signal.addEventListener('abort', aborted, { once: true });
    const settled = (): void => signal.removeEventListener('abort', aborted);
    promise.then(resolve, reject).then(settled, settled);
  });
}

/** Work under way that somebody may have to wait for. */
export interface OpenWork {
  /** Counts it until it settles; the promise itself is given back. */
  track<T>(promise: Promise<T>): Promise<T>;
  /** Resolves when none is left, or after `limitMs`. */
  settled(limitMs?: number): Promise<void>;
}

/** Counts work under way; none yet. */
export function createOpenWork(): OpenWork {
  const open = new Set<Promise<unknown>>();

  async function empty(): Promise<void> {
    while (open.size > 0) await Promise.allSettled(open);
  }

  return {
    track(promise) {
      open.add(promise);
      const ended = (): void => void open.delete(promise);
      promise.then(ended, ended);
      return promise;
    },
    async settled(limitMs) {
      if (limitMs === undefined) return empty();
      let timer: NodeJS.Timeout | undefined;
      const limit = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, limitMs);
      });
      await Promise.race([empty(), limit]);
      clearTimeout(timer);
    },
  };
}

/** Runs `start` once at a time: whoever asks while it runs gets the same promise. */
export function singleFlight<T, A extends unknown[]>(start: (...args: A) => Promise<T>): (...args: A) => Promise<T> {
  let running: Promise<T> | undefined;
  return (...args) => {
    running ??= start(...args).finally(() => {
      running = undefined;
    });
    return running;
  };
}
