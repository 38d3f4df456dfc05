/** Places for work that runs at the same time. */
export interface Slots {
  /** Waits for a free one, in the order of the calls. */
  take(): Promise<Slot>;
}

/** A place that was taken; it is held at most once, and given back exactly once. */
export interface Slot {
  /** Does work without holding the place; several at once give it up once. Has it again after the last of them. */
  without<T>(work: () => Promise<T>): Promise<T>;
  /** Gives it back for good: work without it that goes on longer does not take it again. */
  end(): void;
}

/** `count` free slots. */
export function createSlots(count: number): Slots {
  const waiting: (() => void)[] = [];
  let free = count;

  async function enter(): Promise<void> {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
  }

  function leave(): void {
    const next = waiting.shift();
    if (next) next();
    else free += 1;
  }

  return {
    async take() {
      await enter();
      let held = true;
      let ended = false;
      let absences = 0;
      const give = (): void => {
        if (held) leave();
        held = false;
      };
      return {
        async without(work) {
          absences += 1;
          give();
          try {
            return await work();
          } finally {
            absences -= 1;
            if (absences === 0 && !ended) {
              await enter();
              if (held || ended || absences > 0) leave();
              else held = true;
            }
          }
        },
        end() {
          ended = true;
          give();
        },
      };
    },
  };
}
