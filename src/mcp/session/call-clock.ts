/** The two limits of one call. Both stand still while a person is asked something. */
export interface CallClock {
  /** The server showed that it is at work: the limit of its silence begins anew. */
  heard(): void;
  /** Stops both until what it returns is called. */
  hold(): () => void;
  /** Which limit was reached, if one was. */
  expired(): 'silence' | 'total' | undefined;
  end(): void;
}

/** Starts both. Times in milliseconds; `onExpired` is called once. */
export function createCallClock(limits: { silenceMs: number; totalMs: number; onExpired: () => void }): CallClock {
  let expired: 'silence' | 'total' | undefined;
  let leftMs = limits.totalMs;
  let startedAt = performance.now();
  let silence: NodeJS.Timeout | undefined;
  let total: NodeJS.Timeout | undefined;
  let holds = 0;
  let ended = false;

  function expire(reason: 'silence' | 'total'): void {
    expired = reason;
    end();
    limits.onExpired();
  }

  function heard(): void {
    if (holds > 0 || ended) return;
    clearTimeout(silence);
    silence = setTimeout(expire, limits.silenceMs, 'silence');
  }

  function run(): void {
    startedAt = performance.now();
    total = setTimeout(expire, Math.max(0, leftMs), 'total');
    heard();
  }

  function stop(): void {
    clearTimeout(silence);
    clearTimeout(total);
  }

  function end(): void {
    ended = true;
    stop();
  }

  run();
  return {
    heard,
    hold() {
      if (holds === 0) {
        leftMs -= performance.now() - startedAt;
        stop();
      }
      holds += 1;
      let held = true;
      return () => {
        if (!held) return;
        held = false;
        holds -= 1;
        if (holds === 0 && !ended) run();
      };
    },
    expired: () => expired,
    end,
  };
}
