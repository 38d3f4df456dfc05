/** Which state of users, keys, roles and mappings is in force, known without asking the store on every request. */
export interface Revision {
  /** At most a second old, so that what another process changed holds here after that time. */
  read(): Promise<number>;
  /** This process changed something: the next read asks the store. */
  changed(): void;
}

const FRESH_MS = 1000;

export function createRevision({
  store,
  now = Date.now,
}: {
  store: { revision(): Promise<number> };
  now?: () => number;
}): Revision {
  let known: { value: number; time: number } | undefined;
  let reading: Promise<number> | undefined;
  let changes = 0;

  async function ask(): Promise<number> {
    const before = changes;
    const time = now();
    const value = await store.revision();
    // What was asked before a change of ours may be the answer of before it.
    if (changes === before) known = { value, time };
    return value;
  }

  return {
    async read() {
      if (known !== undefined && now() - known.time < FRESH_MS) return known.value;
      if (reading !== undefined) return reading;
      const asking = ask().finally(() => {
        if (reading === asking) reading = undefined;
      });
      reading = asking;
      return asking;
    },
    changed() {
      changes += 1;
      known = undefined;
      reading = undefined;
    },
  };
}
