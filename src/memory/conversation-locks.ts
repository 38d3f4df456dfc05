/** Runs the work of one key after that of all who came before it; other keys are not held up. */
export interface ConversationLocks {
  /** `waited`: somebody came before. @throws what `work` throws; the signal's reason when it is aborted while waiting (`work` is not begun then). */
  run<T>(key: string, signal: AbortSignal, work: (waited: boolean) => Promise<T>): Promise<T>;
}

/** Locks of this process, none held. A key is forgotten when nobody holds it or waits for it. */
export function createConversationLocks(): ConversationLocks {
  const tails = new Map<string, Promise<void>>();
  return {
    async run(key, signal, work) {
      const waited = tails.has(key);
      const before = tails.get(key) ?? Promise.resolve();
      const { promise: done, resolve: release } = deferred();
      const tail = before.then(() => done);
      tails.set(key, tail);
      try {
        await untilAborted(before, signal);
        return await work(waited);
      } finally {
        release();
        void tail.then(() => {
          if (tails.get(key) === tail) tails.delete(key);
        });
      }
    },
  };
}

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

async function untilAborted(waited: Promise<void>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  let stop: () => void = () => undefined;
  const aborted = new Promise<void>((_, reject) => {
    stop = () => reject(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
  });
  try {
    await Promise.race([waited, aborted]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
