import { UpstreamError } from '../../errors.ts';
import { amended, seconds } from '../failures.ts';

/** Keeps uses from asking a server again and again that refuses every time. */
export interface HoldOff {
  /** Epoch milliseconds until which uses are answered with the last failure; `undefined`: the next one asks. */
  until(): number | undefined;
  /** Whether it is the server that named the wait. */
  isAsked(): boolean;
  failed(error: unknown): void;
  /** @throws what failed last, telling when it is tried again; while the wait lasts */
  refuse(): void;
  /** It worked, or a person has acted. */
  end(): void;
}

/** Of failures in a row the first that is waited after: a person who repairs the other side sees it at the next use. */
const FAILURES = 3;
const BASE_MS = 1000;
const MAX_MS = 30_000;
/** A wait a server asks for is obeyed up to this long. */
const LONGEST_ASKED_MS = 3_600_000;

/**
 * For failures the breaker does not count: the server is there, and what it refuses waits for a person. From the third in
 * a row on uses wait 1 s, doubled with each failure up to 30 s; after a rate limit at least as long as the server asks.
 */
export function createHoldOff(now: () => number): HoldOff {
  let inRow = 0;
  let held: { until: number; asked: boolean; error: unknown } | undefined;

  function current(): typeof held {
    return held !== undefined && held.until > now() ? held : undefined;
  }

  return {
    until: () => current()?.until,
    isAsked: () => current()?.asked ?? false,
    failed(error) {
      inRow += 1;
      if (inRow < FAILURES) return;
      const own = Math.min(MAX_MS, BASE_MS * 2 ** (inRow - FAILURES));
      const limited = error instanceof UpstreamError && error.code === 'rate_limited' ? error.retryAfterMs : undefined;
      const asked = Math.min(limited ?? 0, LONGEST_ASKED_MS);
      held = { until: now() + Math.max(own, asked), asked: asked > own, error };
    },
    refuse() {
      const wait = current();
      if (wait === undefined) return;
      const { error, until } = wait;
      if (!(error instanceof UpstreamError)) throw error;
      const leftMs = until - now();
      const stop = /[.!?…]$/.test(error.message) ? '' : '.';
      throw amended(error, {
        message: `${error.message}${stop} It is not asked again for ${seconds(leftMs)}.`,
        delivered: 'no',
        retryable: false,
        retryAfterMs: leftMs,
        nextRetryTime: until,
      });
    },
    end() {
      inRow = 0;
      held = undefined;
    },
  };
}
