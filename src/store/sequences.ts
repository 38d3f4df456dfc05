import type { Kysely } from 'kysely';
import type { Database } from './database.ts';
import { prepare } from './prepared.ts';
import type { Tables } from './tables.ts';

/** Gives out 0, 1, 2, … for each name; taking a number first also puts the writers of that name in line. */
export function createSequences({ kysely }: Database): (executor: Kysely<Tables>, name: string) => Promise<number> {
  const advance = prepare((p: { name: string }) =>
    kysely
      .insertInto('sequences')
      .values({ name: p.name, value: 0 })
      .onConflict((conflict) =>
        conflict.column('name').doUpdateSet((row) => ({ value: row('sequences.value', '+', 1) })),
      )
      .returning('value'),
  );
  return async (executor, name) => {
    const { rows } = await advance(executor, { name });
    if (!rows[0]) throw new Error(`Sequence ${name} gave no number`);
    return rows[0].value;
  };
}
