import type { Database, Unit, WriteOptions } from './database.ts';
import type { WriteOutcome } from './documents.ts';
import { createMemoryStatements } from './memory-statements.ts';
import { createSequences } from './sequences.ts';
import type { Tables } from './tables.ts';

export interface MemoryRow {
  readonly id: string;
  readonly name: string | undefined;
  readonly applicationType: string | undefined;
  /** JSON text. */
  readonly additionalInfo: string | undefined;
  readonly owner: string | undefined;
  readonly createTime: number;
  readonly updatedTime: number;
}

export interface MessageFields {
  readonly input?: string;
  readonly promptTemplate?: string;
  readonly response?: string;
  readonly origin?: string;
  /** JSON text. */
  readonly additionalInfo?: string;
  readonly parentMessageId?: string;
  readonly traceNumber?: number;
}

export interface MessageRow extends MessageFields {
  readonly id: string;
  readonly memoryId: string;
  /** Order inside the memory: 1, 2, … Newest-N is by this number, never by time. */
  readonly seq: number;
  readonly createTime: number;
  readonly updatedTime: number | undefined;
}

export interface Page {
  readonly limit: number;
  readonly offset: number;
}

export interface NewMemory {
  readonly id: string;
  readonly name?: string;
  readonly applicationType?: string;
  readonly additionalInfo?: string;
  readonly owner?: string;
}

type Within = Pick<WriteOptions, 'within'>;

export interface MemoryStore {
  create(memory: NewMemory, options?: Within): Promise<MemoryRow>;
  get(id: string): Promise<MemoryRow | undefined>;
  /** Newest `updatedTime` first; only those of `owner` when it is given. */
  list(page: Page, owner?: string): Promise<MemoryRow[]>;
  update(id: string, change: { name?: string; additionalInfo?: string }): Promise<WriteOutcome>;
  /** Deletes the messages too. `false` when there was none. */
  delete(id: string): Promise<boolean>;
  any(): Promise<boolean>;
  /** Gives the message the next `seq` and touches the memory's `updatedTime`, unless told not to. `undefined`: no such memory. */
  append(
    message: MessageFields & { id: string; memoryId: string },
    options?: Within & { touch?: boolean },
  ): Promise<MessageRow | undefined>;
  message(id: string): Promise<MessageRow | undefined>;
  updateMessage(id: string, change: { response?: string; additionalInfo?: string }): Promise<WriteOutcome>;
  /** Stores what a turn came to and touches the memory's `updatedTime`. `false`: no such message. */
  answer(id: string, answer: { response: string; additionalInfo: string }, options?: Within): Promise<boolean>;
  /** Oldest first, without traces (rows with a parent). */
  messages(memoryId: string, page: Page): Promise<MessageRow[]>;
  /** By `traceNumber`; only those in the memory of their parent. */
  traces(parentMessageId: string, page: Page): Promise<MessageRow[]>;
  /** The newest `limit` messages without parent whose response is not empty, oldest first. */
  latestFinished(memoryId: string, limit: number): Promise<MessageRow[]>;
}

/** Conversations: memories and their messages. */
export function createMemoryStore(database: Database, { now = Date.now }: { now?: () => number } = {}): MemoryStore {
  const { kysely } = database;
  const nextSeqNo = createSequences(database);
  const { memoryById, messageById, touch, insertMemory, hold, insertMessage, setAnswer, turns, finished } =
    createMemoryStatements(database);

  /** What a writer does first in a conversation: it puts those who write there at the same time in line. */
  async function enter(unit: Unit, memoryId: string, touches: boolean): Promise<boolean> {
    if (!touches) return (await hold(unit, { id: memoryId })).rows.length > 0;
    const { numAffectedRows } = await touch(unit, { id: memoryId, time: now() });
    return Boolean(numAffectedRows);
  }

  return {
    create(memory, options) {
      return database.write(async (transaction) => {
        const time = now();
        const row = {
          id: memory.id,
          name: memory.name ?? null,
          application_type: memory.applicationType ?? null,
          additional_info: memory.additionalInfo ?? null,
          owner: memory.owner ?? null,
          seq_no: await nextSeqNo(transaction, 'memory'),
          create_time: time,
          updated_time: time,
        };
        await insertMemory(transaction, row);
        return memoryRow(row);
      }, options);
    },

    async get(id) {
      const { rows } = await memoryById(kysely, { id });
      return rows[0] && memoryRow(rows[0]);
    },

    async list({ limit, offset }, owner) {
      const all = kysely.selectFrom('memories').selectAll();
      const rows = await (owner === undefined ? all : all.where('owner', '=', owner))
        .orderBy('updated_time', 'desc')
        .orderBy('seq_no', 'desc')
        .limit(limit)
        .offset(offset)
        .execute();
      return rows.map(memoryRow);
    },

    update(id, { name, additionalInfo }) {
      return database.write(async (transaction) => {
        const seqNo = await nextSeqNo(transaction, 'memory');
        const updated = await transaction
          .updateTable('memories')
          .set((row) => ({
            ...(name !== undefined && { name }),
            ...(additionalInfo !== undefined && { additional_info: additionalInfo }),
            version: row('version', '+', 1),
            seq_no: seqNo,
            updated_time: now(),
          }))
          .where('id', '=', id)
          .returning('version')
          .executeTakeFirst();
        if (!updated) return { id, version: 1, seqNo, result: 'not_found' };
        return { id, version: updated.version, seqNo, result: 'updated' };
      });
    },

    delete(id) {
      return database.write(async (transaction) => {
        const { numDeletedRows } = await transaction.deleteFrom('memories').where('id', '=', id).executeTakeFirst();
        return numDeletedRows > 0n;
      });
    },

    async any() {
      return (await kysely.selectFrom('memories').select('id').limit(1).executeTakeFirst()) !== undefined;
    },

    append(message, options) {
      return database.write(async (transaction) => {
        if (!(await enter(transaction, message.memoryId, options?.touch ?? true))) return undefined;
        const { rows } = await insertMessage(transaction, {
          id: message.id,
          memory_id: message.memoryId,
          parent_message_id: message.parentMessageId ?? null,
          trace_number: message.traceNumber ?? null,
          input: message.input ?? null,
          prompt_template: message.promptTemplate ?? null,
          response: message.response ?? null,
          origin: message.origin ?? null,
          additional_info: message.additionalInfo ?? null,
          create_time: now(),
        });
        return rows[0] && messageRow(rows[0]);
      }, options);
    },

    async message(id) {
      const { rows } = await messageById(kysely, { id });
      return rows[0] && messageRow(rows[0]);
    },

    updateMessage(id, { response, additionalInfo }) {
      return database.write(async (transaction) => {
        const seqNo = await nextSeqNo(transaction, 'message');
        const updated = await transaction
          .updateTable('messages')
          .set((row) => ({
            ...(response !== undefined && { response }),
            ...(additionalInfo !== undefined && { additional_info: additionalInfo }),
            version: row('version', '+', 1),
            updated_time: now(),
          }))
          .where('id', '=', id)
          .returning('version')
          .executeTakeFirst();
        if (!updated) return { id, version: 1, seqNo, result: 'not_found' };
        return { id, version: updated.version, seqNo, result: 'updated' };
      });
    },

    answer(id, answer, options) {
      return database.write(async (transaction) => {
        const time = now();
        const { rows } = await setAnswer(transaction, { id, ...answer, time });
        if (!rows[0]) return false;
        await touch(transaction, { id: rows[0].memory_id, time });
        return true;
      }, options);
    },

    async messages(memoryId, page) {
      const { rows } = await turns(kysely, { memoryId, ...page });
      return rows.map(messageRow);
    },

    async traces(parentMessageId, { limit, offset }) {
      const rows = await kysely
        .selectFrom('messages')
        .selectAll()
        .where('parent_message_id', '=', parentMessageId)
        // A message may name any parent; one in another memory is no trace of it.
        .where('memory_id', '=', (parent) =>
          parent.selectFrom('messages').where('id', '=', parentMessageId).select('memory_id'),
        )
        .orderBy('trace_number')
        .orderBy('seq')
        .limit(limit)
        .offset(offset)
        .execute();
      return rows.map(messageRow);
    },

    async latestFinished(memoryId, limit) {
      const { rows } = await finished(kysely, { memoryId, limit });
      return rows.map(messageRow).reverse();
    },
  };
}

function memoryRow(row: Omit<Tables['memories'], 'version'>): MemoryRow {
  return {
    id: row.id,
    name: row.name ?? undefined,
    applicationType: row.application_type ?? undefined,
    additionalInfo: row.additional_info ?? undefined,
    owner: row.owner ?? undefined,
    createTime: row.create_time,
    updatedTime: row.updated_time,
  };
}

function messageRow(row: Tables['messages']): MessageRow {
  return {
    id: row.id,
    memoryId: row.memory_id,
    seq: row.seq,
    ...(row.input !== null && { input: row.input }),
    ...(row.prompt_template !== null && { promptTemplate: row.prompt_template }),
    ...(row.response !== null && { response: row.response }),
    ...(row.origin !== null && { origin: row.origin }),
    ...(row.additional_info !== null && { additionalInfo: row.additional_info }),
    ...(row.parent_message_id !== null && { parentMessageId: row.parent_message_id }),
    ...(row.trace_number !== null && { traceNumber: row.trace_number }),
    createTime: row.create_time,
    updatedTime: row.updated_time ?? undefined,
  };
}
