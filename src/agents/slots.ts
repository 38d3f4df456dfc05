/** Places for work that runs at the same time. */
export interface Slots {
  /** Waits for a free one, in the order of the calls. */
  take(): Promise<void>;
  give(): void;
}

/** `count` free slots. */
export function createSlots(count: number): Slots {
  const waiting: (() => void)[] = [];
  let free = count;
  return {
    async take() {
      if (free > 0) free -= 1;
      else await new Promise<void>((resolve) => waiting.push(resolve));
    },
    give() {
      const next = waiting.shift();
      if (next) next();
      else free += 1;
    },
  };
}
