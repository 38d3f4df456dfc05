import type { JsonObject } from '../../json.ts';

/** Messages beside the reply that one answer may carry. */
export const MAX_OTHERS = 1000;
/** Notices of progress among them: a long call may give many, and they cost little. */
export const MAX_PROGRESS = 10_000;

/**
 * Passes messages of a server on until there are too many of them, for the process and for what answers its requests.
 * `everyMs` starts the count again after that time, for a stream that stays open; times are those of `now`, in
 * milliseconds.
 */
export function floodGuard(
  take: (message: JsonObject) => void,
  tooMany: () => Error,
  { everyMs, now }: { everyMs?: number; now: () => number },
): (message: JsonObject) => void {
  let since = now();
  let others = 0;
  let progress = 0;
  return (message) => {
    if (everyMs !== undefined && now() - since >= everyMs) {
      since = now();
      others = 0;
      progress = 0;
    }
    if (message.method === 'notifications/progress') progress += 1;
    else others += 1;
    if (others > MAX_OTHERS || progress > MAX_PROGRESS) throw tooMany();
    take(message);
  };
}
