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
