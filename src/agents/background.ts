import { setTimeout as sleep } from 'node:timers/promises';
import { INVALID_ARGUMENT, isCatalogueError, TASK_NOT_FOUND, UpstreamError } from '../errors.ts';
import type { Limits } from '../identity/limits.ts';
import { ownerId } from '../identity/ownership.ts';
import type { JsonObject } from '../json.ts';
import type { Journal } from '../runs/journal.ts';
import type { RunRequests } from '../runs/requests.ts';
import { lostRequests } from '../runs/steps.ts';
import { UniqueViolation } from '../store/database.ts';
import type { RunRow } from '../store/runs.ts';
import type { Tasks } from '../tasks/service.ts';
import { type AttendedTurn, beginAttendedTurn, continueTurn } from './runners/conversational.ts';
import type { ConversationalDeps, TurnRequest, TurnResult } from './runners/turn.ts';
import { createTurnEvents } from './runners/turn-events.ts';
import { rememberFailure, shownCause } from './runners/turn-memory.ts';
import { requestOf } from './runners/turn-request.ts';
import { CANNOT_GO_ON, type Standings, type StandingsDeps } from './standing.ts';
import { isSuspended, RunSuspended } from './suspension.ts';

/** Runs that go on without their callers: a task shows each, and its owner can answer what it asks. */
export interface BackgroundRuns {
  /**
   * Stores the question, the run and its task, and goes on in the background; answers the body of contract 7.3.
   * @throws LIMIT_EXCEEDED, INVALID_ARGUMENT, RESOURCE_NOT_FOUND
   */
  start(request: Omit<TurnRequest, 'signal' | 'emit'>, options: { passesHeaders: boolean }): Promise<JsonObject>;
  /** Goes on with runs this process has claimed; answers at once. */
  resume(runIds: readonly string[]): void;
  /** Ends the work on all of them here; they go on with the next process. Waits for that no longer than `deadlineMs`. */
  suspend(deadlineMs: number): Promise<void>;
}

export interface BackgroundDeps extends ConversationalDeps {
  readonly journal: Journal;
  readonly requests: RunRequests;
  readonly tasks: Pick<Tasks, 'create' | 'complete'>;
  readonly limits: Pick<Limits, 'execution'>;
  readonly principalOf: StandingsDeps['principalOf'];
}

type Shown = Pick<AttendedTurn, 'run' | 'taskId' | 'memoryId' | 'messageId'> & Pick<TurnRequest, 'agentId'>;

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 15_000;
const LEFT_ALONE = 'run left alone: another process drives it';

export function createBackgroundRuns(deps: BackgroundDeps, standings: Standings): BackgroundRuns {
  const { journal, requests, tasks, limits, database, log } = deps;
  const stopping = new AbortController();
  const running = new Set<Promise<void>>();

  function keep(work: Promise<void>): void {
    running.add(work);
    void work
      .catch((err) => log.error({ err }, 'a run in the background ended without being settled'))
      .finally(() => running.delete(work));
  }

  /** Drives a run to its end, and lets its task show what came of it. Never rejects for the run's sake. */
  async function drive(shown: Shown, owner: string, signal: AbortSignal, answer: () => Promise<TurnResult>) {
    const { run, taskId, memoryId, agentId } = shown;
    const facts = { runId: run.runId, taskId, agentId };
    const events = createTurnEvents(deps.events, { owner, agentId, taskId, run });
    try {
      const { body, warnings } = await answer();
      const noted = warnings.length === 0 ? {} : { warnings: [...warnings] };
      const response = { memory_id: memoryId, ...body, ...noted };
      if (await settle(shown, { response }, signal)) events.say('completed');
    } catch (error) {
      if (isSuspended(signal)) return log.info(facts, 'run suspended: it goes on when a server starts');
      if (error instanceof UniqueViolation) return log.warn(facts, LEFT_ALONE);
      if (!isCatalogueError(error) && !(error instanceof UpstreamError)) {
        log.error({ err: error, ...facts }, 'a run in the background failed');
      }
      if (await settle(shown, { cause: shownCause(error) }, signal)) events.say('failed');
    }
  }

  /**
   * The run ends, and all that ends with it: its task, its requests, and where it failed its question is answered with the
   * cause. Whether it did, and by this process: one that another drives now is left as it is.
   */
  async function settle(
    { run, taskId, memoryId, messageId, agentId }: Shown,
    outcome: { readonly response: JsonObject } | { readonly cause: string },
    signal: AbortSignal,
  ): Promise<boolean> {
    const cause = 'cause' in outcome ? outcome.cause : undefined;
    const response = 'cause' in outcome ? { error_message: outcome.cause } : outcome.response;
    const failed = cause !== undefined;
    const write = async (): Promise<boolean> => {
      const tell = await database.write(async (within) => {
        if (!(await run.end(failed ? 'failed' : 'completed', within))) return undefined;
        await tasks.complete(taskId, failed ? 'FAILED' : 'COMPLETED', { response }, within).catch(unlessGone);
        if (failed) {
          const turn = await deps.conversations.begin({ memoryId }, '', { messageId, within });
          await rememberFailure(cause, { turn }, log, within);
        }
        return requests.closeRun(run.runId, within);
      });
      tell?.();
      return tell !== undefined;
    };
    const ended = await insist(write, `what came of run ${run.runId} was not stored`, signal);
    if (ended === false) log.warn({ runId: run.runId, taskId, agentId }, LEFT_ALONE);
    return ended ?? false;
  }

  /** Tries again until the store takes part, or the server stops (`undefined`). */
  async function insist<T>(work: () => Promise<T>, problem: string, signal: AbortSignal): Promise<T | undefined> {
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
      try {
        return await work();
      } catch (err) {
        if (signal.aborted) return undefined;
        log.warn({ err }, `${problem}; tried again in ${pause} ms`);
        await sleep(pause, undefined, { signal }).catch(() => undefined);
        if (signal.aborted) return undefined;
      }
    }
  }

  async function resume(runId: string, signal: AbortSignal): Promise<void> {
    const resumed = await insist(() => journal.resume(runId), `run ${runId} could not be read`, signal);
    const { taskId, memoryId, messageId, agentId } = resumed?.row ?? {};
    if (!resumed || taskId === undefined || memoryId === undefined || messageId === undefined || !agentId) return;
    const { row, steps: recorded, log: run } = resumed;
    log.info({ runId, taskId, agentId, steps: recorded.length }, 'run goes on that another process began');
    await insist(() => requests.lose(lostRequests(recorded)), `requests of run ${runId} were not closed`, signal);
    const stored = { run, taskId, memoryId, messageId, recorded };
    const known = async () => ({ principal: await deps.principalOf(row.principal) });
    const found = await insist(known, `the caller of run ${runId} could not be looked up`, signal);
    if (found === undefined) return;
    const { principal } = found;
    const owner = principal === undefined ? row.principal : ownerId(principal);
    await drive({ ...stored, agentId }, owner, signal, async () => {
      const request = await rebuilt(row, signal);
      const work = (): Promise<TurnResult> => continueTurn(request, stored, deps);
      return limits.execution(request.principal, agentId, work, { admitted: true });
    });
  }

  async function rebuilt(row: RunRow, signal: AbortSignal): Promise<TurnRequest> {
    const { input, passesHeaders } = requestOf(row);
    if (passesHeaders) {
      throw new INVALID_ARGUMENT(
        `${CANNOT_GO_ON} after its server stopped: it passed on headers of its caller, which are never stored. Ask again`,
      );
    }
    const { agentId } = row;
    const standing = await standings.of(row.principal, agentId);
    return { ...standing, agentId, input, signal, renewed: () => standings.renewed(standing.principal, agentId) };
  }

  function start(
    request: Omit<TurnRequest, 'signal' | 'emit'>,
    { passesHeaders }: { passesHeaders: boolean },
  ): Promise<JsonObject> {
    const { principal, agentId } = request;
    const signal = AbortSignal.any([stopping.signal]);
    const owner = ownerId(principal);
    return new Promise((resolve, reject) => {
      const work = async (): Promise<void> => {
        const turn = await beginAttendedTurn(
          { ...request, signal },
          {
            passesHeaders,
            makeTask: (ids, within) => tasks.create(taskOf(owner, ids), within),
          },
          deps,
        );
        const { taskId, memoryId, messageId } = turn;
        const response = { memory_id: memoryId, parent_interaction_id: messageId };
        resolve({ task_id: taskId, status: 'RUNNING', response });
        await drive({ ...turn, agentId }, owner, signal, turn.answer);
      };
      // Once the caller is answered, a rejection is nothing to it.
      keep(limits.execution(principal, agentId, work).catch(reject));
    });
  }

  return {
    start,
    resume(runIds) {
      const signal = AbortSignal.any([stopping.signal]);
      for (const runId of runIds) if (!signal.aborted) keep(resume(runId, signal));
    },
    async suspend(deadlineMs) {
      stopping.abort(new RunSuspended('the server stops'));
      const late = new AbortController();
      await Promise.race([
        Promise.allSettled(running),
        sleep(deadlineMs, undefined, { signal: late.signal }).catch(() => undefined),
      ]);
      late.abort();
    },
  };
}

function taskOf(owner: string, { memoryId, messageId }: { memoryId: string; messageId: string }) {
  return {
    type: 'AGENT_EXECUTION',
    state: 'RUNNING',
    functionName: 'AGENT',
    isAsync: true,
    owner,
    response: { memory_id: memoryId, parent_interaction_id: messageId },
  } as const;
}

function unlessGone(error: unknown): void {
  if (!(error instanceof TASK_NOT_FOUND)) throw error;
}
