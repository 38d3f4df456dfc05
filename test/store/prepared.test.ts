import { expect, it } from 'vitest';
import { prepare } from '../../src/store/prepared.ts';
import { onEachEngine } from '../support/databases.ts';

onEachEngine('prepared statements', (database) => {
  it('run with fresh parameters, inside and outside a transaction, beside constants', async () => {
    const { kysely, write } = database();
    const insert = prepare((p: { name: string; value: string }) =>
      kysely.insertInto('settings').values({ scope: 'transient', name: p.name, value: p.value, last_updated_time: 7 }),
    );
    const byName = prepare((p: { name: string }) =>
      kysely.selectFrom('settings').select('value').where('name', '=', p.name).where('scope', '=', 'transient'),
    );
    await write(async (transaction) => {
      await insert(transaction, { name: 'a', value: 'one' });
      expect((await byName(transaction, { name: 'a' })).rows).toEqual([{ value: 'one' }]);
    });
    await write((transaction) => insert(transaction, { name: 'b', value: 'two' }));
    expect((await byName(kysely, { name: 'b' })).rows).toEqual([{ value: 'two' }]);
    expect((await byName(kysely, { name: 'c' })).rows).toEqual([]);
  });

  it('use one parameter in several places', async () => {
    const { kysely, write } = database();
    const insert = prepare((p: { text: string; time: number }) =>
      kysely
        .insertInto('settings')
        .values({ scope: 'persistent', name: p.text, value: p.text, last_updated_time: p.time }),
    );
    await write((transaction) => insert(transaction, { text: 'both', time: 3 }));
    expect(await kysely.selectFrom('settings').selectAll().execute()).toEqual([
      { scope: 'persistent', name: 'both', value: 'both', last_updated_time: 3 },
    ]);
  });
});
