import { connect } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { startApp, type TestApp } from '../support/build-app.ts';
import { type EventReader, readEvents } from '../support/event-reader.ts';
import { type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { basic, countingHasher } from '../support/identity.ts';

const EVENTS = '/_plugins/_ml/events';
const ML = '/_plugins/_ml';
const readers: EventReader[] = [];

async function follow(app: TestApp, query = '', headers: Record<string, string> = {}): Promise<EventReader> {
  const reader = await readEvents(`${app.url}${EVENTS}${query}`, headers);
  readers.push(reader);
  return reader;
}
afterEach(() => {
  for (const reader of readers.splice(0)) reader.close();
});

describe('the stream of events', () => {
  let app: TestApp;
  let server: FakeMcpServer;

  beforeAll(async () => {
    [app, server] = await Promise.all([startApp(), startFakeMcpServer()]);
  });
  afterAll(async () => {
    await app.close();
    await server.stop();
  });

  async function connector(name: string): Promise<string> {
    const { body, text } = await app.request('POST', `${ML}/connectors/_create`, {
      name,
      version: 1,
      protocol: 'mcp_streamable_http',
      url: server.origin,
      client_config: { max_retry_times: 0 },
    });
    expect(body, text).toHaveProperty('connector_id');
    return String(body.connector_id);
  }

  it('tells how a connection fares and which tools it has, while it happens', async () => {
    const reader = await follow(app);
    expect([reader.status, reader.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
    expect(reader.headers.get('cache-control')).toBe('no-store');
    await expect.poll(() => reader.text()).toBe('retry: 3000\n\n');
    const id = await connector('weather');
    await app.request('GET', `${ML}/connectors/${id}/tools`);
    const connected = await reader.seen(({ data }) => data.to === 'connected');
    expect(connected).toMatchObject({
      type: 'connection',
      data: { connector_id: id, name: 'weather', from: 'connecting', to: 'connected', cause: 'first use' },
    });
    expect(Number(connected.data.time)).toBeGreaterThan(Date.now() - 60_000);
    const tools = await reader.seen(({ type }) => type === 'tools');
    expect(tools.data).toMatchObject({ connector_id: id, added: ['echo'], removed: [], changed: [] });

    server.tools([{ name: 'other', inputSchema: { type: 'object' } }]);
    await app.services.sessions.reset(id, 'test');
    await app.request('GET', `${ML}/connectors/${id}/tools`);
    const changed = await reader.seen(
      ({ type, data }) => type === 'tools' && data.removed !== undefined && data !== tools.data,
    );
    expect(changed.data).toMatchObject({ added: ['other'], removed: ['echo'] });
    const ids = reader.events.map((event) => Number(event.id));
    expect(ids).toEqual([...ids].sort((a, b) => a - b));
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('holds what a change of a definition is', async () => {
    const id = await connector('changing');
    server.tools([{ name: 'one', description: 'first', inputSchema: { type: 'object' } }]);
    await app.request('GET', `${ML}/connectors/${id}/tools`);
    const reader = await follow(app, '?types=tools');
    server.tools([{ name: 'one', description: 'second', inputSchema: { type: 'object' } }]);
    await app.services.sessions.reset(id, 'test');
    await app.request('GET', `${ML}/connectors/${id}/tools`);
    expect((await reader.seen(({ type }) => type === 'tools')).data).toMatchObject({
      added: [],
      removed: [],
      changed: ['one'],
    });
    expect(reader.events.every(({ type }) => type === 'tools')).toBe(true);
  });

  it('begins after the event the reader saw last', async () => {
    const publish = (n: number) => app.services.events.publish({ type: 'pin', data: { n }, scope: {} });
    const first = await follow(app, '?types=pin');
    for (const n of [1, 2, 3]) publish(n);
    const { id = '' } = await first.seen(({ data }) => data.n === 2);
    first.close();
    publish(4);
    const second = await follow(app, '?types=pin', { 'last-event-id': id });
    await second.seen(({ data }) => data.n === 4);
    expect(second.events.map(({ data }) => data.n)).toEqual([3, 4]);
  });

  it('says that something is missing to a reader who was away for too long', async () => {
    const reader = await follow(app, '?types=pin', { 'last-event-id': '17' });
    expect(await reader.seen(() => true)).toMatchObject({
      type: 'lost',
      data: { reason: expect.stringContaining('missing') },
    });
  });

  it.each(['connection,nothing', '', 'Connection'])('refuses the types %j', async (types) => {
    const { status, body } = await app.request('GET', `${EVENTS}?types=${types}`);
    expect(status).toBe(400);
    expect((body.error as JsonObject).reason).toContain('none of connection, tools, run, request, pin');
  });

  it('cuts a reader who does not read, and keeps no more than a bounded number for it', async () => {
    const socket = connect(app.port, '127.0.0.1');
    socket.pause();
    socket.write(`GET ${EVENTS} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n`);
    await expect.poll(() => app.services.events.readers()).toBe(1);
    const filling = 'x'.repeat(10_000);
    for (let n = 0; n < 3000; n += 1) {
      app.services.events.publish({ type: 'pin', data: { filling }, scope: {} });
      if (n % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    await expect.poll(() => app.services.events.readers()).toBe(0);
    let text = '';
    socket.setEncoding('latin1').on('data', (chunk) => {
      text += chunk;
    });
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
    socket.resume();
    await closed;
    expect(text).toContain('event: lost\n');
    expect(text.slice(text.indexOf('event: lost'))).not.toContain('event: pin');
    expect(text.length).toBeLessThan(15_000_000);
  });

  it('lets go of a reader who leaves', async () => {
    const reader = await follow(app);
    expect(app.services.events.readers()).toBe(1);
    reader.close();
    await expect.poll(() => app.services.events.readers()).toBe(0);
  });

  it('refuses one reader too many', async () => {
    const held = Array.from({ length: 200 }, () => app.services.events.subscribe());
    expect((await app.request('GET', EVENTS)).status).toBe(429);
    for (const subscription of held) subscription.close();
  });
});

it('ends with the server, which does not wait for its readers', async () => {
  const app = await startApp();
  const reader = await follow(app);
  let cut = false;
  const { cutRequests } = app.app;
  app.app.cutRequests = () => {
    cut = true;
    cutRequests();
  };
  await app.close();
  await reader.ended;
  expect(cut).toBe(false);
  expect(app.lines.join('')).not.toContain('did not close cleanly');
});

it('shows each reader what it may see', async () => {
  const key = 'the-static-key-of-the-operator';
  const app = await startApp({ config: { apiKey: key }, hasher: countingHasher() });
  try {
    const operator = { authorization: `Bearer ${key}` };
    for (const name of ['ann', 'bob']) {
      const user = { password: 'Sunny-4-afternoons', opendistro_security_roles: ['ml_full_access'] };
      await app.request('PUT', `/_plugins/_security/api/internalusers/${name}`, user, operator);
    }
    const access = { persistent: { 'plugins.ml_commons.connector_access_control_enabled': true } };
    await app.request('PUT', '/_cluster/settings', access, operator);
    const as = (name: string) => ({ authorization: basic(name, 'Sunny-4-afternoons') });
    const create = { name: 'w', version: 1, protocol: 'mcp_streamable_http', url: 'https://mcp.example.com' };
    const { body } = await app.request('POST', `${ML}/connectors/_create`, create, as('ann'));
    const id = String(body.connector_id);
    const [ann, bob, admin] = await Promise.all([
      follow(app, '', as('ann')),
      follow(app, '', as('bob')),
      follow(app, '', operator),
    ]);
    const { events } = app.services;
    events.publish({ type: 'connection', data: { n: 1 }, scope: { connectorId: id } });
    events.publish({ type: 'run', data: { n: 2 }, scope: { owner: 'user:bob' } });
    events.publish({ type: 'pin', data: { n: 3 }, scope: {} });
    events.publish({ type: 'request', data: { n: 4 }, scope: { connectorId: id, owner: 'user:bob' } });
    await admin.seen(({ data }) => data.n === 4);
    await ann.seen(({ data }) => data.n === 4);
    await bob.seen(({ data }) => data.n === 4);
    const numbers = ({ events }: EventReader) => events.map(({ data }) => data.n);
    expect([numbers(admin), numbers(ann), numbers(bob)]).toEqual([
      [1, 2, 3, 4],
      [1, 4],
      [2, 4],
    ]);
    expect((await app.request('GET', EVENTS)).status).toBe(401);
  } finally {
    await app.close();
  }
});
