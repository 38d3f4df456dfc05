import { newId } from '../ids.ts';
import type { JsonObject } from '../json.ts';
import type { Unit } from '../store/database.ts';
import type { RunRow, RunState, RunStore } from '../store/runs.ts';
import { foldSteps, isDurable, type RunFold, type RunStep, stepBody, stepOf } from './steps.ts';

interface RunStart {
  readonly agentId: string;
  readonly memoryId?: string;
  readonly messageId?: string;
  /** Id of the principal the run is made for. */
  readonly principal: string;
  /** What was asked: enough to drive the run again. */
  readonly request: JsonObject;
  /** The task that shows the run, which then goes on without its caller, whatever happens to this process. */
  readonly taskId?: string;
}

/** The journal of one run that is being driven by this process. */
export interface RunLog {
  readonly runId: string;
  /**
   * Commits the step. Steps are committed in the order of the calls, one at a time; once one could not be written no
   * later one is, so that the journal never has a hole. The final answer completes the run, unless a task shows it: that
   * one ends together with its task, by `end`. `also` is written with the step, or not at all: what belongs to a run that
   * another process may have taken over.
   * @throws STORE_BUSY, UniqueViolation (another process drives it)
   */
  append(step: RunStep, also?: (within: Unit) => Promise<unknown>): Promise<void>;
  finish(state: Exclude<RunState, 'running'>): Promise<void>;
  /** Ends the run as part of a transaction. `false`: it is not this process that drives it any more. */
  end(state: Exclude<RunState, 'running'>, within: Unit): Promise<boolean>;
}

/** A run that another process began. */
interface ResumedRun {
  readonly row: RunRow;
  readonly steps: readonly RunStep[];
  readonly log: RunLog;
}

export interface Journal {
  /** `within`: the transaction the beginning is part of. */
  begin(start: RunStart, within?: Unit): Promise<RunLog>;
  /** Takes up a run this process has claimed, behind its last step. `undefined`: there is no such run. */
  resume(runId: string): Promise<ResumedRun | undefined>;
  /** The steps of a run in their order; empty for a run nobody knows. */
  read(runId: string): Promise<RunStep[]>;
  fold(runId: string): Promise<RunFold>;
}

export interface JournalDeps {
  readonly runs: RunStore;
}

/** The record of what runs did, step by step; it decides nothing. */
export function createJournal({ runs }: JournalDeps): Journal {
  async function read(runId: string): Promise<RunStep[]> {
    return (await runs.steps(runId)).map((row) => stepOf(row.kind, row.body));
  }

  function logOf(runId: string, recorded: number, shownByTask: boolean): RunLog {
    let seq = recorded;
    let last: Promise<void> = Promise.resolve();
    return {
      runId,
      append(step, also) {
        last = last.then(async () => {
          seq += 1;
          const ended = step.kind === 'final_answer' && !shownByTask ? ({ state: 'completed' } as const) : {};
          const options = { durable: isDurable(step), driven: shownByTask, ...ended, ...(also && { also }) };
          await runs.append(runId, { seq, kind: step.kind, body: stepBody(step) }, options);
        });
        return last;
      },
      finish: (state) => runs.setState(runId, state),
      end: (state, within) => runs.end(runId, state, within),
    };
  }

  return {
    read,
    fold: async (runId) => foldSteps(await read(runId)),
    async begin(start, within) {
      const runId = newId();
      await runs.insert({ id: runId, ...start }, within === undefined ? {} : { within });
      return logOf(runId, 0, start.taskId !== undefined);
    },

    async resume(runId) {
      const row = await runs.get(runId);
      if (row === undefined) return undefined;
      const rows = await runs.steps(runId);
      const steps = rows.map(({ kind, body }) => stepOf(kind, body));
      return { row, steps, log: logOf(runId, rows.at(-1)?.seq ?? 0, row.taskId !== undefined) };
    },
  };
}
