import type { ExpressionBuilder } from 'kysely';
import type { JsonObject } from '../json.ts';
import { type Database, UniqueViolation, type Unit, type WriteOptions } from './database.ts';
import { prepare } from './prepared.ts';
import type { Tables } from './tables.ts';

/** `interrupted`: the process that drove it ended before the run did. */
export type RunState = 'running' | 'completed' | 'failed' | 'interrupted';

export interface RunRow {
  readonly id: string;
  readonly agentId: string;
  readonly memoryId: string | undefined;
  readonly messageId: string | undefined;
  readonly principal: string;
  readonly state: RunState;
  readonly request: JsonObject;
  /** The task that shows it; only of a run that goes on without its caller. */
  readonly taskId?: string;
  readonly createTime: number;
  /** Of the last change of state; steps have times of their own. */
  readonly lastUpdateTime: number;
}

export interface RunStepRow {
  readonly seq: number;
  readonly kind: string;
  readonly body: JsonObject;
  readonly createTime: number;
}

export interface RunStore {
  insert(
    run: {
      id: string;
      agentId: string;
      memoryId?: string;
      messageId?: string;
      principal: string;
      request: JsonObject;
      taskId?: string;
    },
    options?: Pick<WriteOptions, 'within'>,
  ): Promise<void>;
  get(id: string): Promise<RunRow | undefined>;
  /**
   * Appends step `seq`, and with it sets `state` when that is given. Two processes must not drive one run: a `seq` that is
   * taken throws UniqueViolation, and so does, where `driven` is said, a run that another process has taken over. `also` is
   * written in the same transaction, when the step is.
   */
  append(
    runId: string,
    step: { seq: number; kind: string; body: JsonObject },
    options: {
      durable: boolean;
      state?: RunState;
      driven?: boolean;
      also?: (within: Unit) => Promise<unknown>;
    },
  ): Promise<void>;
  steps(runId: string): Promise<RunStepRow[]>;
  setState(runId: string, state: RunState): Promise<void>;
  /** Ends a run that this process drives, as part of a transaction. `false`: it ended already, or another process drives it now. */
  end(runId: string, state: Exclude<RunState, 'running'>, within: Unit): Promise<boolean>;
  /**
   * Makes this process the driver of runs that are shown by a task and whose driver is not among the processes that live.
   * Of several processes that do so, one gets a run. Answers the ids, oldest first, at most `limit`.
   */
  claim(limit: number): Promise<string[]>;
  ofAgent(agentId: string, limit: number): Promise<RunRow[]>;
}

/** The rows of the run journal; what a step means is the business of `runs`. */
export function createRunStore(
  database: Database,
  { now = Date.now, processId }: { now?: () => number; processId?: string } = {},
): RunStore {
  const { kysely } = database;
  const insertRun = prepare((p: Tables['runs']) =>
    kysely.insertInto('runs').values({
      id: p.id,
      agent_id: p.agent_id,
      memory_id: p.memory_id,
      message_id: p.message_id,
      principal: p.principal,
      state: p.state,
      request: p.request,
      process_id: p.process_id,
      create_time: p.create_time,
      last_update_time: p.last_update_time,
      task_id: p.task_id,
    }),
  );
  const insertStep = prepare((p: { runId: string; seq: number; kind: string; body: string; time: number }) =>
    kysely
      .insertInto('run_steps')
      .values({ run_id: p.runId, seq: p.seq, kind: p.kind, body: p.body, create_time: p.time }),
  );
  const setState = prepare((p: { runId: string; state: string; time: number }) =>
    kysely.updateTable('runs').set({ state: p.state, last_update_time: p.time }).where('id', '=', p.runId),
  );

  /** Whether this process drives the run; it stays so until the transaction ends. */
  async function holds(transaction: Unit, runId: string): Promise<boolean> {
    const { numUpdatedRows } = await transaction
      .updateTable('runs')
      .set({ process_id: processId ?? null })
      .where('id', '=', runId)
      .where('process_id', processId === undefined ? 'is' : '=', processId ?? null)
      .executeTakeFirst();
    return numUpdatedRows > 0n;
  }

  return {
    async insert(run, options) {
      const time = now();
      const row = {
        id: run.id,
        agent_id: run.agentId,
        memory_id: run.memoryId ?? null,
        message_id: run.messageId ?? null,
        principal: run.principal,
        state: 'running',
        request: JSON.stringify(run.request),
        process_id: processId ?? null,
        create_time: time,
        last_update_time: time,
        task_id: run.taskId ?? null,
      };
      await database.write((transaction) => insertRun(transaction, row), options);
    },

    async get(id) {
      const row = await kysely.selectFrom('runs').selectAll().where('id', '=', id).executeTakeFirst();
      return row && fromRow(row);
    },

    append(runId, { seq, kind, body }, { durable, state, driven = false, also }) {
      return database.write(
        async (transaction) => {
          const time = now();
          if (driven && !(await holds(transaction, runId))) {
            throw new UniqueViolation(`run ${runId} is driven by another process`);
          }
          await insertStep(transaction, { runId, seq, kind, body: JSON.stringify(body), time });
          if (state !== undefined) await setState(transaction, { runId, state, time });
          await also?.(transaction);
        },
        { durable },
      );
    },

    async steps(runId) {
      const rows = await kysely
        .selectFrom('run_steps')
        .select(['seq', 'kind', 'body', 'create_time'])
        .where('run_id', '=', runId)
        .orderBy('seq')
        .execute();
      return rows.map((row) => ({
        seq: row.seq,
        kind: row.kind,
        body: JSON.parse(row.body) as JsonObject,
        createTime: row.create_time,
      }));
    },

    async setState(runId, state) {
      await database.write((transaction) => setState(transaction, { runId, state, time: now() }));
    },

    end(runId, state, within) {
      return database.write(
        async (transaction) => {
          const { numUpdatedRows } = await transaction
            .updateTable('runs')
            .set({ state, last_update_time: now() })
            .where('id', '=', runId)
            .where('state', '=', 'running')
            .where('process_id', processId === undefined ? 'is' : '=', processId ?? null)
            .executeTakeFirst();
          return numUpdatedRows > 0n;
        },
        { within },
      );
    },

    claim(limit) {
      return database.write(async (transaction) => {
        const orphans = await transaction
          .selectFrom('runs')
          .select('id')
          .where('state', '=', 'running')
          .where('task_id', 'is not', null)
          .where(withoutDriver)
          .orderBy('create_time')
          .limit(limit)
          .execute();
        if (orphans.length === 0) return [];
        // Asked again: another process may have been quicker.
        const claimed = await transaction
          .updateTable('runs')
          .set({ process_id: processId ?? null })
          .where(
            'id',
            'in',
            orphans.map(({ id }) => id),
          )
          .where('state', '=', 'running')
          .where(withoutDriver)
          .returning('id')
          .execute();
        const taken = new Set(claimed.map(({ id }) => id));
        return orphans.map(({ id }) => id).filter((id) => taken.has(id));
      });
    },

    async ofAgent(agentId, limit) {
      const rows = await kysely
        .selectFrom('runs')
        .selectAll()
        .where('agent_id', '=', agentId)
        .orderBy('create_time', 'desc')
        .orderBy('id', 'desc')
        .limit(limit)
        .execute();
      return rows.map(fromRow);
    },
  };
}

function withoutDriver(row: ExpressionBuilder<Tables, 'runs'>) {
  return row.or([row('process_id', 'is', null), row('process_id', 'not in', row.selectFrom('processes').select('id'))]);
}

function fromRow(row: Tables['runs']): RunRow {
  return {
    id: row.id,
    agentId: row.agent_id,
    memoryId: row.memory_id ?? undefined,
    messageId: row.message_id ?? undefined,
    principal: row.principal,
    state: row.state as RunState,
    request: JSON.parse(row.request) as JsonObject,
    ...(row.task_id === null ? {} : { taskId: row.task_id }),
    createTime: row.create_time,
    lastUpdateTime: row.last_update_time,
  };
}
