import type { Database } from './database.ts';
import { prepare } from './prepared.ts';
import type { Tables } from './tables.ts';

/** The statements every turn of a conversation runs, each compiled once. */
export function createMemoryStatements({ kind, kysely }: Pick<Database, 'kind' | 'kysely'>) {
  const memoryById = prepare((p: { id: string }) => kysely.selectFrom('memories').selectAll().where('id', '=', p.id));
  const messageById = prepare((p: { id: string }) => kysely.selectFrom('messages').selectAll().where('id', '=', p.id));
  const touch = prepare((p: { id: string; time: number }) =>
    kysely.updateTable('memories').set({ updated_time: p.time }).where('id', '=', p.id),
  );
  const insertMemory = prepare((p: Omit<Tables['memories'], 'version'>) =>
    kysely.insertInto('memories').values({
      id: p.id,
      name: p.name,
      application_type: p.application_type,
      additional_info: p.additional_info,
      owner: p.owner,
      version: 1,
      seq_no: p.seq_no,
      create_time: p.create_time,
      updated_time: p.updated_time,
    }),
  );
  const hold = prepare((p: { id: string }) => {
    const memory = kysely.selectFrom('memories').select('id').where('id', '=', p.id);
    return kind === 'postgres' ? memory.forNoKeyUpdate() : memory;
  });
  const insertMessage = prepare((p: Omit<Tables['messages'], 'seq' | 'version' | 'updated_time'>) =>
    kysely
      .insertInto('messages')
      .values((row) => ({
        id: p.id,
        memory_id: p.memory_id,
        seq: row
          .selectFrom('messages')
          .where('memory_id', '=', p.memory_id)
          .select((last) => last(last.fn.coalesce(last.fn.max('seq'), last.lit(0)), '+', last.lit(1)).as('seq')),
        parent_message_id: p.parent_message_id,
        trace_number: p.trace_number,
        input: p.input,
        prompt_template: p.prompt_template,
        response: p.response,
        origin: p.origin,
        additional_info: p.additional_info,
        version: 1,
        create_time: p.create_time,
        updated_time: null,
      }))
      .returningAll(),
  );
  const setAnswer = prepare((p: { id: string; response: string; additionalInfo: string; time: number }) =>
    kysely
      .updateTable('messages')
      .set((row) => ({
        response: p.response,
        additional_info: p.additionalInfo,
        version: row('version', '+', 1),
        updated_time: p.time,
      }))
      .where('id', '=', p.id)
      .returning('memory_id'),
  );
  const turns = prepare((p: { memoryId: string; limit: number; offset: number }) =>
    kysely
      .selectFrom('messages')
      .selectAll()
      .where('memory_id', '=', p.memoryId)
      .where('parent_message_id', 'is', null)
      .orderBy('seq')
      .limit(p.limit)
      .offset(p.offset),
  );
  const finished = prepare((p: { memoryId: string; limit: number }) =>
    kysely
      .selectFrom('messages')
      .selectAll()
      .where('memory_id', '=', p.memoryId)
      .where('parent_message_id', 'is', null)
      .where('response', 'is not', null)
      .where('response', '!=', '')
      .orderBy('seq', 'desc')
      .limit(p.limit),
  );

  return { memoryById, messageById, touch, insertMemory, hold, insertMessage, setAnswer, turns, finished };
}
