import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Principal } from '../../src/identity/principal.ts';
import type { JsonObject } from '../../src/json.ts';
import { type ModelPlatform, startModelPlatform } from '../support/model-platform.ts';
import { userPrincipal } from '../support/principals.ts';
import { chatConnector } from '../support/rest.ts';

const ann = userPrincipal('ann', { backendRoles: ['it'] });
const bob = userPrincipal('bob', { backendRoles: ['it'] });
const eve = userPrincipal('eve');
const root = userPrincipal('root', { access: { admin: true } });

let platform: ModelPlatform;
beforeAll(async () => {
  platform = await startModelPlatform();
  await control(true);
});
afterAll(() => platform.close());

const control = (on: boolean) => platform.set('model_access_control_enabled', on ? 'true' : null);
const group = async (name: string, more: JsonObject = {}): Promise<string> =>
  (await platform.groups.register(ann, { name, ...more })).model_group_id;
const model = async (principal: Principal, name: string, more: JsonObject = {}): Promise<string> => {
  const connector = chatConnector('https://model.example.com');
  return (await platform.models.register(principal, { name, function_name: 'remote', connector, ...more })).model_id;
};
const forbidden = (message: string) => ({ statusCode: 403, exception: 'OpenSearchStatusException', message });
const FORBIDDEN_MODEL = forbidden("User doesn't have privilege to perform this operation on this model");
const FORBIDDEN_GROUP = forbidden("User doesn't have privilege to perform this operation on this model group");

describe('a model group under access control', () => {
  it('is private and shows its owner', async () => {
    const id = await group('private group');
    expect(await platform.groups.get(ann, id)).toEqual({
      name: 'private group',
      latest_version: 0,
      owner: { name: 'ann', backend_roles: ['it'], roles: [], custom_attribute_names: [] },
      access: 'private',
      created_time: expect.any(Number),
      last_updated_time: expect.any(Number),
    });
    await expect(platform.groups.get(bob, id)).rejects.toMatchObject(FORBIDDEN_GROUP);
    await expect(platform.groups.update(bob, id, { name: 'x' })).rejects.toMatchObject(
      forbidden("You don't have permissions to perform this operation on this model group."),
    );
    await expect(platform.groups.delete(bob, id)).rejects.toMatchObject(
      forbidden("User doesn't have privilege to delete this model group"),
    );
    expect(await platform.groups.get(root, id)).toMatchObject({ access: 'private' });
    expect(await platform.groups.delete(ann, id)).toMatchObject({ result: 'deleted' });
    await expect(platform.groups.delete(ann, id)).rejects.toMatchObject({
      statusCode: 404,
      message: `Failed to find model group with the provided model group id: ${id}`,
    });
  });

  it('is changed by its owner, and shared as the update says', async () => {
    const id = await group('to be shared', { add_all_backend_roles: true });
    expect(await platform.groups.get(bob, id)).toMatchObject({ access: 'restricted', backend_roles: ['it'] });
    await expect(platform.groups.get(eve, id)).rejects.toMatchObject(FORBIDDEN_GROUP);
    await expect(platform.groups.update(bob, id, { description: 'x' })).rejects.toMatchObject({ statusCode: 403 });
    await platform.groups.update(ann, id, { access_mode: 'public', description: 'for all' });
    const shown = await platform.groups.get(eve, id);
    expect(shown).toMatchObject({ access: 'public', description: 'for all' });
    expect(shown).not.toHaveProperty('backend_roles');
    await expect(platform.groups.update(ann, id, { access_mode: 'restricted' })).rejects.toMatchObject({
      statusCode: 400,
      message:
        'You must specify one or more backend roles or add all backend roles to register a restricted model group.',
    });
  });

  it('has a name that another may not take, whose id only those who see it are told', async () => {
    const id = await group('one name');
    const taken = 'The name you provided is already being used by';
    await expect(platform.groups.register(ann, { name: 'one name' })).rejects.toMatchObject({
      statusCode: 400,
      message: `${taken} a model group with ID: ${id}.`,
    });
    await expect(platform.groups.register(bob, { name: 'one name' })).rejects.toMatchObject({
      statusCode: 400,
      message: `${taken} another model group. Please provide a different name.`,
    });
  });
});

describe('a model under access control', () => {
  it('is shared as its group is', async () => {
    const groupId = await group('team', { backend_roles: ['it'] });
    const id = await model(ann, 'team model', { model_group_id: groupId });
    expect(await platform.models.get(bob, id)).toMatchObject({ name: 'team model' });
    await expect(platform.models.requireVisible(bob, id)).resolves.toBeUndefined();
    const attempts = [
      platform.models.get(eve, id),
      platform.models.update(eve, id, { name: 'x' }),
      platform.models.delete(eve, id),
      platform.models.deploy(eve, id),
      platform.models.undeploy(eve, [id, 'unknown']),
      platform.models.predict(eve, id, { parameters: {} }),
      platform.models.requireVisible(eve, id),
    ];
    for (const attempt of attempts) await expect(attempt).rejects.toMatchObject(FORBIDDEN_MODEL);
    const second = await model(bob, 'by bob', { model_group_id: groupId });
    expect(await platform.models.get(ann, second)).toMatchObject({ model_version: '2' });
    await platform.models.update(bob, id, { description: 'by bob' });
    await platform.models.deploy(bob, id);
    expect(await platform.models.undeploy(bob, [id])).toEqual({ tenon: { stats: { [id]: 'undeployed' } } });
    expect(await platform.models.delete(bob, id)).toMatchObject({ result: 'deleted' });
  });

  it('goes into no group that is not shared with the caller', async () => {
    const groupId = await group('closed');
    await expect(model(bob, 'm', { model_group_id: groupId })).rejects.toMatchObject(
      forbidden("You don't have permissions to perform this operation on this model."),
    );
    const own = await model(bob, 'own of bob');
    await expect(platform.models.update(bob, own, { model_group_id: groupId })).rejects.toMatchObject(FORBIDDEN_MODEL);
    expect(await platform.groups.get(ann, groupId)).toMatchObject({ latest_version: 0 });
  });

  it('without a group gets one of the caller, shared as the registration says', async () => {
    const id = await model(ann, 'alone');
    const { model_group_id: hers } = await platform.models.get(ann, id);
    expect(await platform.groups.get(ann, String(hers))).toMatchObject({ name: 'alone', access: 'private' });
    const { model_group_id: his } = await platform.models.get(
      bob,
      await model(bob, 'alone', { access_mode: 'public' }),
    );
    expect(await platform.groups.get(eve, String(his))).toMatchObject({ name: 'alone (bob)', access: 'public' });
    const { model_group_id: again } = await platform.models.get(bob, await model(bob, 'alone'));
    expect(again).toBe(his);
    await expect(model(bob, 'alone', { access_mode: 'private' })).rejects.toMatchObject({
      statusCode: 400,
      message: `The model is shared as its model group ${his} is: give access_mode, backend_roles and add_all_backend_roles to the model group.`,
    });
    await expect(model(ann, 'm', { model_group_id: String(hers), access_mode: 'public' })).rejects.toMatchObject({
      statusCode: 400,
    });
  });

  it('names no connector that the caller may not use', async () => {
    await platform.set('connector_access_control_enabled', 'true');
    const { connector_id: id } = await platform.connectors.create(ann, chatConnector('https://model.example.com'));
    const denied = forbidden(`You don't have permission to use the connector provided, connector id: ${id}`);
    const registration = { name: 'borrowed', function_name: 'remote', connector_id: id };
    await expect(platform.models.register(bob, registration)).rejects.toMatchObject(denied);
    const own = await model(bob, 'to be moved');
    await expect(platform.models.update(bob, own, { connector_id: id })).rejects.toMatchObject(denied);
    expect(await platform.models.register(ann, registration)).toMatchObject({ status: 'CREATED' });
    await platform.set('connector_access_control_enabled', null);
  });

  it('is of no use once its connector is closed to who registered it, which its owner can do', async () => {
    await platform.set('connector_access_control_enabled', 'true');
    const shared = { ...chatConnector('https://model.example.com'), access_mode: 'public' };
    const { connector_id: id } = await platform.connectors.create(bob, shared);
    const registration = { name: 'on the connector of bob', function_name: 'remote', connector_id: id };
    const { model_id: hers } = await platform.models.register(ann, registration, { deploy: true });
    const his = await platform.models.register(
      bob,
      { ...registration, name: 'his', access_mode: 'public' },
      { deploy: true },
    );
    const uses = (principal: Principal, modelId: string) => [
      platform.models.deploy(principal, modelId),
      platform.models.requireVisible(principal, modelId),
    ];
    await Promise.all(uses(ann, hers));
    expect(await platform.models.get(ann, hers)).not.toHaveProperty('registrant');
    await expect(platform.connectors.update(bob, id, { version: '2' })).rejects.toMatchObject({
      statusCode: 400,
      message: `2 models are still using this connector, please undeploy the models first: [${his.model_id}]`,
    });
    await expect(platform.connectors.delete(bob, id)).rejects.toMatchObject({
      statusCode: 409,
      message: `2 models are still using this connector, please delete or update the models first: [${his.model_id}]`,
    });
    await platform.connectors.update(bob, id, { access_mode: 'private' });
    const closed = forbidden("You don't have permission to access this connector");
    const attempts = [
      ...uses(ann, hers),
      platform.models.predict(ann, hers, { parameters: { prompt: 'x' } }),
      ...uses(root, hers),
    ];
    for (const attempt of attempts) await expect(attempt).rejects.toMatchObject(closed);
    await Promise.all(uses(eve, his.model_id));
    await platform.documents.update('model', his.model_id, ({ body: { registrant: _registrant, ...body } }) => ({
      body,
    }));
    for (const attempt of uses(eve, his.model_id)) await expect(attempt).rejects.toMatchObject(closed);
    await Promise.all(uses(bob, his.model_id));
    await platform.connectors.update(bob, id, { access_mode: 'restricted', backend_roles: ['it'] });
    await Promise.all(uses(ann, hers));
    await platform.set('connector_access_control_enabled', null);
    await Promise.all(uses(eve, his.model_id));
  });

  it('leaves a task that its creator sees', async () => {
    const connector = chatConnector('https://model.example.com');
    const { task_id: id } = await platform.models.register(ann, { name: 'task', function_name: 'remote', connector });
    expect(await platform.tasks.get(ann, id)).toMatchObject({ task_type: 'REGISTER_MODEL', state: 'COMPLETED' });
    await expect(platform.tasks.get(bob, id)).rejects.toMatchObject({ statusCode: 404 });
  });
});

describe('when access control is switched', () => {
  it('on, what was there before is used by all and changed by administrators', async () => {
    await control(false);
    const id = await model(ann, 'old');
    await expect(platform.groups.register(ann, { name: 'x', access_mode: 'public' })).rejects.toMatchObject({
      statusCode: 400,
      message:
        'You cannot specify model access control parameters because the Security plugin or model access control is disabled on your cluster.',
    });
    await expect(model(ann, 'x', { access_mode: 'public' })).rejects.toMatchObject({ statusCode: 400 });
    await control(true);
    const { model_group_id: groupId } = await platform.models.get(eve, id);
    const shown = await platform.groups.get(eve, String(groupId));
    expect(shown).toMatchObject({ access: 'public' });
    expect(shown).not.toHaveProperty('owner');
    for (const attempt of [
      platform.models.update(ann, id, { name: 'x' }),
      platform.models.delete(ann, id),
      platform.models.undeploy(ann, [id]),
    ])
      await expect(attempt).rejects.toMatchObject(FORBIDDEN_MODEL);
    expect(await platform.models.update(root, id, { name: 'y' })).toMatchObject({ result: 'updated' });
  });

  it('off, groups are public and show no owner', async () => {
    const id = await group('closed while on');
    await control(false);
    const shown = await platform.groups.get(eve, id);
    expect(shown).toMatchObject({ access: 'public' });
    expect(shown).not.toHaveProperty('owner');
    expect(shown).not.toHaveProperty('owner_id');
    await control(true);
  });
});
