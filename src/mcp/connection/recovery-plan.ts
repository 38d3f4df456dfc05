import type { UpstreamError } from '../../errors.ts';
import { passes } from '../failure-kinds.ts';

/** When a connection that failed is tried again although nobody asks for it. */
export interface RecoveryPlan {
  /** Epoch milliseconds; `undefined`: it waits for its next use, or for a person. */
  dueAt(): number | undefined;
  /** Plans the next attempt after a failure. `breakerAt`: no earlier than that. @returns `dueAt` */
  failed(error: unknown, breakerAt: number | undefined): number | undefined;
  /** The attempt begins. */
  attempted(): void;
  opened(): void;
  /** A person has acted, or it is not to be used any more. */
  cancel(): void;
}

export interface RecoveryPlanDeps {
  readonly now: () => number;
  /** In [0, 1). */
  readonly random: () => number;
  /** Whether it is to be tried at that time. */
  readonly wanted: (time: number) => boolean;
  /** A process of this machine: it is started again at once, the first time. */
  readonly local: boolean;
}

const BASE_MS = 30_000;
const MAX_MS = 300_000;
const SHORTEST_MS = 5000;
/** After an exit that nothing announced. */
const RESTART_MS = 1000;
/** Attempts in the background are no closer together. */
const BETWEEN_MS = 60_000;
/** A wait a server asks for is obeyed up to this long. */
const LONGEST_ASKED_MS = 3_600_000;
/** A connection that held so long is no longer one that keeps failing. */
const STABLE_MS = 60_000;

/**
 * Only failures of kinds that pass by themselves are planned: 30 s, doubled with each attempt up to 300 s, with full
 * jitter; the breaker's time while it is open; as long as the server asks; at most one attempt a minute.
 */
export function createRecoveryPlan({ now, random, wanted, local }: RecoveryPlanDeps): RecoveryPlan {
  let due: number | undefined;
  let attempts = 0;
  let lastAttempt: number | undefined;
  let openedAt: number | undefined;

  function wait(error: UpstreamError): number {
    if (local && attempts === 0 && error.code === 'process_exited') return RESTART_MS;
    return Math.max(SHORTEST_MS, Math.round(random() * Math.min(MAX_MS, BASE_MS * 2 ** attempts)));
  }

  function plan(error: UpstreamError, breakerAt: number | undefined): number {
    const time = now();
    const asked = time + Math.min(error.retryAfterMs ?? 0, LONGEST_ASKED_MS);
    const next = lastAttempt === undefined ? 0 : lastAttempt + BETWEEN_MS;
    return Math.max(breakerAt ?? time + wait(error), asked, next);
  }

  return {
    dueAt: () => due,
    failed(error, breakerAt) {
      if (openedAt !== undefined && now() - openedAt >= STABLE_MS) attempts = 0;
      openedAt = undefined;
      due = passes(error) ? plan(error, breakerAt) : undefined;
      if (due !== undefined && !wanted(due)) due = undefined;
      return due;
    },
    attempted() {
      due = undefined;
      attempts += 1;
      lastAttempt = now();
    },
    opened() {
      due = undefined;
      openedAt = now();
    },
    cancel() {
      due = undefined;
      attempts = 0;
      lastAttempt = undefined;
      openedAt = undefined;
    },
  };
}
