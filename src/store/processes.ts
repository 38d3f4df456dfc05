import { sql } from 'kysely';
import type { Database } from './database.ts';
import { prepare } from './prepared.ts';

/** A process that was not seen for so long is taken for dead, in milliseconds. */
const LEASE_MS = 60_000;

export interface ProcessStore {
  /** Says that the process lives. A real write: it fails when the store takes none. */
  beat(id: string): Promise<void>;
  forget(id: string): Promise<void>;
  /**
   * Forgets processes that are dead. Runs that are `running`, that no task shows and whose process is dead become `interrupted`, and their messages, where they have no answer
   * yet, are answered with `response`. `alone`: no process but this one can live, whatever the rows say.
   * @returns how many runs
   */
  interruptRuns(own: string, options: { alone: boolean; response: string }): Promise<number>;
}

/** Which processes serve this database, by the clock of the database where it has one. */
export function createProcessStore(database: Database, { now = Date.now }: { now?: () => number } = {}): ProcessStore {
  const { kysely } = database;
  const clock =
    database.kind === 'postgres'
      ? sql<number>`cast(extract(epoch from clock_timestamp()) * 1000 as bigint)`
      : sql<number>`cast(unixepoch('subsec') * 1000 as integer)`;
  const upsert = prepare((p: { id: string }) =>
    kysely
      .insertInto('processes')
      .values({ id: p.id, seen_time: clock })
      .onConflict((conflict) => conflict.column('id').doUpdateSet({ seen_time: clock })),
  );

  return {
    async beat(id) {
      await database.write((transaction) => upsert(transaction, { id }));
    },

    async forget(id) {
      await database.write((transaction) => transaction.deleteFrom('processes').where('id', '=', id).execute());
    },

    interruptRuns(own, { alone, response }) {
      return database.write(async (transaction) => {
        await transaction
          .deleteFrom('processes')
          .where('id', '!=', own)
          .$if(!alone, (query) => query.where('seen_time', '<', sql<number>`${clock} - cast(${LEASE_MS} as bigint)`))
          .execute();
        const time = now();
        const lost = await transaction
          .updateTable('runs')
          .set({ state: 'interrupted', last_update_time: time })
          .where('state', '=', 'running')
          .where('task_id', 'is', null)
          .where((row) =>
            row.or([
              row('process_id', 'is', null),
              row('process_id', 'not in', row.selectFrom('processes').select('id')),
            ]),
          )
          .returning('message_id')
          .execute();
        const messages = lost.flatMap((row) => row.message_id ?? []);
        for (let at = 0; at < messages.length; at += 500) {
          await transaction
            .updateTable('messages')
            .set((row) => ({ response, version: row('version', '+', 1), updated_time: time }))
            .where('id', 'in', messages.slice(at, at + 500))
            .where('response', '=', '')
            .execute();
        }
        return lost.length;
      });
    },
  };
}
