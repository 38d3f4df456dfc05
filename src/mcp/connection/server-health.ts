import type { UpstreamError } from '../../errors.ts';
import { type Breaker, createBreaker } from '../../outbound/resilience.ts';

/** What all connections with one server know of it together: the shared one, and those of single callers. */
export interface ServerHealth {
  readonly breaker: Breaker;
  /** Failures in a row that count for the breaker. */
  failures(): number;
  /** It could not be reached, or did not work. */
  failed(error: UpstreamError): void;
  /** It is there. */
  answered(): void;
  /** The message of the last failure that counted. */
  lastFailure(): string | undefined;
  /** Whether a refusal until then was not told of before. */
  isNews(until: number): boolean;
  /** A person has acted. */
  reset(): void;
  /** How often a person has acted: what was learnt before does not hold any more. */
  resets(): number;
}

const BREAKER = { failures: 3, baseMs: 30_000, maxMs: 300_000 } as const;

/** A server that nothing is known of. `destination` names it in messages: `connector "weather"`. */
export function createServerHealth(
  destination: string,
  { now, random }: { readonly now: () => number; readonly random: () => number },
): ServerHealth {
  const breaker = createBreaker({ destination, ...BREAKER, now, random });
  let inRow = 0;
  let last: string | undefined;
  let told: number | undefined;
  let resets = 0;

  return {
    breaker,
    failures: () => inRow,
    failed(error) {
      inRow += 1;
      last = error.message;
      breaker.failure();
    },
    answered() {
      inRow = 0;
      breaker.success();
    },
    lastFailure: () => last,
    isNews(until) {
      const isNews = until !== told;
      told = until;
      return isNews;
    },
    reset() {
      inRow = 0;
      resets += 1;
      breaker.reset();
    },
    resets: () => resets,
  };
}
