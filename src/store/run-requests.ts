import type { JsonObject } from '../json.ts';
import type { Database, WriteOptions } from './database.ts';
import { createSequences } from './sequences.ts';
import type { Tables } from './tables.ts';

/** `expired`: nobody answered in time, or nobody can use an answer any more; then `answer.reason` says why. */
export type RequestState = 'open' | 'answered' | 'expired';

export interface RunRequestRow {
  readonly id: string;
  readonly runId: string;
  readonly taskId: string;
  readonly owner: string;
  readonly kind: string;
  readonly body: JsonObject;
  readonly state: RequestState;
  readonly answer?: JsonObject;
  readonly answeredBy?: string;
  readonly createTime: number;
  readonly expiresTime: number;
  readonly answerTime?: number;
}

type NewRequest = Pick<RunRequestRow, 'id' | 'runId' | 'taskId' | 'owner' | 'kind' | 'body'> & {
  /** How long it may be answered, in milliseconds. */
  readonly lifeMs: number;
};

export interface RunRequestStore {
  /** Stores an open request; `false` when there is one of this id already, which stays as it is. */
  insert(request: NewRequest): Promise<boolean>;
  get(id: string): Promise<RunRequestRow | undefined>;
  /** In the order they were made. */
  ofTask(taskId: string): Promise<RunRequestRow[]>;
  /** Takes the answer of one who was first, while the request is open and not over time. `false`: it was not. */
  answer(id: string, answer: JsonObject, by: string): Promise<boolean>;
  /** Open requests of these ids whose time is over become expired. */
  expire(ids: readonly string[]): Promise<void>;
  /** All open requests of a run become expired; answers their ids. */
  closeRun(runId: string, options?: Pick<WriteOptions, 'within'>): Promise<string[]>;
  /** Open requests of these ids become expired, because the process of the call that asked is gone. */
  lose(ids: readonly string[]): Promise<void>;
  /** Those of these that are open become expired, for a reason; answers their ids. */
  close(ids: readonly string[], why: string): Promise<string[]>;
  /** Which of these are open no more; ids nobody knows are not among them. */
  closed(ids: readonly string[]): Promise<string[]>;
}

const BATCH = 500;
/** `answer.reason` of a request whose call ended with its process. */
export const SERVER_STOPPED = 'server_stopped';

/** What runs want to know from people. */
export function createRunRequestStore(
  database: Database,
  { now = Date.now }: { now?: () => number } = {},
): RunRequestStore {
  const { kysely } = database;
  const nextSeqNo = createSequences(database);

  return {
    insert(request) {
      return database.write(async (transaction) => {
        const time = now();
        const { numInsertedOrUpdatedRows } = await transaction
          .insertInto('run_requests')
          .values({
            id: request.id,
            run_id: request.runId,
            task_id: request.taskId,
            owner: request.owner,
            kind: request.kind,
            body: JSON.stringify(request.body),
            state: 'open',
            create_time: time,
            expires_time: time + request.lifeMs,
            seq_no: await nextSeqNo(transaction, 'request'),
          })
          .onConflict((conflict) => conflict.column('id').doNothing())
          .executeTakeFirst();
        return Number(numInsertedOrUpdatedRows) > 0;
      });
    },

    async get(id) {
      const row = await kysely.selectFrom('run_requests').selectAll().where('id', '=', id).executeTakeFirst();
      return row && fromRow(row);
    },

    async ofTask(taskId) {
      const rows = await kysely
        .selectFrom('run_requests')
        .selectAll()
        .where('task_id', '=', taskId)
        .orderBy('seq_no')
        .execute();
      return rows.map(fromRow);
    },

    answer(id, answer, by) {
      return database.write(async (transaction) => {
        const time = now();
        const { numUpdatedRows } = await transaction
          .updateTable('run_requests')
          .set({ state: 'answered', answer: JSON.stringify(answer), answered_by: by, answer_time: time })
          .where('id', '=', id)
          .where('state', '=', 'open')
          .where('expires_time', '>', time)
          .executeTakeFirst();
        return numUpdatedRows > 0n;
      });
    },

    async expire(ids) {
      await database.write(async (transaction) => {
        for (const batch of batches(ids)) {
          await transaction
            .updateTable('run_requests')
            .set({ state: 'expired', answer: JSON.stringify({ reason: 'Its run ended first' }) })
            .where('id', 'in', batch)
            .where('state', '=', 'open')
            .where('expires_time', '<=', now())
            .execute();
        }
      });
    },

    closeRun(runId, options) {
      return database.write(async (transaction) => {
        const rows = await transaction
          .updateTable('run_requests')
          .set({ state: 'expired' })
          .where('run_id', '=', runId)
          .where('state', '=', 'open')
          .returning('id')
          .execute();
        return rows.map(({ id }) => id);
      }, options);
    },

    async lose(ids) {
      await database.write(async (transaction) => {
        for (const batch of batches(ids)) {
          await transaction
            .updateTable('run_requests')
            .set({ state: 'expired', answer: JSON.stringify({ reason: SERVER_STOPPED }) })
            .where('id', 'in', batch)
            .where('state', '=', 'open')
            .execute();
        }
      });
    },

    close(ids, why) {
      return database.write(async (transaction) => {
        const found: string[] = [];
        for (const batch of batches(ids)) {
          const rows = await transaction
            .updateTable('run_requests')
            .set({ state: 'expired', answer: JSON.stringify({ reason: why }) })
            .where('id', 'in', batch)
            .where('state', '=', 'open')
            .returning('id')
            .execute();
          found.push(...rows.map(({ id }) => id));
        }
        return found;
      });
    },

    async closed(ids) {
      const found: string[] = [];
      for (const batch of batches(ids)) {
        const rows = await kysely
          .selectFrom('run_requests')
          .select('id')
          .where('id', 'in', batch)
          .where('state', '!=', 'open')
          .execute();
        found.push(...rows.map(({ id }) => id));
      }
      return found;
    },
  };
}

function batches(ids: readonly string[]): string[][] {
  return Array.from({ length: Math.ceil(ids.length / BATCH) }, (_, at) => ids.slice(at * BATCH, (at + 1) * BATCH));
}

function fromRow(row: Tables['run_requests']): RunRequestRow {
  return {
    id: row.id,
    runId: row.run_id,
    taskId: row.task_id,
    owner: row.owner,
    kind: row.kind,
    body: JSON.parse(row.body) as JsonObject,
    state: row.state as RequestState,
    ...(row.answer === null ? {} : { answer: JSON.parse(row.answer) as JsonObject }),
    ...(row.answered_by === null ? {} : { answeredBy: row.answered_by }),
    createTime: row.create_time,
    expiresTime: row.expires_time,
    ...(row.answer_time === null ? {} : { answerTime: row.answer_time }),
  };
}
