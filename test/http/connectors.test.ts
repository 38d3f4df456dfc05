import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connectorRoutes } from '../../src/http/routes/connectors.ts';
import { mcpBody, type Rig, startRig } from '../connectors/rig.ts';
import { type Edge, startEdge } from '../support/edge.ts';
import { createRest, type Rest } from '../support/rest.ts';

let rig: Rig;
let edge: Edge;
let rest: Rest;
beforeAll(async () => {
  rig = await startRig();
  edge = await startEdge(async (app) => {
    await app.register(connectorRoutes, { prefix: '/_plugins/_ml', connectors: rig.connectors });
  });
  rest = createRest(edge.url);
});
afterAll(async () => {
  await edge.close();
  await rig.close();
});

describe('the connector routes', () => {
  it('create, show, update and delete', async () => {
    const secret = { credential: { k: 'CANARY-7f3' }, headers: { 'X-Key': '${credential.k}' } };
    const created = await rest.ok(
      'POST',
      '/connectors/_create',
      mcpBody({ ...secret, client_config: { elicitation: 'ask' } }),
    );
    expect(Object.keys(created)).toEqual(['connector_id']);
    const path = `/connectors/${created.connector_id}`;
    const shown = await rest.ok('GET', path);
    expect(shown).toEqual({
      name: 'weather',
      version: '1',
      protocol: 'mcp_streamable_http',
      url: 'https://mcp.example.com',
      headers: { 'X-Key': '${credential.k}' },
      client_config: {
        max_connection: 30,
        connection_timeout: 30,
        read_timeout: 30,
        retry_backoff_policy: 'exponential_full_jitter',
        max_retry_times: 3,
        retry_backoff_millis: 200,
        retry_timeout_seconds: 30,
        skip_ssl_verification: false,
        elicitation: 'ask',
      },
      created_time: expect.any(Number),
      last_updated_time: expect.any(Number),
    });
    const written = {
      _index: '.plugins-ml-connector',
      _id: created.connector_id,
      forced_refresh: true,
      _primary_term: 1,
    };
    expect(await rest.ok('PUT', path, { description: 'd' })).toMatchObject({
      ...written,
      _version: 2,
      result: 'updated',
    });
    expect(await rest.ok('DELETE', path)).toMatchObject({ ...written, _version: 3, result: 'deleted' });
    expect(await rest.ok('DELETE', path)).toMatchObject({ ...written, result: 'not_found' });
    expect((await rest.send('GET', path)).body).toMatchObject({
      status: 404,
      error: {
        type: 'status_exception',
        reason: `Failed to find connector with the provided connector id: ${created.connector_id}`,
      },
    });
  });

  it.each([
    ['POST', '/connectors/_create', 500, 'i_o_exception', 'Create Connector request has empty body'],
    ['PUT', '/connectors/x', 400, 'parse_exception', 'Failed to update connector: Request body is empty'],
  ])('answer %s %s without a body', async (method, path, status, type, reason) => {
    expect(await rest.send(method, path)).toMatchObject({ status, body: { status, error: { type, reason } } });
  });

  it('leave the texts of wrong bodies to the service', async () => {
    expect(await rest.send('POST', '/connectors/_create', { name: 5, version: null })).toMatchObject({
      status: 400,
      body: { error: { type: 'illegal_argument_exception', reason: 'Connector version is null' } },
    });
    expect(await rest.send('POST', '/connectors/_create', mcpBody({ parameters: 'x' }))).toMatchObject({
      status: 400,
      body: { error: { type: 'parsing_exception', reason: 'parameters must be an object.' } },
    });
    const id = { connector_id: 'taken' };
    await rest.ok('POST', '/connectors/_create', mcpBody(id));
    expect(await rest.send('POST', '/connectors/_create', mcpBody(id))).toMatchObject({
      status: 409,
      body: { error: { type: 'status_exception', reason: "connector id 'taken' already exists" } },
    });
  });
});
