import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connectionRoutes } from '../../src/http/routes/connections.ts';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import type { JsonObject } from '../../src/json.ts';
import { createConnectionStore } from '../../src/store/connections.ts';
import { sqliteDatabase } from '../support/databases.ts';
import { type Edge, startEdge } from '../support/edge.ts';
import { type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { createRest, type Rest } from '../support/rest.ts';
import { openPool, type Pool } from './pool.ts';

describe('the history of a connection', () => {
  let pool: Pool;
  let edge: Edge;
  let rest: Rest;
  let server: FakeMcpServer;

  beforeEach(async () => {
    pool = await openPool();
    server = await startFakeMcpServer();
    pool.add('weather', `${server.origin}/mcp`, { config: { max_retry_times: 0 } });
    pool.add('chat', server.origin, { protocol: 'http' });
    edge = await startEdge(async (app) => {
      const { sessions, connectors } = pool;
      await app.register(connectionRoutes, { prefix: '/_plugins/_ml', sessions, connectors });
    });
    rest = createRest(edge.url);
  });
  afterEach(async () => {
    await edge.close();
    await pool.dispose();
    await server.stop().catch(() => undefined);
  });
  const history = async (query = '') => {
    const answer = await rest.ok('GET', `/connectors/weather/_history${query}`);
    expect(answer.connector_id).toBe('weather');
    return answer.transitions as JsonObject[];
  };

  it('tells each change, newest first, with its cause and what was wrong', async () => {
    const began = Date.now();
    await pool.sessions.tools('weather');
    await server.stop();
    await pool.sessions.report('weather', { probe: true });
    await pool.sessions.act('weather', 'disable', OPEN_PRINCIPAL);
    const transitions = await history();
    expect(transitions.map(({ from, to, cause }) => [from, to, cause])).toEqual([
      ['failed', 'disabled', 'disable by open'],
      ['connected', 'failed', 'probe'],
      ['connecting', 'connected', 'first use'],
      ['idle', 'connecting', 'first use'],
    ]);
    expect(transitions[1]).toMatchObject({
      code: 'connection_refused',
      message: expect.stringMatching(/^connector "weather" at .* refused the connection/),
    });
    for (const { time } of transitions) {
      expect(time).toBeGreaterThanOrEqual(began);
      expect(time).toBeLessThanOrEqual(Date.now());
    }
    expect(transitions[2]).not.toHaveProperty('code');
  });

  it('is empty before the first use, and shows as many as were asked for', async () => {
    expect(await history()).toEqual([]);
    await pool.sessions.tools('weather');
    expect(await history('?size=1')).toMatchObject([{ to: 'connected' }]);
    expect(await history('?size=1000')).toHaveLength(2);
  });

  it.each(['0', '1001', '-1', 'many', '1.5', '', '99999999999'])('refuses the size %j', async (size) => {
    const { status, body } = await rest.send('GET', `/connectors/weather/_history?size=${size}`);
    expect([status, (body.error as JsonObject).reason]).toEqual([400, 'size must be a whole number from 1 to 1000']);
  });

  it('is there for MCP connectors that exist', async () => {
    expect((await rest.send('GET', '/connectors/nobody/_history')).status).toBe(404);
    expect((await rest.send('GET', '/connectors/chat/_history')).status).toBe(400);
  });

  it('goes with its connector', async () => {
    await pool.sessions.tools('weather');
    await pool.remove('weather');
    expect(await pool.connections.history('weather', 10)).toEqual([]);
  });
});

it('keeps the newest thousand changes of each connection', async () => {
  const { database, dispose } = await sqliteDatabase();
  try {
    const store = createConnectionStore(database);
    const state = (connectorId: string) => ({ connectorId, status: 'idle', body: {}, since: 0 });
    const change = (n: number) => ({ from: 'idle', to: 'connecting', cause: `number ${n}`, time: Math.floor(n / 10) });
    await store.save(state('other'), change(0));
    for (let n = 1; n <= 1030; n += 1) await store.save(state('one'), change(n));
    const kept = await store.history('one', 5000);
    expect(kept).toHaveLength(1000);
    expect([kept[0]?.cause, kept.at(-1)?.cause]).toEqual(['number 1030', 'number 31']);
    expect(await store.history('other', 10)).toHaveLength(1);
  } finally {
    await dispose();
  }
});
