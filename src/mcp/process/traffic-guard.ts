import { MAX_OTHERS, MAX_PROGRESS } from '../http/flood-guard.ts';

/** What a process says unasked. */
export type Unasked = 'request' | 'notification' | 'progress' | 'noise';

/** Counts what a process says unasked, by the minute. */
export interface TrafficGuard {
  /** Whether there is room for one more of that kind in this minute; what there is no room for is dropped. */
  admit(kind: Unasked, bytes: number): boolean;
}

const WINDOW_MS = 60_000;
/** Whatever the kind: reading them is work. */
const MAX_LINES = 100_000;
const MAX_BYTES = 64 * 1024 * 1024;
const MAX: Readonly<Record<Unasked, number>> = {
  request: MAX_OTHERS,
  notification: MAX_OTHERS,
  progress: MAX_PROGRESS,
  noise: MAX_LINES,
};

/** `onFlood` is called when there is more than can be borne. `now` is in milliseconds. */
export function createTrafficGuard({ now, onFlood }: { now: () => number; onFlood: () => void }): TrafficGuard {
  let since = now();
  let lines = 0;
  let octets = 0;
  const counts = new Map<Unasked, number>();
  return {
    admit(kind, bytes) {
      if (now() - since >= WINDOW_MS) {
        since = now();
        lines = 0;
        octets = 0;
        counts.clear();
      }
      lines += 1;
      octets += bytes;
      if (lines > MAX_LINES || octets > MAX_BYTES) {
        onFlood();
        return false;
      }
      const count = (counts.get(kind) ?? 0) + 1;
      counts.set(kind, count);
      return count <= MAX[kind];
    },
  };
}
