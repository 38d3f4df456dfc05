/** When a list that its server says has changed is read again although nobody uses it. */
export interface ListRefresh {
  changed(): void;
  /** Epoch milliseconds; `undefined`: nothing to read. */
  dueAt(): number | undefined;
  /** Whether somebody who asks may have it read now. */
  allowed(): boolean;
  /** It is read, by whomever. */
  read(): void;
  /** It is read for nobody, or for a probe. */
  begin(): void;
}

/** A server that changes several tools says so several times. */
const QUIET_MS = 1000;
const BETWEEN_MS = 10_000;
const BETWEEN_PROBES_MS = 5000;

/** 1 s after the last notice, 10 s after the first at the latest, and no more often than every 10 s. */
export function createListRefresh(now: () => number): ListRefresh {
  let notices: { first: number; last: number } | undefined;
  let begun = Number.NEGATIVE_INFINITY;

  return {
    changed() {
      const time = now();
      notices = { first: notices?.first ?? time, last: time };
    },
    dueAt() {
      if (notices === undefined) return undefined;
      const { first, last } = notices;
      return Math.max(begun + BETWEEN_MS, Math.min(last + QUIET_MS, first + BETWEEN_MS));
    },
    allowed: () => now() - begun >= BETWEEN_PROBES_MS,
    read() {
      notices = undefined;
    },
    begin() {
      begun = now();
    },
  };
}
