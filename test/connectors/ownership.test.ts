import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import type { JsonObject } from '../../src/json.ts';
import { userPrincipal } from '../support/principals.ts';
import { httpBody, mcpBody, type Rig, startRig } from './rig.ts';

const CONTROL = 'plugins.ml_commons.connector_access_control_enabled';
const ann = userPrincipal('ann', { backendRoles: ['it'], roles: ['ml_full_access'] });
const bob = userPrincipal('bob', { backendRoles: ['it'] });
const eve = userPrincipal('eve');
const root = userPrincipal('root', { access: { admin: true } });

let rig: Rig;
beforeAll(async () => {
  rig = await startRig();
  await control(true);
});
afterAll(() => rig.close());

const control = (on: boolean) => rig.settings.update({ persistent: { [CONTROL]: on } });
const made = async (members: JsonObject = {}): Promise<string> =>
  (await rig.connectors.create(ann, mcpBody(members))).connector_id;
const forbidden = (message: string) => ({ statusCode: 403, exception: 'OpenSearchStatusException', message });
const invisible = forbidden("You don't have permission to access this connector");

describe('a connector under access control', () => {
  it('shows its owner and mode, and never how the owner is known inside', async () => {
    const id = await made();
    expect(await rig.connectors.get(ann, id)).toEqual({
      name: 'weather',
      version: '1',
      protocol: 'mcp_streamable_http',
      url: 'https://mcp.example.com',
      owner: { name: 'ann', backend_roles: ['it'], roles: ['ml_full_access'], custom_attribute_names: [] },
      access: 'private',
      created_time: expect.any(Number),
      last_updated_time: expect.any(Number),
    });
  });

  it('is refused to others when it is private', async () => {
    const id = await made();
    for (const other of [bob, eve]) {
      await expect(rig.connectors.get(other, id)).rejects.toMatchObject(invisible);
      await expect(rig.connectors.update(other, id, { name: 'x' })).rejects.toMatchObject(
        forbidden(`You don't have permission to update the connector, connector id: ${id}`),
      );
      await expect(rig.connectors.delete(other, id)).rejects.toMatchObject(
        forbidden(`You don't have permission to delete the connector, connector id: ${id}`),
      );
    }
    expect(await rig.connectors.get(root, id)).toMatchObject({ name: 'weather' });
    expect(await rig.connectors.update(root, id, { name: 'renamed' })).toMatchObject({ result: 'updated' });
    expect(await rig.connectors.get(ann, id)).toMatchObject({ name: 'renamed', owner: { name: 'ann' } });
    expect(await rig.connectors.delete(ann, id)).toMatchObject({ result: 'deleted' });
  });

  it('is seen and not changed by those it is shared with', async () => {
    const id = await made({ backend_roles: ['it'] });
    expect(await rig.connectors.get(bob, id)).toMatchObject({ access: 'restricted', backend_roles: ['it'] });
    await expect(rig.connectors.get(eve, id)).rejects.toMatchObject(invisible);
    await expect(rig.connectors.update(bob, id, { name: 'x' })).rejects.toMatchObject({ statusCode: 403 });
    await rig.connectors.update(ann, id, { access_mode: 'public' });
    const shown = await rig.connectors.get(eve, id);
    expect(shown).toMatchObject({ access: 'public' });
    expect(shown).not.toHaveProperty('backend_roles');
    await rig.connectors.update(ann, id, { access_mode: 'private' });
    await expect(rig.connectors.get(bob, id)).rejects.toMatchObject(invisible);
  });

  it('is checked before anything is stored, and in a dry run', async () => {
    const message = "You don't have the backend roles specified.";
    for (const more of [{}, { dry_run: true }]) {
      await expect(
        rig.connectors.create(ann, mcpBody({ connector_id: 'never', backend_roles: ['hr'], ...more })),
      ).rejects.toMatchObject({ statusCode: 400, message });
    }
    expect(await rig.documents.get('connector', 'never')).toBeUndefined();
    const id = await made();
    await expect(rig.connectors.update(ann, id, { name: 'x', backend_roles: ['hr'] })).rejects.toMatchObject({
      message,
    });
    expect(await rig.connectors.get(ann, id)).toMatchObject({ name: 'weather', access: 'private' });
  });

  it('cannot be claimed by what a body says of its owner', async () => {
    const id = await made({ owner: { name: 'bob' }, owner_id: 'user:bob', access: 'public' });
    await rig.connectors.update(ann, id, { owner_id: 'user:bob', access: 'public' });
    await expect(rig.connectors.get(bob, id)).rejects.toMatchObject(invisible);
    expect(await rig.connectors.get(ann, id)).toMatchObject({ owner: { name: 'ann' }, access: 'private' });
  });

  it('that nobody knows is a 404 on delete', async () => {
    for (const principal of [ann, root]) {
      await expect(rig.connectors.delete(principal, 'unknown')).rejects.toMatchObject({
        statusCode: 404,
        message: 'Failed to find connector with the provided connector id: unknown',
      });
    }
  });

  it('inside a model has no access of its own', async () => {
    await expect(
      rig.connectors.prepareInline('model/m', httpBody({}, { access_mode: 'public' })),
    ).rejects.toMatchObject({
      statusCode: 400,
      message: expect.stringContaining('Give them to the model group.'),
    });
  });
});

describe('when access control is switched', () => {
  it('on, what was there before is seen by all and changed by administrators', async () => {
    await control(false);
    const id = await made();
    expect(await rig.connectors.get(eve, id)).not.toHaveProperty('owner');
    await control(true);
    expect(await rig.connectors.get(eve, id)).not.toHaveProperty('access');
    await expect(rig.connectors.update(ann, id, { name: 'x' })).rejects.toMatchObject({ statusCode: 403 });
    await expect(rig.connectors.delete(ann, id)).rejects.toMatchObject({ statusCode: 403 });
    await rig.connectors.update(root, id, { access_mode: 'private' });
    await expect(rig.connectors.get(ann, id)).rejects.toMatchObject(invisible);
  });

  it('off, everything is open and shows no owner; on again, it is as it was', async () => {
    const id = await made();
    await control(false);
    const shown = await rig.connectors.get(eve, id);
    expect(shown).not.toHaveProperty('owner');
    expect(shown).not.toHaveProperty('access');
    expect(await rig.connectors.update(eve, id, { name: 'by eve' })).toMatchObject({ result: 'updated' });
    expect(await rig.connectors.delete(OPEN_PRINCIPAL, 'unknown')).toMatchObject({ result: 'not_found' });
    await control(true);
    await expect(rig.connectors.get(eve, id)).rejects.toMatchObject(invisible);
    expect(await rig.connectors.get(ann, id)).toMatchObject({ name: 'by eve', owner: { name: 'ann' } });
  });
});
