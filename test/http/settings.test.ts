import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { settingsRoutes } from '../../src/http/routes/settings.ts';
import { type Rig, startRig } from '../connectors/rig.ts';
import { type Edge, startEdge } from '../support/edge.ts';
import { createRest, type Rest } from '../support/rest.ts';

let rig: Rig;
let edge: Edge;
let rest: Rest;
beforeAll(async () => {
  rig = await startRig();
  edge = await startEdge(async (app) => {
    await app.register(settingsRoutes, { settings: rig.settings });
  });
  rest = createRest(edge.url);
});
afterAll(async () => {
  await edge.close();
  await rig.close();
});

const PATH = '/_cluster/settings';

describe('the settings routes', () => {
  it('set, show and reset', async () => {
    const list = { trusted_connector_endpoints_regex: ['^https://a/.*$'] };
    expect(await rest.ok('PUT', PATH, { persistent: { plugins: { ml_commons: list } } })).toEqual({
      acknowledged: true,
      persistent: { plugins: { ml_commons: list } },
      transient: {},
    });
    expect(await rest.ok('PUT', `${PATH}?flat_settings=true`, { transient: { 'plugins.ml_commons.x': 1 } })).toEqual({
      acknowledged: true,
      persistent: {},
      transient: { 'plugins.ml_commons.x': '1' },
    });
    expect(await rest.ok('GET', PATH)).toEqual({
      persistent: { plugins: { ml_commons: list } },
      transient: { plugins: { ml_commons: { x: '1' } } },
    });
    expect(await rest.ok('GET', `${PATH}?include_defaults&flat_settings=true`)).toMatchObject({
      persistent: { 'plugins.ml_commons.trusted_connector_endpoints_regex': ['^https://a/.*$'] },
      defaults: { 'plugins.ml_commons.mcp_connector_enabled': 'true' },
    });
    await rest.ok('PUT', PATH, {
      persistent: { 'plugins.ml_commons.*': null },
      transient: { 'plugins.ml_commons.*': null },
    });
    expect(await rest.ok('GET', PATH)).toEqual({ persistent: {}, transient: {} });
  });

  it.each([
    [
      { persistent: { 'cluster.name': 'x' } },
      'illegal_argument_exception',
      'persistent setting [cluster.name], not recognized',
    ],
    [{}, 'action_request_validation_exception', 'Validation Failed: 1: no settings to update;'],
    [undefined, 'parse_exception', 'request body is required'],
  ])('refuse %j', async (body, type, reason) => {
    expect(await rest.send('PUT', PATH, body)).toMatchObject({
      status: 400,
      body: { status: 400, error: { type, reason } },
    });
  });
});
