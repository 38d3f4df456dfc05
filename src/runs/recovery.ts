import type { ProcessStore } from '../store/processes.ts';
import type { RunStore } from '../store/runs.ts';
import type { Logger } from '../telemetry/logger.ts';

/** A quarter of the time after which a silent process counts as dead. */
const BEAT_MS = 15_000;
/** What the message of an interrupted run is answered with. */
const INTERRUPTED = 'Agent execution failed: the server stopped while it ran';
/** Runs taken over at a time, so that a restart with many of them does not begin all at once. */
const CLAIMED = 100;

export interface Recovery {
  /** Says that this process lives, once for all who ask meanwhile; rejects when the store takes no write. */
  beat(): Promise<void>;
  /**
   * From now on takes over runs that a task shows and whose process is gone, and hands them to `resume`: those that are
   * there now, and while the database is shared also later ones. Exactly one process gets a run.
   */
  takeOver(resume: (runIds: readonly string[]) => void): Promise<void>;
  stop(): Promise<void>;
}

export interface RecoveryDeps {
  readonly processes: ProcessStore;
  readonly runs: Pick<RunStore, 'claim'>;
  readonly processId: string;
  /**
   * `alone`: no other process can live on this database. `shared`: others may, each says so in the database. `unknown`:
   * others do, and nothing says which runs are theirs; then no run is touched.
   */
  readonly company: 'alone' | 'shared' | 'unknown';
  readonly log: Logger;
}

/**
 * Ends the runs that dead processes left behind, whose callers are gone with them: at the start, and while the database is
 * shared also later, since a process is only known to be dead when it was silent for a minute.
 */
export async function startRecovery(deps: RecoveryDeps): Promise<Recovery> {
  const { processes, runs, processId, company, log } = deps;
  let heir: ((runIds: readonly string[]) => void) | undefined;
  let stopped = false;

  async function settle(): Promise<void> {
    if (company === 'unknown') return;
    const count = await processes.interruptRuns(processId, { alone: company === 'alone', response: INTERRUPTED });
    if (count > 0) log.warn({ runs: count }, `${count} runs of a server that stopped are marked as interrupted`);
  }
  async function inherit(): Promise<void> {
    if (company === 'unknown') return;
    for (let more = true; more && heir !== undefined && !stopped; ) {
      const runIds = await runs.claim(CLAIMED);
      if (runIds.length > 0) heir(runIds);
      more = runIds.length === CLAIMED;
    }
  }
  async function round(): Promise<void> {
    await processes.beat(processId);
    await settle();
    await inherit();
  }

  await round();
  let running: Promise<void> = Promise.resolve();
  const again = (): void => {
    running = running
      .then(round)
      .catch((err) => log.warn({ err }, 'this process could not say in the database that it lives'));
  };
  const timer = company === 'shared' ? setInterval(again, BEAT_MS).unref() : undefined;

  let beating: Promise<void> | undefined;
  return {
    beat() {
      beating ??= processes.beat(processId).finally(() => {
        beating = undefined;
      });
      return beating;
    },
    async takeOver(resume) {
      heir = resume;
      running = running.then(inherit).catch((err) => log.warn({ err }, 'runs of stopped servers were not taken over'));
      await running;
    },
    async stop() {
      stopped = true;
      clearInterval(timer);
      await running;
      await processes.forget(processId);
    },
  };
}
