import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import { type ModelPlatform, startModelPlatform } from '../support/model-platform.ts';
import { userPrincipal } from '../support/principals.ts';
import { ID } from '../support/rest.ts';

let platform: ModelPlatform;
beforeAll(async () => {
  platform = await startModelPlatform();
});
afterAll(() => platform.close());

describe('a task', () => {
  it('shows only what is known of it', async () => {
    const id = await platform.tasks.create({ type: 'AGENT_EXECUTION', state: 'CREATED' });
    expect(id).toMatch(ID);
    expect(await platform.rest.ok('GET', `/tasks/${id}`)).toEqual({
      task_type: 'AGENT_EXECUTION',
      state: 'CREATED',
      create_time: expect.any(Number),
      last_update_time: expect.any(Number),
      is_async: false,
    });
  });

  it('keeps what it knew when it is completed, and adds the rest', async () => {
    const id = await platform.tasks.create({
      type: 'AGENT_EXECUTION',
      state: 'RUNNING',
      functionName: 'AGENT',
      isAsync: true,
      response: { memory_id: 'm' },
    });
    await platform.tasks.complete(id, 'COMPLETED', { response: { memory_id: 'm', inference_results: [] } });
    expect(await platform.rest.ok('GET', `/tasks/${id}`)).toMatchObject({
      function_name: 'AGENT',
      state: 'COMPLETED',
      is_async: true,
      response: { memory_id: 'm', inference_results: [] },
    });
  });

  it('may fail without further facts, or with its error', async () => {
    const id = await platform.tasks.create({ type: 'DEPLOY_MODEL', state: 'RUNNING', modelId: 'm' });
    await platform.tasks.complete(id, 'FAILED');
    expect(await platform.tasks.get(OPEN_PRINCIPAL, id)).toMatchObject({ state: 'FAILED', model_id: 'm' });
    await platform.tasks.complete(id, 'FAILED', { error: 'why' });
    expect(await platform.tasks.get(OPEN_PRINCIPAL, id)).toMatchObject({ state: 'FAILED', error: 'why' });
  });

  it('is not deleted while it runs', async () => {
    const id = await platform.tasks.create({ type: 'AGENT_EXECUTION', state: 'RUNNING' });
    expect(await platform.rest.send('DELETE', `/tasks/${id}`)).toMatchObject({
      status: 500,
      body: {
        error: { type: 'exception', reason: 'Task cannot be deleted in running state. Try after some time.' },
        status: 500,
      },
    });
    await platform.tasks.complete(id, 'COMPLETED');
    expect(await platform.rest.ok('DELETE', `/tasks/${id}`)).toMatchObject({
      _index: '.plugins-ml-task',
      _id: id,
      result: 'deleted',
    });
    expect(await platform.rest.send('GET', `/tasks/${id}`)).toMatchObject({ status: 404 });
    const rows = platform.lines.filter((line) => line.includes('audit: task.delete ok') && line.includes(id));
    expect(rows).toHaveLength(1);
  });

  it('of another is answered as if it did not exist', async () => {
    const ann = userPrincipal('ann');
    const bob = userPrincipal('bob');
    const id = await platform.tasks.create({ type: 'AGENT_EXECUTION', state: 'COMPLETED', owner: 'user:ann' });
    const unowned = await platform.tasks.create({ type: 'AGENT_EXECUTION', state: 'COMPLETED' });
    const hidden = { statusCode: 404, message: 'Failed to find task' };
    await expect(platform.tasks.get(bob, id)).rejects.toMatchObject(hidden);
    await expect(platform.tasks.delete(bob, id)).rejects.toMatchObject(hidden);
    await expect(platform.tasks.get(ann, unowned)).rejects.toMatchObject(hidden);
    expect(await platform.tasks.get(ann, id)).toEqual(await platform.tasks.get(OPEN_PRINCIPAL, id));
    expect(await platform.tasks.get({ ...ann, id: 'key:1', kind: 'api_key', owner: 'user:ann' }, id)).toMatchObject({
      state: 'COMPLETED',
    });
    expect(await platform.tasks.delete(ann, id)).toMatchObject({ result: 'deleted' });
  });

  it('that is unknown is a 404', async () => {
    const unknown = { status: 404, body: { error: { type: 'status_exception', reason: 'Failed to find task' } } };
    expect(await platform.rest.send('GET', '/tasks/nope')).toMatchObject(unknown);
    expect(await platform.rest.send('DELETE', '/tasks/nope')).toMatchObject(unknown);
    await expect(platform.tasks.complete('nope', 'FAILED')).rejects.toThrow('Failed to find task');
  });
});
