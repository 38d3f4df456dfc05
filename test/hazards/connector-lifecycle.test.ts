import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import type { FakeMcpScript } from '../support/fake-mcp-server.ts';
import { chatConnector } from '../support/rest.ts';
import { found, reasonOf, startRig, until } from './rig.ts';

const rig = startRig();
const keyed = (k: string): JsonObject => ({ credential: { k }, headers: { 'X-Key': '${credential.k}' } });

/** A server whose calls end when `release` is called. */
function holding(): { script: FakeMcpScript; release: () => void } {
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  return { script: { on: { 'tools/call': () => held.then(() => 'normal' as const) } }, release: () => release() };
}

describe('an update that says nothing about the credential', () => {
  it.each<[string, JsonObject]>([
    ['a description', { description: 'd2' }],
    ['an empty credential', { credential: {} }],
    ['a null credential', { credential: null }],
    ['a name', { name: 'renamed' }],
    ['parameters', { parameters: { endpoint: '/mcp', other: 'x' } }],
    ['limits', { client_config: { read_timeout: 7 } }],
    ['other headers', { headers: { 'X-Key': '${credential.k}', 'X-More': 'more' } }],
    ['the same url', { url: 'same' }],
    ['nothing', {}],
  ])('keeps it: %s', async (_name, members) => {
    const server = await rig.serve();
    const id = await rig.connector(server.origin, keyed('K1-secret'));
    const agent = await rig.agent(id);
    const update = members.url === 'same' ? { url: server.origin } : members;
    await rig.ok('PUT', `/connectors/${id}`, update);
    rig.llm.reset({ tool: 'echo', args: '{"text":"x"}' }, 'done');
    expect((await rig.ask(agent, 'go')).answer).toBe('done');
    expect(server.of('tools/call')).toHaveLength(1);
    for (const { headers } of server.requests) expect(headers['x-key']).toBe('K1-secret');
    const shown = await rig.ok('GET', `/connectors/${id}`);
    const { credential: _never, url: _same, client_config: _filled, ...changed } = update;
    expect(shown).toMatchObject(changed);
  });
});

describe('a change of a connector in use', () => {
  it('by a new credential closes the session with the old one and opens another with the new one', async () => {
    const server = await rig.serve();
    const id = await rig.connector(server.origin, keyed('old-key'));
    const agent = await rig.agent(id);
    rig.llm.reset({ tool: 'echo', args: '{"text":"1"}' }, 'first');
    expect((await rig.ask(agent, 'go')).answer).toBe('first');
    const before = server.requests.length;
    await rig.ok('PUT', `/connectors/${id}`, { credential: { k: 'new-key' } });
    expect(await rig.connections(agent)).toMatchObject([{ status: 'idle' }]);
    rig.llm.reset({ tool: 'echo', args: '{"text":"2"}' }, 'second');
    expect((await rig.ask(agent, 'again')).answer).toBe('second');

    const closed = server.of('DELETE');
    expect(closed.map(({ headers }) => [headers['mcp-session-id'], headers['x-key']])).toEqual([['s-1', 'old-key']]);
    const later = server.requests.slice(before).filter(({ rpc }) => rpc !== 'DELETE');
    expect(later.length).toBeGreaterThan(3);
    for (const { headers } of later) expect(headers['x-key']).toBe('new-key');
    expect(server.of('tools/call').map(({ headers }) => headers['mcp-session-id'])).toEqual(['s-1', 's-2']);
  });

  it('by another header template, or another endpoint, takes effect with the next use', async () => {
    const server = await rig.serve();
    const id = await rig.connector(server.origin, keyed('a-key'));
    expect((await rig.call(id, 'echo', { text: '1' })).status).toBe(200);
    await rig.ok('PUT', `/connectors/${id}`, { headers: { Authorization: 'Bearer ${credential.k}' } });
    expect((await rig.call(id, 'echo', { text: '2' })).status).toBe(200);
    await rig.ok('PUT', `/connectors/${id}`, { parameters: { endpoint: '/other' } });
    expect((await rig.call(id, 'echo', { text: '3' })).status).toBe(200);
    expect(
      server
        .of('tools/call')
        .map(({ path, headers }) => [path, headers['x-key'], headers.authorization, headers['mcp-session-id']]),
    ).toEqual([
      ['/mcp', 'a-key', undefined, 's-1'],
      ['/mcp', undefined, 'Bearer a-key', 's-2'],
      ['/other', undefined, 'Bearer a-key', 's-3'],
    ]);
    expect(server.of('DELETE').map(({ headers }) => headers['mcp-session-id'])).toEqual(['s-1', 's-2']);
  });

  it('to another address needs the credential anew, and then nothing goes to the old one', async () => {
    const [first, second] = await Promise.all([rig.serve(), rig.serve()]);
    const id = await rig.connector(first.origin, keyed('a-key'));
    expect((await rig.call(id, 'echo', { text: '1' })).status).toBe(200);
    const refused = await rig.send('PUT', `/connectors/${id}`, { url: second.origin });
    expect(refused.status).toBe(400);
    expect(reasonOf(refused)).toMatch(/without giving credential/);
    expect(second.requests).toEqual([]);
    await rig.ok('PUT', `/connectors/${id}`, { url: second.origin, credential: { k: 'b-key' } });
    await until(() => first.of('DELETE').length === 1);
    const before = first.requests.length;
    expect((await rig.call(id, 'echo', { text: '2' })).status).toBe(200);
    expect(first.requests.length).toBe(before);
    for (const { headers } of second.requests) expect(headers['x-key']).toBe('b-key');
  });

  it('lets a call end that is under way, on the session it began on', async () => {
    const { script, release } = holding();
    const server = await rig.serve(script);
    const id = await rig.connector(server.origin, keyed('old-key'));
    const agent = await rig.agent(id);
    rig.llm.reset({ tool: 'echo', args: '{"text":"slow"}' }, ({ messages }) => String(messages.at(-1)?.content));
    const running = rig.ask(agent, 'go');
    await server.seen('tools/call');
    await rig.ok('PUT', `/connectors/${id}`, { credential: { k: 'new-key' } });
    expect(server.of('DELETE')).toEqual([]);
    release();
    expect((await running).answer).toContain('echo: {"text":"slow"}');
    await server.seen('DELETE');
    server.on('tools/call', 'normal');
    expect((await rig.call(id, 'echo', { text: 'quick' })).status).toBe(200);
    expect(server.of('tools/call').map(({ headers }) => [headers['mcp-session-id'], headers['x-key']])).toEqual([
      ['s-1', 'old-key'],
      ['s-2', 'new-key'],
    ]);
  });

  it('that deletes it lets the call under way end, and later runs say what is missing', async () => {
    const { script, release } = holding();
    const server = await rig.serve(script);
    const id = await rig.connector(server.origin, keyed('old-key'));
    const agent = await rig.agent(id);
    rig.llm.reset({ tool: 'echo', args: '{"text":"slow"}' }, ({ messages }) => String(messages.at(-1)?.content));
    const running = rig.ask(agent, 'go');
    await server.seen('tools/call');
    await rig.ok('DELETE', `/connectors/${id}`);
    release();
    expect((await running).answer).toContain('echo: {"text":"slow"}');
    await server.seen('DELETE');
    expect((await rig.send('GET', `/connectors/${id}/_status`)).status).toBe(404);
    expect((await rig.call(id, 'echo', {})).status).toBe(404);

    rig.llm.reset('without tools');
    const after = await rig.ask(agent, 'and now?');
    expect(after).toMatchObject({ status: 200, answer: 'without tools' });
    expect(after.warning).toMatch(/^299 /);
    expect(after.warning).toContain(id);
    expect(rig.llm.requests[0]?.tools).toEqual([]);
    expect(await rig.connections(agent)).toMatchObject([{ status: 'failed', error: { code: 'not_found' } }]);
    expect(server.of('initialize')).toHaveLength(1);
  });

  it('leaves a session open that another agent still needs', async () => {
    const server = await rig.serve();
    const id = await rig.connector(server.origin);
    const [one, two] = [await rig.agent(id), await rig.agent(id)];
    for (const agent of [one, two]) {
      rig.llm.reset({ tool: 'echo', args: '{"text":"x"}' }, 'done');
      expect((await rig.ask(agent, 'go')).answer).toBe('done');
    }
    await rig.ok('DELETE', `/agents/${one}`);
    expect(server.of('DELETE')).toEqual([]);
    rig.llm.reset({ tool: 'echo', args: '{"text":"x"}' }, 'done');
    expect((await rig.ask(two, 'go')).answer).toBe('done');
    expect(server.of('initialize')).toHaveLength(1);
    await rig.ok('DELETE', `/agents/${two}`);
    await server.seen('DELETE');
  });

  it('that many make at the same time leaves the credential of one of them, whole', async () => {
    const server = await rig.serve();
    const id = await rig.connector(server.origin, keyed('key-0'));
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, index) =>
        index % 2
          ? rig.send('PUT', `/connectors/${id}`, { credential: { k: `key-${index}` } })
          : rig.call(id, 'echo', { text: String(index) }),
      ),
    );
    for (const { status } of answers) expect([200, 409]).toContain(status);
    const before = server.requests.length;
    expect((await rig.call(id, 'echo', { text: 'after' })).status).toBe(200);
    expect((await rig.call(id, 'echo', { text: 'after' })).status).toBe(200);
    const keys = new Set(server.requests.slice(before).map(({ headers }) => headers['x-key']));
    keys.delete(undefined);
    const sent = server.of('tools/call').slice(-2);
    expect(sent[0]?.headers['x-key']).toBe(sent[1]?.headers['x-key']);
    expect(sent[0]?.headers['x-key']).toMatch(/^key-[1357]$/);
    const used = new Set(server.requests.map(({ headers }) => headers['mcp-session-id']));
    used.delete(undefined);
    used.delete(sent[1]?.headers['mcp-session-id']);
    await until(() => server.of('DELETE').length === used.size);
    expect(new Set(server.of('DELETE').map(({ headers }) => headers['mcp-session-id']))).toEqual(used);
  });

  it.each(['notifications/initialized', 'tools/list'])(
    'that overtakes an opening at %s ends the session the server has begun',
    async (step) => {
      let overtake = (): void => undefined;
      const overtaken = new Promise<void>((resolve) => {
        overtake = resolve;
      });
      const server = await rig.serve({ on: { [step]: [() => overtaken.then(() => 'normal' as const), 'normal'] } });
      const id = await rig.connector(server.origin, keyed('old-key'));
      const running = rig.call(id, 'echo', { text: 'x' });
      await server.seen(step);
      await rig.ok('PUT', `/connectors/${id}`, { credential: { k: 'new-key' } });
      expect((await running).status).toBe(200);
      const closed = await server.seen('DELETE');
      expect([closed.headers['mcp-session-id'], closed.headers['x-key']]).toEqual(['s-1', 'old-key']);
      expect(server.of('tools/call').map(({ headers }) => [headers['mcp-session-id'], headers['x-key']])).toEqual([
        ['s-2', 'new-key'],
      ]);
      overtake();
    },
  );

  it('that deletes it while it is opened ends the wait, and a new one of its id begins anew', async () => {
    const server = await rig.serve({ on: { initialize: [{ hold: 'never' }, 'normal'] } });
    const named = { connector_id: 'reborn', ...keyed('old-key') };
    const id = await rig.connector(server.origin, named);
    const running = rig.call(id, 'echo', { text: 'x' });
    await server.seen('initialize');
    expect(await rig.status(id)).toMatchObject({ status: 'connecting' });
    await rig.ok('DELETE', `/connectors/${id}`);
    const answer = await running;
    expect(answer.status).toBe(404);
    expect(reasonOf(answer)).toContain('Failed to find connector with the provided connector id: reborn');
    const { connectors } = await rig.ok('GET', '/connectors/_status');
    expect((connectors as JsonObject[]).map(({ connector_id: each }) => each)).not.toContain('reborn');

    await rig.connector(server.origin, { ...named, ...keyed('new-key') });
    expect(await rig.status(id)).toMatchObject({ status: 'idle', tool_count: 0, tools: [] });
    expect((await rig.call(id, 'echo', { text: 'x' })).status).toBe(200);
    expect(server.of('tools/call').map(({ headers }) => headers['x-key'])).toEqual(['new-key']);
  });

  it('leaves no session behind at a server whose handshake failed half way', async () => {
    const server = await rig.serve({ on: { 'notifications/initialized': { status: 401 } } });
    const id = await rig.connector(server.origin, keyed('a-key'));
    expect((await rig.call(id, 'echo', { text: 'x' })).status).toBe(409);
    expect((await server.seen('DELETE')).headers['mcp-session-id']).toBe('s-1');
  });
});

it('shows a credential in no answer and holds it nowhere in clear', async () => {
  const canary = 'CANARY-7f3';
  const server = await rig.serve();
  const id = await rig.connector(server.origin, {
    ...keyed(canary),
    description: 'd1',
    auth: { type: 'oauth2', client_secret: '${credential.k}' },
  });
  const agent = await rig.agent(id);
  await rig.ok('GET', `/connectors/${id}`);
  await rig.ok('PUT', `/connectors/${id}`, { description: 'd2' });
  await rig.ok('PUT', `/connectors/${id}`, { credential: { k: `${canary}-second` } });
  rig.llm.reset({ tool: 'echo', args: '{"text":"x"}' }, 'done');
  expect((await rig.ask(agent, 'go')).answer).toBe('done');
  await rig.connections(agent, '?probe=true');
  await rig.status(id);
  await rig.ok('GET', '/connectors/_status');
  await rig.ok('GET', `/connectors/${id}/tools`);
  const inline = { ...chatConnector(rig.llm.url), credential: { openai_key: `${canary}-model` } };
  const model = { name: 'own', function_name: 'remote', connector: inline };
  const { model_id: modelId } = await rig.ok('POST', '/models/_register?deploy=true', model);
  await rig.ok('GET', `/models/${modelId}`);
  await rig.ok('POST', `/models/${modelId}/_predict`, { parameters: { prompt: 'x' } });
  for (const wrong of [{ protocol: 'nonsense' }, { url: 'ftp://x' }, { version: null }, { headers: canary }]) {
    const body = {
      name: 'x',
      version: 1,
      protocol: 'mcp_streamable_http',
      url: server.origin,
      ...keyed(canary),
      ...wrong,
    };
    expect((await rig.send('POST', '/connectors/_create', body)).status).toBe(400);
  }
  expect((await rig.send('POST', '/connectors/_create', `{"credential":{"k":"${canary}"`)).status).toBe(400);
  await rig.send('POST', '/connectors/_search', { query: { match_all: {} } });
  await rig.send('GET', `/connectors/${canary}`);

  expect(server.of('tools/call')[0]?.headers['x-key']).toBe(`${canary}-second`);
  expect(found(rig.said().replaceAll(`/connectors/${canary}`, ''), canary)).toEqual([]);
  const octets = await rig.databaseOctets();
  expect(found(octets, 'mcp_streamable_http')).toHaveLength(1);
  expect(found(octets, canary, Buffer.from(canary).toString('base64').slice(0, 12))).toEqual([]);
});
