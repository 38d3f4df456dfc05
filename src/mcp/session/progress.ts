import type { CallProgress } from '../types.ts';

/** Passes progress on: only what goes forward, not too often, and the newest in the end. */
export interface ProgressFeed {
  take(progress: unknown): void;
  /** Gives what was held back; nothing comes after it. */
  end(): void;
}

/** Five a second. */
const INTERVAL_MS = 200;

/** A feed for one call. What is no notice of progress is dropped. `clean` is for its text. */
export function createProgressFeed(
  onProgress: (progress: CallProgress) => void,
  clean: (text: string) => string,
): ProgressFeed {
  let highest = Number.NEGATIVE_INFINITY;
  let waiting: CallProgress | undefined;
  let timer: NodeJS.Timeout | undefined;

  function give(): void {
    timer = undefined;
    if (waiting === undefined) return;
    const next = waiting;
    waiting = undefined;
    timer = setTimeout(give, INTERVAL_MS);
    onProgress(next);
  }

  return {
    take(given) {
      const { progress, total, message } = given as Partial<Record<keyof CallProgress, unknown>>;
      if (typeof progress !== 'number' || !(progress > highest)) return;
      highest = progress;
      waiting = {
        progress,
        ...(typeof total === 'number' && { total }),
        ...(typeof message === 'string' && { message: clean(message) }),
      };
      if (timer === undefined) give();
    },
    end() {
      clearTimeout(timer);
      timer = undefined;
      if (waiting !== undefined) onProgress(waiting);
      waiting = undefined;
      highest = Number.POSITIVE_INFINITY;
    },
  };
}
