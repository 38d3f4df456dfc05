import { describe, expect, it } from 'vitest';
import { UpstreamError, type UpstreamFailure } from '../../src/errors.ts';
import { createBreaker, createBulkhead, type RetryOptions, retry } from '../../src/outbound/resilience.ts';

function broken(more: Partial<UpstreamFailure> = {}): UpstreamError {
  return new UpstreamError({
    code: 'server_error',
    destination: 'connector "test"',
    message: 'connector "test" answered 503.',
    statusCode: 502,
    retryable: true,
    ...more,
  });
}

const quick: RetryOptions = { policy: 'constant', maxRetryTimes: 3, backoffMillis: 1, totalMs: 5000 };

/** Runs work that fails with these errors in turn, then answers `done`. */
async function attempts(errors: unknown[], options: Partial<RetryOptions> = {}) {
  const calls: number[] = [];
  const waits: number[] = [];
  const outcome = await retry(
    async (attempt, remainingMs) => {
      calls.push(attempt);
      expect(remainingMs).toBeLessThanOrEqual(options.totalMs ?? quick.totalMs);
      if (attempt <= errors.length) throw errors[attempt - 1];
      return 'done';
    },
    { ...quick, onRetry: ({ delayMs }) => void waits.push(delayMs), ...options },
  ).catch((error) => error);
  return { outcome, calls, waits };
}

describe('retry', () => {
  it('goes on until the work succeeds', async () => {
    expect(await attempts([])).toEqual({ outcome: 'done', calls: [1], waits: [] });
    expect(await attempts([broken(), broken(), broken()])).toEqual({
      outcome: 'done',
      calls: [1, 2, 3, 4],
      waits: [1, 1, 1],
    });
  });

  it('ends after the given number of times, and tells how often it tried', async () => {
    const { outcome, calls } = await attempts(
      Array(9).fill(broken({ remedy: 'wait', upstreamStatus: 503, cause: { code: 'X' } })),
    );
    expect(calls).toEqual([1, 2, 3, 4]);
    expect(outcome).toBeInstanceOf(UpstreamError);
    expect(outcome).toMatchObject({
      attempts: 4,
      code: 'server_error',
      statusCode: 502,
      upstreamStatus: 503,
      remedy: 'wait',
      retryable: true,
      delivered: 'unknown',
      cause: { code: 'X' },
      message: 'connector "test" answered 503 (tried 4 times).',
    });
  });

  it('does not happen when no time is given for it', async () => {
    const { outcome, calls } = await attempts([broken()], { maxRetryTimes: 0 });
    expect(calls).toEqual([1]);
    expect(outcome).toMatchObject({ attempts: 1, message: 'connector "test" answered 503.' });
  });

  it('is unlimited in number with -1, and limited in time', async () => {
    const many = await attempts(Array(25).fill(broken()), { maxRetryTimes: -1, backoffMillis: 0 });
    expect(many.calls).toHaveLength(26);
    const short = await attempts(Array(1000).fill(broken()), { maxRetryTimes: -1, backoffMillis: 20, totalMs: 50 });
    expect(short.outcome).toBeInstanceOf(UpstreamError);
    expect(short.calls.length).toBeLessThanOrEqual(3);
  });

  it('leaves what is not retryable, and what is no failure of a remote side, as it is', async () => {
    const final = await attempts([broken({ retryable: false })]);
    expect(final.calls).toEqual([1]);
    expect(final.outcome).toMatchObject({ attempts: 1, retryable: false });
    const bug = new TypeError('bug');
    expect(await attempts([bug])).toEqual({ outcome: bug, calls: [1], waits: [] });
    const later = await attempts([broken(), broken({ retryable: false })]);
    expect(later.outcome).toMatchObject({ attempts: 2, message: 'connector "test" answered 503 (tried 2 times).' });
  });

  it.each<[RetryOptions['policy'], number, number[]]>([
    ['constant', 0.999, [4, 4, 4, 4]],
    ['exponential_full_jitter', 1, [4, 8, 16, 32]],
    ['exponential_full_jitter', 0.5, [2, 4, 8, 16]],
    ['exponential_full_jitter', 0, [0, 0, 0, 0]],
    ['exponential_equal_jitter', 1, [4, 8, 16, 32]],
    ['exponential_equal_jitter', 0.5, [3, 6, 12, 24]],
    ['exponential_equal_jitter', 0, [2, 4, 8, 16]],
  ])('waits by %s (chance %d) for %j ms', async (policy, chance, expected) => {
    const errors = Array(4).fill(broken());
    const { waits } = await attempts(errors, { policy, maxRetryTimes: 4, backoffMillis: 4, random: () => chance });
    expect(waits).toEqual(expected);
  });

  it('waits at least as long as the remote side asked', async () => {
    const began = performance.now();
    const { outcome, waits } = await attempts([broken({ retryAfterMs: 120 }), broken({ retryAfterMs: 0 })]);
    expect([outcome, waits]).toEqual(['done', [120, 1]]);
    expect(performance.now() - began).toBeGreaterThanOrEqual(119);
  });

  it('ends at once when the remote side asks for more than there is', async () => {
    const long = await attempts([broken({ code: 'rate_limited', retryAfterMs: 86_400_000 })], { totalMs: 30_000 });
    expect(long.calls).toEqual([1]);
    expect(long.outcome).toMatchObject({
      code: 'rate_limited',
      attempts: 1,
      retryAfterMs: 86_400_000,
      message: 'connector "test" answered 503. It asked to wait 86400 s, more than the 30 s this may take.',
    });
    const late = await attempts([broken({ retryAfterMs: 300 }), broken({ retryAfterMs: 900 })], { totalMs: 1000 });
    expect(late.calls).toEqual([1, 2]);
    expect(late.outcome.message).toMatch(
      /It asked to wait 0\.9 s, more than the 0\.\d s left of the 1 s this may take\.$/,
    );
  });

  it('says nothing of a wait when it was not going to try again', async () => {
    const { outcome } = await attempts([broken({ retryAfterMs: 86_400_000 })], { maxRetryTimes: 0 });
    expect(outcome.message).toBe('connector "test" answered 503.');
  });

  it('is ended by its signal: before, in the work, in the wait', async () => {
    const reason = new Error('not wanted');
    expect(await attempts([], { signal: AbortSignal.abort(reason) })).toEqual({
      outcome: reason,
      calls: [],
      waits: [],
    });
    const controller = new AbortController();
    const waiting = attempts([broken()], {
      backoffMillis: 4000,
      signal: controller.signal,
      onRetry: () => controller.abort(reason),
    });
    expect(await waiting).toMatchObject({ outcome: reason, calls: [1] });
    const during = new AbortController();
    const running = retry(
      async () => {
        during.abort(reason);
        throw broken();
      },
      { ...quick, signal: during.signal },
    );
    await expect(running).rejects.toBe(reason);
  });
});

describe('circuit breaker', () => {
  function clocked(more: { random?: () => number; baseMs?: number; maxMs?: number } = {}) {
    let time = 1_000_000;
    const options = { destination: 'connector "test"', failures: 3, baseMs: 30_000, maxMs: 300_000, random: () => 1 };
    const breaker = createBreaker({ ...options, ...more, now: () => time });
    const pass = (ms: number) => {
      time += ms;
    };
    const fail = (times: number) => {
      for (let round = 0; round < times; round++) breaker.failure();
    };
    const refusal = () => {
      try {
        breaker.beforeCall();
      } catch (error) {
        return error as UpstreamError;
      }
      return undefined;
    };
    return { breaker, pass, fail, refusal, time: () => time };
  }

  it('opens at the third failure in a row', () => {
    const { breaker, fail, refusal } = clocked();
    fail(2);
    breaker.success();
    fail(2);
    expect([breaker.state(), breaker.retryAt(), refusal()]).toEqual(['closed', undefined, undefined]);
    fail(1);
    expect([breaker.state(), breaker.retryAt()]).toEqual(['open', 1_030_000]);
  });

  it('refuses calls while open, and says for how long', () => {
    const { fail, pass, refusal } = clocked();
    fail(3);
    pass(10_500);
    expect(refusal()).toMatchObject({
      code: 'breaker_open',
      statusCode: 503,
      delivered: 'no',
      retryable: false,
      retryAfterMs: 19_500,
      nextRetryTime: 1_030_000,
      remedy: 'Wait, or reconnect to try at once.',
      message: 'connector "test" failed 3 times in a row; it is not called again for 20 s.',
    });
  });

  it('lets one call through when the wait is over, and closes when that succeeds', () => {
    const { breaker, fail, pass, refusal } = clocked();
    fail(3);
    pass(29_999);
    expect(breaker.state()).toBe('open');
    pass(1);
    expect([breaker.state(), refusal()]).toEqual(['half_open', undefined]);
    expect(refusal()).toMatchObject({ code: 'breaker_open', retryAfterMs: 30_000 });
    breaker.success();
    expect([breaker.state(), refusal(), refusal()]).toEqual(['closed', undefined, undefined]);
    fail(2);
    expect(breaker.state()).toBe('closed');
  });

  it('waits twice as long after each failed trial, up to the limit', () => {
    const { breaker, fail, pass, refusal, time } = clocked();
    fail(3);
    const waits: number[] = [];
    for (let round = 0; round < 6; round++) {
      waits.push((breaker.retryAt() ?? 0) - time());
      pass(waits.at(-1) ?? 0);
      expect(refusal()).toBeUndefined();
      fail(1);
    }
    expect(waits).toEqual([30_000, 60_000, 120_000, 240_000, 300_000, 300_000]);
  });

  it('draws the wait by chance, never below a second', () => {
    const half = clocked({ random: () => 0.5 });
    half.fail(3);
    expect(half.breaker.retryAt()).toBe(1_015_000);
    const none = clocked({ random: () => 0 });
    none.fail(3);
    expect(none.breaker.retryAt()).toBe(1_001_000);
    const tiny = clocked({ random: () => 0, baseMs: 40 });
    tiny.fail(3);
    expect(tiny.breaker.retryAt()).toBe(1_000_040);
  });

  it('does not wait longer for calls that were under way when it opened', () => {
    const { breaker, fail } = clocked();
    fail(8);
    expect(breaker.retryAt()).toBe(1_030_000);
  });

  it('gives up a trial call that never came back', () => {
    const { fail, pass, refusal } = clocked();
    fail(3);
    pass(30_000);
    expect(refusal()).toBeUndefined();
    pass(29_999);
    expect(refusal()).toMatchObject({ retryAfterMs: 1 });
    pass(1);
    expect(refusal()).toBeUndefined();
  });

  it('forgets everything on reset', () => {
    const { breaker, fail, pass, refusal } = clocked();
    fail(3);
    pass(30_000);
    refusal();
    fail(1);
    breaker.reset();
    expect([breaker.state(), breaker.retryAt(), refusal()]).toEqual(['closed', undefined, undefined]);
    fail(3);
    expect(breaker.retryAt()).toBe(1_060_000);
  });
});

describe('bulkhead', () => {
  function gate() {
    let release = () => {};
    const opened = new Promise<void>((done) => {
      release = done;
    });
    return { opened, release };
  }

  it('runs so many at once, queues so many, and refuses the rest', async () => {
    const { opened, release } = gate();
    const bulkhead = createBulkhead(2, 1, 'connector "test"');
    let running = 0;
    let most = 0;
    const work = async () => {
      running += 1;
      most = Math.max(most, running);
      await opened;
      running -= 1;
      return 'done';
    };
    const calls = [bulkhead.run(work), bulkhead.run(work), bulkhead.run(work)];
    const refused = await bulkhead.run(work).catch((error) => error);
    expect(refused).toMatchObject({
      code: 'TENON_THROTTLED',
      statusCode: 429,
      message: 'connector "test" already has 2 calls running and 1 waiting; try again later',
    });
    release();
    expect(await Promise.all(calls)).toEqual(['done', 'done', 'done']);
    expect(most).toBe(2);
    expect(await bulkhead.run(work)).toBe('done');
  });

  it('passes failures on and frees the place', async () => {
    const bulkhead = createBulkhead(1, 0, 'x');
    for (let round = 0; round < 3; round++) {
      await expect(bulkhead.run(() => Promise.reject(new TypeError('bug')))).rejects.toThrow('bug');
    }
  });

  it('lets a waiting call go when its signal is aborted, without running it', async () => {
    const { opened, release } = gate();
    const bulkhead = createBulkhead(1, 5, 'x');
    const first = bulkhead.run(() => opened);
    const controller = new AbortController();
    let ran = false;
    const second = bulkhead.run(async () => {
      ran = true;
    }, controller.signal);
    const reason = new Error('not wanted');
    controller.abort(reason);
    await expect(second).rejects.toBe(reason);
    release();
    await first;
    expect(await bulkhead.run(async () => 'next')).toBe('next');
    expect(ran).toBe(false);
    await expect(bulkhead.run(async () => 'x', controller.signal)).rejects.toBe(reason);
  });

  it('leaves a running call to heed the signal itself', async () => {
    const { opened, release } = gate();
    const controller = new AbortController();
    const running = createBulkhead(1, 0, 'x').run(() => opened.then(() => 'finished'), controller.signal);
    controller.abort();
    release();
    expect(await running).toBe('finished');
  });
});
