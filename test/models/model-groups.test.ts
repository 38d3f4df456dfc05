import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { type ModelPlatform, startModelPlatform } from '../support/model-platform.ts';
import { chatConnector, ID } from '../support/rest.ts';

let platform: ModelPlatform;
beforeAll(async () => {
  platform = await startModelPlatform();
});
afterAll(() => platform.close());

const rest = () => platform.rest;

async function register(body: JsonObject): Promise<string> {
  return String((await rest().ok('POST', '/model_groups/_register', body)).model_group_id);
}

async function refused(method: string, path: string, body?: JsonObject) {
  const answer = await rest().send(method, path, body);
  const { type, reason } = answer.body.error as JsonObject;
  return { status: answer.status, type, reason };
}

describe('a model group', () => {
  it('is registered and shown without its id', async () => {
    const answer = await rest().ok('POST', '/model_groups/_register', { name: 'one', description: 'the first' });
    expect(answer).toEqual({ model_group_id: expect.stringMatching(ID), status: 'CREATED' });
    expect(await rest().ok('GET', `/model_groups/${answer.model_group_id}`)).toEqual({
      name: 'one',
      latest_version: 0,
      description: 'the first',
      access: 'public',
      created_time: expect.any(Number),
      last_updated_time: expect.any(Number),
    });
  });

  it('takes the id it is given, once', async () => {
    expect(await register({ name: 'with id', model_group_id: 'chosen' })).toBe('chosen');
    expect(await rest().ok('GET', '/model_groups/chosen')).not.toHaveProperty('description');
    expect(await refused('POST', '/model_groups/_register', { name: 'other', model_group_id: 'chosen' })).toEqual({
      status: 409,
      type: 'status_exception',
      reason: "model group id 'chosen' already exists",
    });
  });

  it('has a name of its own, also when two are registered at once', async () => {
    const id = await register({ name: 'taken' });
    expect(await refused('POST', '/model_groups/_register', { name: 'taken' })).toEqual({
      status: 400,
      type: 'illegal_argument_exception',
      reason: `The name you provided is already being used by a model group with ID: ${id}.`,
    });
    const answers = await Promise.all(
      [1, 2, 3].map(() => rest().send('POST', '/model_groups/_register', { name: 'race' })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 400, 400]);
  });

  it('is updated member by member, and keeps its own name', async () => {
    const id = await register({ name: 'before', description: 'd' });
    expect(await rest().ok('PUT', `/model_groups/${id}`, { name: 'after' })).toEqual({ status: 'Updated' });
    expect(await rest().ok('PUT', `/model_groups/${id}`, { name: 'after', description: 'e' })).toEqual({
      status: 'Updated',
    });
    expect(await rest().ok('GET', `/model_groups/${id}`)).toMatchObject({ name: 'after', description: 'e' });
    expect(await rest().ok('PUT', `/model_groups/${id}`, { description: 'f' })).toEqual({ status: 'Updated' });
    expect(await rest().ok('GET', `/model_groups/${id}`)).toMatchObject({ name: 'after', description: 'f' });
    expect(await register({ name: 'before' })).not.toBe(id);
  });

  it('does not take the name of another on update', async () => {
    const first = await register({ name: 'first' });
    const second = await register({ name: 'second' });
    expect(await refused('PUT', `/model_groups/${second}`, { name: 'first' })).toEqual({
      status: 400,
      type: 'illegal_argument_exception',
      reason: `The name you provided is already being used by another model with ID: ${first}.`,
    });
  });

  it.each<[JsonObject, string]>([
    [{}, 'model group name is null'],
    [{ name: '' }, 'model group name is null'],
    [{ name: ['x'] }, 'name must be a string'],
    [{ name: 'n', model_group_id: '-x' }, "model group id must not start with '-'"],
    [
      { name: 'n', backend_roles: ['a'] },
      'You cannot specify model access control parameters because the Security plugin or model access control is disabled on your cluster.',
    ],
  ])('is refused with a clear text: %j', async (body, reason) => {
    expect(await refused('POST', '/model_groups/_register', body)).toEqual({
      status: 400,
      type: 'illegal_argument_exception',
      reason,
    });
  });

  it('is refused on update with a blank name or access parameters', async () => {
    const id = await register({ name: 'steady' });
    expect(await refused('PUT', `/model_groups/${id}`, { name: ' ' })).toMatchObject({
      status: 400,
      reason: 'model group name is null',
    });
    expect(await refused('PUT', `/model_groups/${id}`, { access_mode: 'public' })).toMatchObject({ status: 400 });
  });

  it('answers an empty body as documented', async () => {
    const empty = { status: 500, type: 'i_o_exception', reason: 'Model group request has empty body' };
    expect(await refused('POST', '/model_groups/_register')).toEqual(empty);
    expect(await refused('PUT', '/model_groups/any')).toEqual(empty);
  });

  it('answers 404 when unknown, and not_found on delete', async () => {
    const unknown = {
      status: 404,
      type: 'status_exception',
      reason: 'Failed to find model group with the provided model group id: nope',
    };
    expect(await refused('GET', '/model_groups/nope')).toEqual(unknown);
    expect(await refused('PUT', '/model_groups/nope', { name: 'x' })).toEqual(unknown);
    expect(await rest().ok('DELETE', '/model_groups/nope')).toMatchObject({ result: 'not_found' });
  });

  it('is deleted when no model belongs to it', async () => {
    const id = await register({ name: 'emptied' });
    const { model_id } = await rest().ok('POST', '/models/_register', {
      name: 'member',
      function_name: 'remote',
      model_group_id: id,
      connector: chatConnector('http://127.0.0.1:9/v1/chat/completions'),
    });
    expect(await rest().ok('GET', `/model_groups/${id}`)).toMatchObject({ latest_version: 1 });
    expect(await refused('DELETE', `/model_groups/${id}`)).toEqual({
      status: 409,
      type: 'status_exception',
      reason: 'Cannot delete the model group when it has associated model versions',
    });
    await rest().ok('DELETE', `/models/${model_id}`);
    expect(await rest().ok('DELETE', `/model_groups/${id}`)).toMatchObject({
      _index: '.plugins-ml-model-group',
      _id: id,
      result: 'deleted',
    });
    expect(await rest().send('GET', `/model_groups/${id}`)).toMatchObject({ status: 404 });
  });
});
