import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { type Database, UniqueViolation } from '../../src/store/database.ts';
import { createRunStore } from '../../src/store/runs.ts';
import { onEachEngine, sqliteDatabase } from '../support/databases.ts';

onEachEngine('runs', (database) => {
  const start = (id: string, agentId = 'agent') => ({ id, agentId, principal: 'open', request: { question: '🦉?' } });

  it('begin running and end in a state', async () => {
    let time = 10;
    const runs = createRunStore(database(), { now: () => time });
    await runs.insert({ ...start('r'), memoryId: 'm', messageId: 'g' });
    time = 20;
    await runs.setState('r', 'completed');
    expect(await runs.get('r')).toEqual({
      id: 'r',
      agentId: 'agent',
      memoryId: 'm',
      messageId: 'g',
      principal: 'open',
      state: 'completed',
      request: { question: '🦉?' },
      createTime: 10,
      lastUpdateTime: 20,
    });
    expect(await runs.get('other')).toBeUndefined();
  });

  it('end with a step, or not at all when the step cannot be written', async () => {
    const runs = createRunStore(database(), { now: () => 1 });
    await runs.insert(start('r'));
    await runs.insert(start('taken'));
    const final = { seq: 1, kind: 'final_answer', body: {} };
    await runs.append('r', final, { durable: false, state: 'completed' });
    expect(await runs.get('r')).toMatchObject({ state: 'completed' });
    await runs.append('taken', final, { durable: false });
    const late = runs.append('taken', final, { durable: false, state: 'completed' });
    await expect(late).rejects.toBeInstanceOf(UniqueViolation);
    expect(await runs.get('taken')).toMatchObject({ state: 'running' });
  });

  it('keep their steps in order of seq, whatever the order of writing', async () => {
    const runs = createRunStore(database(), { now: () => 1 });
    await runs.insert(start('r'));
    await runs.insert(start('other'));
    await runs.append('r', { seq: 10, kind: 'tool', body: { text: 'c' } }, { durable: true });
    await runs.append('r', { seq: 1, kind: 'model', body: { text: 'a' } }, { durable: false });
    await runs.append('r', { seq: 2, kind: 'tool', body: { text: 'b' } }, { durable: true });
    await runs.append('other', { seq: 1, kind: 'model', body: {} }, { durable: false });
    expect(await runs.steps('r')).toEqual([
      { seq: 1, kind: 'model', body: { text: 'a' }, createTime: 1 },
      { seq: 2, kind: 'tool', body: { text: 'b' }, createTime: 1 },
      { seq: 10, kind: 'tool', body: { text: 'c' }, createTime: 1 },
    ]);
  });

  it('refuse a seq that is taken and a run that does not exist', async () => {
    const runs = createRunStore(database());
    await runs.insert(start('r'));
    const both = await Promise.allSettled(
      ['one', 'two'].map((text) => runs.append('r', { seq: 1, kind: 'model', body: { text } }, { durable: true })),
    );
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    const lost = both.find((outcome) => outcome.status === 'rejected');
    expect(lost?.reason).toBeInstanceOf(UniqueViolation);
    expect(await runs.steps('r')).toHaveLength(1);
    await expect(runs.append('none', { seq: 1, kind: 'model', body: {} }, { durable: false })).rejects.toThrow();
  });

  it('are listed newest first for one agent', async () => {
    let time = 0;
    const runs = createRunStore(database(), { now: () => time++ });
    for (const id of ['a', 'b', 'c']) await runs.insert(start(id));
    await runs.insert(start('d', 'another'));
    expect((await runs.ofAgent('agent', 2)).map(({ id }) => id)).toEqual(['c', 'b']);
  });
});

it('a durable step, and no other, waits for the disk when it is committed to SQLite', async () => {
  const { database, dispose } = await sqliteDatabase();
  const seen: unknown[] = [];
  const spied: Database = {
    ...database,
    write: (work, options) =>
      database.write(async (transaction) => {
        seen.push(...(await sql`pragma synchronous`.execute(transaction)).rows);
        return work(transaction);
      }, options),
  };
  const runs = createRunStore(spied);
  await runs.insert({ id: 'r', agentId: 'agent', principal: 'open', request: {} });
  await runs.append('r', { seq: 1, kind: 'intent', body: {} }, { durable: true });
  await runs.append('r', { seq: 2, kind: 'model', body: {} }, { durable: false });
  const [normal, full] = [{ synchronous: 1 }, { synchronous: 2 }];
  expect(seen).toEqual([normal, full, normal]);
  await dispose();
});
