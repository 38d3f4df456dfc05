import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startApp, type TestApp } from '../support/build-app.ts';

let app: TestApp;
beforeAll(async () => {
  app = await startApp();
});
afterAll(() => app.close());

describe('the root', () => {
  it('says what the official clients read', async () => {
    const { status, headers, body } = await app.request('GET', '/');
    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('application/json; charset=UTF-8');
    expect(body).toEqual({
      name: 'tenon',
      cluster_name: 'tenon',
      cluster_uuid: expect.stringMatching(/^[\w-]{22}$/),
      version: {
        distribution: 'opensearch',
        number: '3.5.0',
        build_type: 'tar',
        build_hash: expect.stringMatching(/^tenon-\d/),
        build_date: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
        build_snapshot: false,
        lucene_version: '10.3.1',
        minimum_wire_compatibility_version: '2.19.0',
        minimum_index_compatibility_version: '2.0.0',
      },
      tagline: 'The OpenSearch Project: https://opensearch.org/',
    });
  });
  it('answers the ping of the clients', async () => {
    const { status, text } = await app.request('HEAD', '/');
    expect([status, text]).toEqual([200, '']);
  });
});

it('reports the health of a cluster of one', async () => {
  const { body } = await app.request('GET', '/_cluster/health?wait_for_status=yellow&timeout=1s');
  expect(body).toEqual({ cluster_name: 'tenon', status: 'green', timed_out: false, number_of_nodes: 1 });
});

it('answers probes, and is not ready without its database', async () => {
  expect((await app.request('GET', '/healthz')).body).toEqual({ status: 'ok' });
  expect((await app.request('GET', '/readyz')).body).toEqual({ status: 'ready' });
  const broken = await startApp();
  await broken.services.database.close();
  const { status, body } = await broken.request('GET', '/readyz');
  expect([status, body]).toEqual([
    503,
    { status: 'unavailable', reason: 'The database takes no write; the log of the server says why' },
  ]);
  expect((await broken.request('GET', '/healthz')).status).toBe(200);
  await broken.close();
});

it('serves its own description', async () => {
  const { status, headers, text } = await app.request('GET', '/openapi.yaml');
  expect(status).toBe(200);
  expect(headers.get('content-type')).toBe('application/yaml; charset=UTF-8');
  expect(text).toMatch(/^openapi: 3\.1\.0/);
});

it('serves agents below both prefixes', async () => {
  for (const prefix of ['/_plugins/_ml', '/_plugins/_agent']) {
    const { status, body } = await app.request('GET', `${prefix}/agents/nope`);
    expect(status).toBe(404);
    expect(body).toMatchObject({ status: 404, error: { type: 'status_exception' } });
  }
});

it('logs a request at debug level only, without its query', async () => {
  await app.request('GET', '/healthz?filter_path=CANARY-in-query');
  const line = app.lines.find((text) => text.includes('"path":"/healthz"')) ?? '{}';
  expect(JSON.parse(line)).toMatchObject({ level: 'debug', method: 'GET', status: 200 });
  expect(app.lines.join('')).not.toContain('CANARY-in-query');
});
