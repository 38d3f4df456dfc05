import { setTimeout as sleep } from 'node:timers/promises';
import { BulkheadRejectedError, bulkhead } from 'cockatiel';
import { THROTTLED, UpstreamError, type UpstreamFailure } from '../errors.ts';

export interface RetryOptions {
  readonly policy: 'constant' | 'exponential_equal_jitter' | 'exponential_full_jitter';
  /** Tries after the first one; -1 as many as `totalMs` allows. */
  readonly maxRetryTimes: number;
  readonly backoffMillis: number;
  /** For all tries and waits together; no wait is begun that would end later. */
  readonly totalMs: number;
  readonly signal?: AbortSignal;
  /** Called before each wait. `attempt` is the number of the try that failed, from 1. */
  readonly onRetry?: (info: { attempt: number; delayMs: number; error: UpstreamError }) => void;
  /** In [0, 1). */
  readonly random?: () => number;
}

/**
 * Runs `work` again while it fails with an `UpstreamError` that is `retryable`. Waits between tries as the policy says
 * and at least as long as the remote side asked; a wait longer than the time left ends it at once.
 *
 * A wait is ended by `signal` (the timers of cockatiel's own retry cannot be), and `random` makes the jitter testable.
 * @param work receives the number of the try, from 1, and the milliseconds left
 * @throws the last failure, telling how often it was tried; the reason of `signal` when that is aborted
 */
export async function retry<T>(
  work: (attempt: number, remainingMs: number) => Promise<T>,
  options: RetryOptions,
): Promise<T> {
  const { maxRetryTimes, totalMs, signal } = options;
  const began = performance.now();
  for (let attempt = 1; ; attempt++) {
    signal?.throwIfAborted();
    try {
      return await work(attempt, left(totalMs, began));
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      signal?.throwIfAborted();
      const exhausted = maxRetryTimes >= 0 && attempt > maxRetryTimes;
      if (!error.retryable || exhausted) throw final(error, attempt, tried(attempt));
      const asked = error.retryAfterMs ?? 0;
      const remaining = left(totalMs, began);
      if (asked > remaining) throw final(error, attempt, tooLong(asked, remaining, totalMs));
      const delayMs = Math.max(asked, backoff(options, attempt));
      if (delayMs >= remaining) throw final(error, attempt, tried(attempt));
      options.onRetry?.({ attempt, delayMs, error });
      await pause(delayMs, signal);
    }
  }
}

async function pause(delayMs: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await sleep(delayMs, undefined, signal === undefined ? {} : { signal });
  } catch {
    signal?.throwIfAborted();
  }
}

function left(totalMs: number, began: number): number {
  return Math.max(0, totalMs - (performance.now() - began));
}

function backoff({ policy, backoffMillis, totalMs, random = Math.random }: RetryOptions, attempt: number): number {
  if (policy === 'constant') return backoffMillis;
  const ceiling = Math.min(backoffMillis * 2 ** (attempt - 1), totalMs);
  const floor = policy === 'exponential_equal_jitter' ? ceiling / 2 : 0;
  return Math.round(floor + random() * (ceiling - floor));
}

function tried(attempt: number): (message: string) => string {
  return (message) => {
    if (attempt === 1) return message;
    const open = message.replace(/\.$/, '');
    return `${open} (tried ${attempt} times)${open === message ? '' : '.'}`;
  };
}

function tooLong(askedMs: number, remainingMs: number, totalMs: number): (message: string) => string {
  const total = `the ${seconds(totalMs)} s this may take`;
  const limit = askedMs > totalMs ? total : `the ${seconds(remainingMs)} s left of ${total}`;
  return (message) =>
    `${message}${message.endsWith('.') ? '' : '.'} It asked to wait ${seconds(askedMs)} s, more than ${limit}.`;
}

function seconds(ms: number): number {
  return Math.round(ms / 100) / 10;
}

function final(error: UpstreamError, attempts: number, told: (message: string) => string): UpstreamError {
  const { code, destination, statusCode, delivered, retryable, cause } = error;
  const optional = {
    remedy: error.remedy,
    upstreamStatus: error.upstreamStatus,
    retryAfterMs: error.retryAfterMs,
    action: error.action,
    nextRetryTime: error.nextRetryTime,
    cause,
  };
  const present = Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined));
  const failure: UpstreamFailure = {
    code,
    destination,
    message: told(error.message),
    statusCode,
    delivered,
    retryable,
    attempts,
    ...present,
  };
  return new UpstreamError(failure);
}

type BreakerState = 'closed' | 'open' | 'half_open';

/** One per server. The caller reports what became of each call it was let through. */
export interface Breaker {
  /** `half_open`: the time to try again has come; one call is let through. */
  state(): BreakerState;
  /** Epoch milliseconds of the next permitted call; `undefined` while closed. */
  retryAt(): number | undefined;
  /** @throws UpstreamError `breaker_open` (503, with the wait) if the call may not be made now */
  beforeCall(): void;
  success(): void;
  failure(): void;
  /** Closes it and forgets the past: after a person acted, or the credential changed. */
  reset(): void;
}

export interface BreakerOptions {
  readonly destination: string;
  /** Failures in a row that open it. */
  readonly failures: number;
  /** Longest first wait; doubled each time the trial call fails. */
  readonly baseMs: number;
  readonly maxMs: number;
  readonly now?: () => number;
  /** In [0, 1). */
  readonly random?: () => number;
}

/** A wait is never drawn shorter than this, in milliseconds, so that full jitter cannot make the breaker void. */
const SHORTEST_WAIT_MS = 1000;

/**
 * Circuit breaker: closed -> (`failures` in a row) -> open -> (wait over) -> half_open -> one trial call -> closed, or
 * open again for up to twice as long. Waits have full jitter. A trial call that is never reported is given up after
 * `baseMs`. (cockatiel's breaker wraps calls, reads the clock itself and does not tell when it will try again.)
 */
export function createBreaker(options: BreakerOptions): Breaker {
  const { destination, failures, baseMs, maxMs, now = Date.now, random = Math.random } = options;
  let inRow = 0;
  let opened = 0;
  let retryAt: number | undefined;
  let trialUntil: number | undefined;

  const state = (): BreakerState => {
    if (retryAt === undefined) return 'closed';
    return now() >= retryAt ? 'half_open' : 'open';
  };
  const reset = () => {
    inRow = 0;
    opened = 0;
    retryAt = undefined;
    trialUntil = undefined;
  };
  const refuse = (until: number) => {
    const wait = Math.max(0, until - now());
    throw new UpstreamError({
      code: 'breaker_open',
      destination,
      message: `${destination} failed ${inRow} times in a row; it is not called again for ${Math.ceil(wait / 1000)} s.`,
      remedy: 'Wait, or reconnect to try at once.',
      statusCode: 503,
      retryable: false,
      delivered: 'no',
      retryAfterMs: wait,
      nextRetryTime: until,
    });
  };

  return {
    state,
    retryAt: () => retryAt,
    beforeCall() {
      if (retryAt === undefined) return;
      if (now() < retryAt) refuse(retryAt);
      if (trialUntil !== undefined && now() < trialUntil) refuse(trialUntil);
      trialUntil = now() + baseMs;
    },
    success: reset,
    failure() {
      inRow += 1;
      const trialFailed = trialUntil !== undefined;
      if (inRow < failures || (retryAt !== undefined && !trialFailed)) return;
      const ceiling = Math.min(maxMs, baseMs * 2 ** opened);
      opened += 1;
      retryAt = now() + Math.max(Math.min(SHORTEST_WAIT_MS, ceiling), Math.round(random() * ceiling));
      trialUntil = undefined;
    },
    reset,
  };
}

/** Bounds how many calls run at once. */
export interface Bulkhead {
  /** @throws THROTTLED when the queue is full; the reason of `signal` when that is aborted while waiting */
  run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T>;
}

/** At most `limit` calls run, at most `queue` wait for one of them to end. */
export function createBulkhead(limit: number, queue: number, destination: string): Bulkhead {
  const policy = bulkhead(limit, queue);
  return {
    async run(work, signal) {
      signal?.throwIfAborted();
      let stop: (() => void) | undefined;
      const aborted = new Promise<never>((_, fail) => {
        stop = () => fail(signal?.reason);
        signal?.addEventListener('abort', stop, { once: true });
      });
      let started = false;
      const running = policy.execute(() => {
        started = true;
        return work();
      }, signal);
      try {
        return await Promise.race([running, aborted]);
      } catch (error) {
        if (error instanceof BulkheadRejectedError) {
          throw new THROTTLED(
            `${destination} already has ${limit} calls running and ${queue} waiting; try again later`,
          );
        }
        if (started) return await running;
        throw error;
      } finally {
        if (stop !== undefined) signal?.removeEventListener('abort', stop);
      }
    },
  };
}
