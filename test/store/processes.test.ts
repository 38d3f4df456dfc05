import { expect, it } from 'vitest';
import { createMemoryStore } from '../../src/store/memory.ts';
import { createProcessStore } from '../../src/store/processes.ts';
import { createRunStore } from '../../src/store/runs.ts';
import { onEachEngine } from '../support/databases.ts';

const RESPONSE = 'it stopped';

onEachEngine('processes', (database) => {
  /** A run of each process, with a message that has no answer yet and one that has. */
  async function runsOf(...processIds: (string | undefined)[]) {
    const memory = createMemoryStore(database());
    await memory.create({ id: 'm', name: 'talk' });
    for (const processId of processIds) {
      const runs = createRunStore(database(), processId === undefined ? {} : { processId });
      for (const [id, response] of [
        [`open-${processId}`, ''],
        [`answered-${processId}`, 'yes'],
      ] as const) {
        await memory.append({ id, memoryId: 'm', input: 'q', response });
        await runs.insert({ id, agentId: 'a', memoryId: 'm', messageId: id, principal: 'open', request: {} });
      }
    }
    const runs = createRunStore(database());
    return async (processId: string | undefined) => {
      const shown: unknown[] = [];
      for (const id of [`open-${processId}`, `answered-${processId}`]) {
        shown.push((await runs.get(id))?.state, (await memory.message(id))?.response);
      }
      return shown;
    };
  }
  const silent = (id: string, ms: number) =>
    database()
      .kysely.updateTable('processes')
      .set((row) => ({ seen_time: row('seen_time', '-', ms) }))
      .where('id', '=', id)
      .execute();

  it('that are dead leave runs that are interrupted and messages that say so; others are left alone', async () => {
    const processes = createProcessStore(database());
    for (const id of ['own', 'living', 'silent']) await processes.beat(id);
    const state = await runsOf('own', 'living', 'silent', 'forgotten', undefined);
    await silent('silent', 61_000);
    await silent('living', 50_000);
    await createRunStore(database()).setState('answered-forgotten', 'completed');
    expect(await processes.interruptRuns('own', { alone: false, response: RESPONSE })).toBe(5);
    expect(await state('own')).toEqual(['running', '', 'running', 'yes']);
    expect(await state('living')).toEqual(['running', '', 'running', 'yes']);
    expect(await state('silent')).toEqual(['interrupted', RESPONSE, 'interrupted', 'yes']);
    expect(await state('forgotten')).toEqual(['interrupted', RESPONSE, 'completed', 'yes']);
    expect(await state(undefined)).toEqual(['interrupted', RESPONSE, 'interrupted', 'yes']);
    expect(await processes.interruptRuns('own', { alone: false, response: RESPONSE })).toBe(0);
  });

  it('that are alone take all others for dead, also those just seen', async () => {
    const processes = createProcessStore(database());
    for (const id of ['own', 'other']) await processes.beat(id);
    const state = await runsOf('own', 'other');
    expect(await processes.interruptRuns('own', { alone: true, response: RESPONSE })).toBe(2);
    expect(await state('own')).toEqual(['running', '', 'running', 'yes']);
    expect(await state('other')).toEqual(['interrupted', RESPONSE, 'interrupted', 'yes']);
  });

  it('that are forgotten are dead at once', async () => {
    const processes = createProcessStore(database());
    for (const id of ['own', 'other']) await processes.beat(id);
    const state = await runsOf('other');
    await processes.forget('other');
    await processes.interruptRuns('own', { alone: false, response: RESPONSE });
    expect(await state('other')).toEqual(['interrupted', RESPONSE, 'interrupted', 'yes']);
  });
});
