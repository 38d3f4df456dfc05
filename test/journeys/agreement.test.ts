import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { openRig, type Rig } from '../agents/rig.ts';
import { type EventReader, readEvents } from '../support/event-reader.ts';
import type { FakeMcpServer } from '../support/fake-mcp-server.ts';
import { sample } from '../support/prometheus.ts';

const STATES = ['idle', 'connecting', 'connected', 'failed', 'auth_required', 'disabled'];

/** What happens to one server, one after the other; each is noticed by a call, a probe or a person. */
const STORY: readonly [
  what: string,
  happens: (server: FakeMcpServer) => unknown,
  noticed: 'call' | 'probe' | 'disable' | 'enable',
  status: string,
  code?: string,
][] = [
  ['the first use', () => undefined, 'call', 'connected'],
  ['a server that is gone', (server) => server.stop(), 'call', 'failed', 'connection_refused'],
  ['a server that is back', (server) => server.start(), 'probe', 'connected'],
  [
    'a credential that is refused',
    (server) => server.on('*', { status: 401 }),
    'call',
    'auth_required',
    'auth_required',
  ],
  ['a credential that is good again', (server) => server.on('*', 'normal'), 'call', 'connected'],
  ['a server that breaks down', (server) => server.on('*', { status: 500 }), 'probe', 'failed', 'server_error'],
  ['a server that is forbidden', (server) => server.on('*', { status: 403 }), 'probe', 'failed', 'forbidden'],
  ['being disabled', (server) => server.on('*', 'normal'), 'disable', 'disabled'],
  ['being enabled', () => undefined, 'enable', 'connected'],
  ['a page in place of the server', (server) => server.on('*', { body: 'hello' }), 'call', 'failed', 'not_mcp'],
];

describe('everything that tells about a connection says the same', () => {
  let rig: Rig;
  let server: FakeMcpServer;
  let events: EventReader;
  let connectorId: string;
  let agentId: string;

  beforeAll(async () => {
    rig = await openRig();
    server = await rig.server();
    events = await readEvents(`${rig.url}/_plugins/_ml/events?types=connection`);
    connectorId = await rig.connector('weather', server.origin);
    agentId = await rig.agent([connectorId]);
  });
  afterAll(async () => {
    events.close();
    await rig.dispose();
  });

  async function notice(how: (typeof STORY)[number][2]): Promise<void> {
    if (how === 'call') await rig.send('POST', `/connectors/${connectorId}/tools/echo/_execute`, {});
    else if (how === 'probe') await rig.ok('GET', `/connectors/${connectorId}/_status?probe=true`);
    else await rig.ok('POST', `/connectors/${connectorId}/_${how}`);
  }

  it.each(STORY)('after %s', async (_what, happens, how, status, code) => {
    await happens(server);
    await notice(how);
    const [own, all, agent, history, metrics] = await Promise.all([
      rig.ok('GET', `/connectors/${connectorId}/_status`),
      rig.ok('GET', '/connectors/_status'),
      rig.ok('GET', `/agents/${agentId}`),
      rig.ok('GET', `/connectors/${connectorId}/_history?size=1`),
      fetch(`${rig.url}/metrics`).then((response) => response.text()),
    ]);
    expect([own.status, (own.error as JsonObject | undefined)?.code]).toEqual([status, code]);
    expect(own.agents).toEqual([{ agent_id: agentId, name: 'assistant' }]);
    expect(all.connectors).toEqual([own]);

    const [connection] = agent.mcp_connections as JsonObject[];
    expect(connection).toMatchObject({
      connector_id: connectorId,
      status,
      since: own.since,
      tool_count: own.tool_count,
    });
    expect((connection?.error as JsonObject | undefined)?.code).toBe(code);

    const [last] = history.transitions as JsonObject[];
    expect([last?.to, last?.code]).toEqual([status, code]);

    const labels = { connector_id: connectorId, name: 'weather' };
    const shown = STATES.filter((state) => sample(metrics, 'tenon_mcp_connection_state', { ...labels, state }) === 1);
    expect(shown).toEqual([status]);
    expect(sample(metrics, 'tenon_mcp_connection_since_seconds', labels)).toBe(Number(own.since) / 1000);
    expect(sample(metrics, 'tenon_mcp_tools', labels)).toBe(own.tool_count);
    const { state } = own.breaker as JsonObject;
    expect(sample(metrics, 'tenon_mcp_breaker_state', { ...labels, state: String(state) })).toBe(1);

    await events.seen(({ data }) => data.time === last?.time && data.to === status);
    const told = events.events.map(({ data }) => [data.from, data.to, data.cause, data.code]);
    const { transitions } = await rig.ok('GET', `/connectors/${connectorId}/_history?size=1000`);
    const stored = (transitions as JsonObject[]).map(({ from, to, cause, code }) => [from, to, cause, code]);
    expect(told).toEqual(stored.reverse());
  });
});
