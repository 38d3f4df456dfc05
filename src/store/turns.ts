/** A fair queue for something only one may use at a time. */
export interface Turns {
  /** Waits for the turn; call what it answers, once, to pass the turn on. */
  take(): Promise<() => void>;
}

export function createTurns(): Turns {
  const waiting: (() => void)[] = [];
  let taken = false;

  function pass(): void {
    const next = waiting.shift();
    if (next) next();
    else taken = false;
  }

  return {
    async take() {
      if (taken) await new Promise<void>((resolve) => waiting.push(resolve));
      taken = true;
      return pass;
    },
  };
}
