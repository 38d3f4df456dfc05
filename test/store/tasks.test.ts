import { expect, it } from 'vitest';
import { UniqueViolation } from '../../src/store/database.ts';
import { createTaskStore } from '../../src/store/tasks.ts';
import { onEachEngine } from '../support/databases.ts';

onEachEngine('tasks', (database) => {
  it('are stored, changed and read back', async () => {
    let time = 100;
    const tasks = createTaskStore(database(), { now: () => time });
    const created = await tasks.insert({
      id: 't',
      taskType: 'REGISTER_MODEL',
      state: 'CREATED',
      body: { owner: '🦉' },
    });
    expect(created).toMatchObject({ id: 't', createTime: 100, lastUpdateTime: 100 });
    expect(await tasks.get('t')).toEqual(created);
    time = 200;
    const updated = await tasks.update('t', ({ body }) => ({ state: 'COMPLETED', body: { ...body, model_id: 'm' } }));
    expect(updated).toEqual({
      id: 't',
      taskType: 'REGISTER_MODEL',
      state: 'COMPLETED',
      body: { owner: '🦉', model_id: 'm' },
      createTime: 100,
      lastUpdateTime: 200,
    });
    expect(await tasks.get('t')).toEqual(updated);
  });

  it('keep what a change does not name, and all changes that meet', async () => {
    const tasks = createTaskStore(database());
    await tasks.insert({ id: 't', taskType: 'X', state: 'RUNNING', body: { count: 0 } });
    await Promise.all(
      Array.from({ length: 10 }, () => tasks.update('t', ({ body }) => ({ body: { count: Number(body.count) + 1 } }))),
    );
    expect(await tasks.get('t')).toMatchObject({ state: 'RUNNING', body: { count: 10 } });
  });

  it('answer for ids that are unknown or taken', async () => {
    const tasks = createTaskStore(database());
    expect(await tasks.get('none')).toBeUndefined();
    expect(await tasks.update('none', () => ({ state: 'FAILED' }))).toBeUndefined();
    expect(await tasks.delete('none')).toMatchObject({ result: 'not_found', version: 1 });
    await tasks.insert({ id: 't', taskType: 'X', state: 'CREATED', body: {} });
    const again = tasks.insert({ id: 't', taskType: 'X', state: 'CREATED', body: {} });
    await expect(again).rejects.toBeInstanceOf(UniqueViolation);
    expect(await tasks.delete('t')).toMatchObject({ id: 't', result: 'deleted', version: 2 });
    expect(await tasks.get('t')).toBeUndefined();
  });
});
