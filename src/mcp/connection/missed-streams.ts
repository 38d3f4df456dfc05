import type { OpenSession } from './session-lifetimes.ts';

export interface MissedStreamsDeps {
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly markStale: (why: string) => void;
  readonly isCurrent: (open: OpenSession) => boolean;
  /** Asks the server for a sign of life. */
  readonly ask: (open: OpenSession) => void;
}

/** Between signs of life that are asked for because a stream ended. */
const BETWEEN_MS = 10_000;

/**
 * Takes in that the stream ended on which a server tells of changes; `undefined`: of a session not yet in use. Its list is
 * read again, and a round trip tells whether the stream ended by itself or with its server: one for each server in 10 s,
 * the last of them after the last end, so that streams that keep ending cause no storm.
 */
export function createMissedStreams(deps: MissedStreamsDeps): (open: OpenSession | undefined) => void {
  const { now, markStale, isCurrent, ask } = deps;
  let askedAt = Number.NEGATIVE_INFINITY;

  return (open) => {
    markStale('the stream on which its changes are told has ended');
    const time = now();
    if (open === undefined || !isCurrent(open) || askedAt > time) return;
    const waitMs = Math.max(0, askedAt + BETWEEN_MS - time);
    askedAt = time + waitMs;
    const askNow = (): void => {
      if (isCurrent(open)) ask(open);
    };
    if (waitMs === 0) askNow();
    else setTimeout(askNow, waitMs).unref();
  };
}
