import { CONFLICT, NOT_FOUND } from '../errors.ts';
import type { Principal } from '../identity/principal.ts';
import type { JsonObject } from '../json.ts';
import type { Unit } from '../store/database.ts';
import type { RunRequestRow, RunRequestStore } from '../store/run-requests.ts';
import type { Audit } from '../telemetry/audit.ts';
import type { EventSink } from '../telemetry/events.ts';
import type { Logger } from '../telemetry/logger.ts';
import {
  type GivenAnswer,
  givenAnswer,
  lateText,
  type RequestFacts,
  readAnswer,
  requestBody,
  requestDocument,
  stateAt,
} from './request-document.ts';

/** How long a request waits for a person, in milliseconds. */
export const REQUEST_LIFE_MS = 300_000;

export interface RunRequests {
  /** Puts a request where people see it; one that is there already stays as it is. */
  open(facts: RequestFacts): Promise<void>;
  /**
   * Waits for the answer, or for the time to be over. `withdrawn` closes it: nobody can use an answer any more, its reason
   * is a sentence that says why. @throws the signal's reason
   */
  answered(requestId: string, signal: AbortSignal, withdrawn?: AbortSignal): Promise<GivenAnswer>;
  /** Closes those of them that are open, since nobody can use their answers any more; `why` is a sentence. */
  close(requestIds: readonly string[], why: string): Promise<void>;
  /** Requests of a task in the order they were made. */
  ofTask(taskId: string, options?: { openOnly?: boolean }): Promise<JsonObject[]>;
  /** Answers one; exactly one answer wins. @throws NOT_FOUND, INVALID_ARGUMENT, CONFLICT (who answered how) */
  answer(principal: Principal, taskId: string, requestId: string, body: JsonObject): Promise<JsonObject>;
  /** Requests of calls that were under way in a process that is gone: no answer reaches them any more. */
  lose(requestIds: readonly string[]): Promise<void>;
  /** A run that ended waits for nobody. Answers what tells those who wait: to be called when the transaction is over. */
  closeRun(runId: string, within?: Unit): Promise<() => void>;
}

export interface RunRequestsDeps {
  readonly store: RunRequestStore;
  readonly audit: Audit;
  readonly events: EventSink;
  readonly log: Logger;
  readonly now?: () => number;
  /** How often answers are looked for that came through another process, in milliseconds. */
  readonly pollMs?: number;
}

interface Waiter {
  readonly wake: () => void;
  expiresTime: number;
}

/** What runs want to know from people. The waiting is done in this process; the answer may come through any. */
export function createRunRequests(deps: RunRequestsDeps): RunRequests {
  const { store, audit, events, log, now = Date.now, pollMs = 1000 } = deps;
  const waiters = new Map<string, Set<Waiter>>();
  let looking = false;

  function publish(event: string, { id, runId, taskId, owner, kind, body }: Told): void {
    const { agent_id = '', connector_id, tool } = body;
    events.publish({
      type: 'request',
      data: {
        event,
        request_id: id,
        task_id: taskId,
        run_id: runId,
        agent_id,
        kind,
        ...(connector_id === undefined ? {} : { connector_id }),
        ...(tool === undefined ? {} : { tool }),
      },
      scope: { owner },
    });
  }

  function wake(id: string): void {
    for (const waiter of waiters.get(id) ?? []) waiter.wake();
  }

  function watch(): void {
    if (looking) return;
    looking = true;
    setTimeout(() => void look(), pollMs).unref();
  }

  async function look(): Promise<void> {
    try {
      const ids = [...waiters.keys()];
      const time = now();
      const over = ids.filter((id) => [...(waiters.get(id) ?? [])].some((waiter) => waiter.expiresTime <= time));
      if (over.length > 0) await store.expire(over);
      for (const id of await store.closed(ids)) wake(id);
    } catch (err) {
      log.warn({ err }, 'answers of people could not be looked for');
    } finally {
      looking = false;
      if (waiters.size > 0) watch();
    }
  }

  /** Takes part in the waiting; `woken` is renewed by each call, so that nothing is missed between two of them. */
  function join(id: string): { readonly waiter: Waiter; woken(): Promise<void>; leave(): void } {
    let notify = (): void => undefined;
    let pending = false;
    const waiter: Waiter = {
      expiresTime: Number.POSITIVE_INFINITY,
      wake() {
        pending = true;
        notify();
      },
    };
    waiters.set(id, (waiters.get(id) ?? new Set()).add(waiter));
    watch();
    return {
      waiter,
      async woken() {
        if (!pending) await new Promise<void>((resolve) => (notify = resolve));
        pending = false;
      },
      leave() {
        const others = waiters.get(id);
        others?.delete(waiter);
        if (others?.size === 0) waiters.delete(id);
      },
    };
  }

  return {
    async open(facts) {
      const { requestId: id, runId, taskId, owner, kind } = facts;
      const request = { id, runId, taskId, owner, kind, body: requestBody(facts) };
      if (await store.insert({ ...request, lifeMs: REQUEST_LIFE_MS })) publish('opened', request);
    },

    async answered(requestId, signal, withdrawn) {
      signal.throwIfAborted();
      const waiting = join(requestId);
      const abort = (): void => waiting.waiter.wake();
      signal.addEventListener('abort', abort);
      withdrawn?.addEventListener('abort', abort);
      try {
        for (;;) {
          const row = await store.get(requestId);
          signal.throwIfAborted();
          if (row === undefined) throw new NOT_FOUND(`Failed to find request ${requestId}`);
          if (row.state !== 'open') {
            if (row.state === 'expired') publish('expired', row);
            return givenAnswer(row);
          }
          if (withdrawn?.aborted) {
            await store.close([requestId], String(withdrawn.reason));
            continue;
          }
          waiting.waiter.expiresTime = row.expiresTime;
          await waiting.woken();
        }
      } finally {
        signal.removeEventListener('abort', abort);
        withdrawn?.removeEventListener('abort', abort);
        waiting.leave();
      }
    },

    async close(requestIds, why) {
      if (requestIds.length === 0) return;
      for (const id of await store.close(requestIds, why)) {
        if (waiters.has(id)) wake(id);
        else {
          const row = await store.get(id);
          if (row !== undefined) publish('expired', row);
        }
      }
    },

    async ofTask(taskId, { openOnly = false } = {}) {
      const time = now();
      const rows = await store.ofTask(taskId);
      const shown = openOnly ? rows.filter((row) => stateAt(row, time) === 'open') : rows;
      return shown.map((row) => requestDocument(row, time));
    },

    async answer(principal, taskId, requestId, body) {
      const row = await store.get(requestId);
      if (row?.taskId !== taskId) throw new NOT_FOUND(`Failed to find request ${requestId} of task ${taskId}`);
      const { action, content } = readAnswer(row, body);
      const stored = { action, ...(content === undefined ? {} : { content }) };
      if (!(await store.answer(requestId, stored, principal.id))) {
        throw new CONFLICT(lateText((await store.get(requestId)) ?? row));
      }
      wake(requestId);
      publish('answered', row);
      await audit.record(auditEntry(principal, row, action));
      return requestDocument((await store.get(requestId)) ?? row, now());
    },

    async lose(requestIds) {
      if (requestIds.length > 0) await store.lose(requestIds);
      for (const id of requestIds) {
        const row = await store.get(id);
        if (row?.state === 'expired') publish('expired', row);
      }
    },

    async closeRun(runId, within) {
      const ids = await store.closeRun(runId, within === undefined ? {} : { within });
      return () => ids.forEach(wake);
    },
  };
}

type Told = Pick<RunRequestRow, 'id' | 'runId' | 'taskId' | 'owner' | 'kind' | 'body'>;

function auditEntry({ id: principal }: Principal, row: RunRequestRow, action: string) {
  const { agent_id, connector_id, tool, offered_name } = row.body;
  return {
    principal,
    action: 'task.answer',
    outcome: action,
    ...(typeof agent_id === 'string' ? { agentId: agent_id } : {}),
    ...(typeof connector_id === 'string' ? { connectorId: connector_id } : {}),
    ...(typeof tool === 'string' ? { tool } : {}),
    detail: `${row.kind} ${row.id} of task ${row.taskId} (${String(offered_name)})`,
  };
}
