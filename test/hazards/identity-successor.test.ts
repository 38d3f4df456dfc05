import { afterAll, beforeAll, expect, it } from 'vitest';
import { startApp, type TestAnswer, type TestApp } from '../support/build-app.ts';
import { basic, countingHasher } from '../support/identity.ts';

const STATIC_KEY = 'the-static-key-of-the-operator';
const PASSWORD = 'correct horse';
const ML = '/_plugins/_ml';
const ANN = '/_plugins/_security/api/internalusers/ann';
const ann = basic('ann', PASSWORD);
const operator = `Bearer ${STATIC_KEY}`;

let app: TestApp;
beforeAll(async () => {
  app = await startApp({ config: { apiKey: STATIC_KEY }, hasher: countingHasher() });
});
afterAll(() => app.close());

function send(authorization: string, method: string, path: string, body?: unknown): Promise<TestAnswer> {
  return app.request(method, path, body, { authorization });
}

it('a user of the name of one who was deleted finds nothing of that one', async () => {
  const settings = { persistent: { 'plugins.ml_commons.connector_access_control_enabled': true } };
  expect((await send(operator, 'PUT', '/_cluster/settings', settings)).status).toBe(200);
  const user = { password: PASSWORD, opendistro_security_roles: ['ml_full_access'] };
  expect((await send(operator, 'PUT', ANN, user)).status).toBe(201);
  const connector = { name: 'c', version: 1, protocol: 'mcp_streamable_http', url: 'https://example.com' };
  const { connector_id } = (await send(ann, 'POST', `${ML}/connectors/_create`, connector)).body;
  const { memory_id } = (await send(ann, 'POST', `${ML}/memory/`, { name: 'm' })).body;
  await send(ann, 'POST', `${ML}/api_keys`, { name: 'k' });
  const records = [`${ML}/connectors/${connector_id}`, `${ML}/memory/${memory_id}`];
  for (const path of records) expect((await send(ann, 'GET', path)).status, path).toBe(200);

  expect((await send(operator, 'DELETE', ANN)).status).toBe(200);
  expect((await send(operator, 'PUT', ANN, user)).status).toBe(201);
  for (const path of records) {
    expect((await send(ann, 'GET', path)).status, path).toBeGreaterThan(399);
    expect((await send(operator, 'GET', path)).status, path).toBe(200);
  }
  expect((await send(ann, 'GET', `${ML}/api_keys`)).body).toEqual({ api_keys: [] });
});
