import { setImmediate as nextTurnOfEventLoop, setTimeout as sleep } from 'node:timers/promises';

/** Runs works one after another, until the last has ended, inside one transaction. */
type Transact<Executor> = (work: (transaction: Executor) => Promise<void>, durable: boolean) => Promise<void>;

export interface GroupCommitDeps<Executor> {
  readonly transact: Transact<Executor>;
  /** Whether the transaction that failed with `error` wrote nothing and may be run again. */
  readonly isBusy: (error: unknown) => boolean;
  /** How long a work waits for a database that others lock, in milliseconds. */
  readonly limitMs: number;
  /** What a work that waited too long is refused with. */
  readonly refusal: () => Error;
}

interface Member<Executor> {
  readonly work: (transaction: Executor) => Promise<unknown>;
  readonly durable: boolean;
  readonly deadline: number;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * For an engine with one writer: what is written in one turn of the event loop is committed together, in the order it
 * came, and waits for the disk when one member must. A member that fails costs the others nothing but a second run.
 */
export function createGroupCommit<Executor>(deps: GroupCommitDeps<Executor>) {
  const { transact, isBusy, limitMs, refusal } = deps;
  let waiting: Member<Executor>[] = [];
  let running = false;

  async function run(): Promise<void> {
    running = true;
    while (waiting.length > 0) {
      await nextTurnOfEventLoop();
      const group = waiting;
      waiting = [];
      await commit(group);
    }
    running = false;
  }

  async function commit(group: readonly Member<Executor>[]): Promise<void> {
    const values: unknown[] = [];
    const durable = group.some((member) => member.durable);
    try {
      await transact(async (transaction) => {
        for (const { work } of group) values.push(await work(transaction));
      }, durable);
    } catch (error) {
      if (isBusy(error)) await postpone(group);
      else if (group.length === 1) group[0]?.reject(error);
      else for (const member of group) await commit([member]);
      return;
    }
    for (const [index, member] of group.entries()) member.resolve(values[index]);
  }

  /** All who wait for the same lock wait as one: they need not each find out by blocking on it. */
  async function postpone(group: readonly Member<Executor>[]): Promise<void> {
    const now = performance.now();
    for (const member of group) if (member.deadline <= now) member.reject(refusal());
    const left = group.filter((member) => member.deadline > now);
    waiting = [...left, ...waiting];
    if (left.length > 0) await sleep(50 + 100 * Math.random());
  }

  return function write<T>(work: (transaction: Executor) => Promise<T>, durable: boolean): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const deadline = performance.now() + limitMs;
      waiting.push({ work, durable, deadline, resolve: resolve as (value: unknown) => void, reject });
      if (!running) void run();
    });
  };
}
