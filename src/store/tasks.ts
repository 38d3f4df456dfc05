import type { JsonObject } from '../json.ts';
import type { Database, WriteOptions } from './database.ts';
import type { WriteOutcome } from './documents.ts';
import { prepare } from './prepared.ts';
import { createSequences } from './sequences.ts';
import type { Tables } from './tables.ts';

export interface TaskRow {
  readonly id: string;
  readonly taskType: string;
  readonly state: string;
  /** Members of the API document beside type, state and times. */
  readonly body: JsonObject;
  readonly owner?: string;
  readonly createTime: number;
  readonly lastUpdateTime: number;
}

type Within = Pick<WriteOptions, 'within'>;

export interface TaskStore {
  insert(
    task: { id: string; taskType: string; state: string; body: JsonObject; owner?: string },
    options?: Within,
  ): Promise<TaskRow>;
  get(id: string): Promise<TaskRow | undefined>;
  update(
    id: string,
    change: (current: TaskRow) => { state?: string; body?: JsonObject },
    options?: Within,
  ): Promise<TaskRow | undefined>;
  delete(id: string): Promise<WriteOutcome>;
}

/** Tasks: the API document and its place in the queue are one row. */
export function createTaskStore(database: Database, { now = Date.now }: { now?: () => number } = {}): TaskStore {
  const { kysely } = database;
  const nextSeqNo = createSequences(database);
  const byId = prepare((p: { id: string }) => kysely.selectFrom('tasks').selectAll().where('id', '=', p.id));

  return {
    insert(task, options) {
      return database.write(async (transaction) => {
        const time = now();
        await transaction
          .insertInto('tasks')
          .values({
            id: task.id,
            task_type: task.taskType,
            state: task.state,
            body: JSON.stringify(task.body),
            version: 1,
            seq_no: await nextSeqNo(transaction, 'task'),
            attempts: 0,
            create_time: time,
            last_update_time: time,
            owner: task.owner ?? null,
          })
          .execute();
        return { ...task, createTime: time, lastUpdateTime: time };
      }, options);
    },

    async get(id) {
      const { rows } = await byId(kysely, { id });
      return rows[0] && fromRow(rows[0]);
    },

    update(id, change, options) {
      return database.write(async (transaction) => {
        const seqNo = await nextSeqNo(transaction, 'task');
        const { rows } = await byId(transaction, { id });
        if (!rows[0]) return undefined;
        const current = fromRow(rows[0]);
        const next: TaskRow = { ...current, ...change(current), lastUpdateTime: now() };
        await transaction
          .updateTable('tasks')
          .set({
            state: next.state,
            body: JSON.stringify(next.body),
            version: rows[0].version + 1,
            seq_no: seqNo,
            last_update_time: next.lastUpdateTime,
          })
          .where('id', '=', id)
          .execute();
        return next;
      }, options);
    },

    delete(id) {
      return database.write(async (transaction) => {
        const seqNo = await nextSeqNo(transaction, 'task');
        const removed = await transaction
          .deleteFrom('tasks')
          .where('id', '=', id)
          .returning('version')
          .executeTakeFirst();
        if (!removed) return { id, version: 1, seqNo, result: 'not_found' };
        return { id, version: removed.version + 1, seqNo, result: 'deleted' };
      });
    },
  };
}

function fromRow(row: Tables['tasks']): TaskRow {
  return {
    id: row.id,
    taskType: row.task_type,
    state: row.state,
    body: JSON.parse(row.body) as JsonObject,
    ...(row.owner === null ? {} : { owner: row.owner }),
    createTime: row.create_time,
    lastUpdateTime: row.last_update_time,
  };
}
