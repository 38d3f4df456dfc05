import { describe, expect, it } from 'vitest';
import type { Reply } from '../support/fake-mcp-server.ts';
import { found, reasonOf, startRig } from './rig.ts';

const rig = startRig();

describe('the address of a server', () => {
  it.each([
    ['', '/mcp', '/mcp'],
    ['/', '/mcp', '/mcp'],
    ['/', 'mcp', '/mcp'],
    ['', 'mcp', '/mcp'],
    ['', null, '/mcp'],
    ['', '', '/mcp'],
    ['/', null, '/mcp'],
    ['//', '//mcp', '/mcp'],
    ['/base', '/mcp', '/base/mcp'],
    ['/base/', 'mcp', '/base/mcp'],
    ['/base', 'v1/mcp', '/base/v1/mcp'],
    ['', '/mcp/', '/mcp/'],
    ['', '/', '/'],
    ['', '/mcp?tenant=a%20b', '/mcp?tenant=a%20b'],
    ['/a%2Fb', '/mcp', '/a%2Fb/mcp'],
    ['', '//elsewhere.example/mcp', '/elsewhere.example/mcp'],
  ])('joins "http://H%s" and %j with one slash', async (base, endpoint, path) => {
    const server = await rig.serve();
    const id = await rig.connector(`${server.origin}${base}`, {
      parameters: { ...(endpoint === null ? {} : { endpoint }) },
    });
    expect((await rig.call(id, 'echo', { text: 'x' })).status).toBe(200);
    expect(new Set(server.requests.map((request) => request.path))).toEqual(new Set([path]));
  });

  it('that is wrong is shown whole, with the doubled path', async () => {
    const server = await rig.serve({ path: '/mcp' });
    const id = await rig.connector(`${server.origin}/mcp`);
    const answer = await rig.call(id, 'echo', { text: 'x' });
    expect(answer.status).toBe(502);
    const { error } = await rig.status(id);
    const agent = await rig.agent(id);
    const [connection] = await rig.connections(agent);
    for (const text of [reasonOf(answer), JSON.stringify(error), JSON.stringify(connection?.error)]) {
      expect(text).toContain(`${server.origin}/mcp/mcp`);
      expect(text).toMatch(/doubled/);
    }
    expect(error).toMatchObject({ code: 'wrong_path' });
  });

  it('that is wrong is shown without the query, which may hold a key', async () => {
    const server = await rig.serve({ path: '/nowhere' });
    const id = await rig.connector(server.origin, { parameters: { endpoint: '/mcp?key=Q7-in-the-query' } });
    const answer = await rig.call(id, 'echo', { text: 'x' });
    expect(reasonOf(answer)).toContain(`${server.origin}/mcp`);
    expect(JSON.stringify(await rig.status(id))).not.toContain('Q7');
  });
});

describe('a redirect inside the origin', () => {
  const moved =
    (status: number, location: string): Reply =>
    ({ path, headers }) => {
      if (path === '/mcp') return { status, headers: { Location: location } };
      return headers['x-key'] === 'the-key' ? 'normal' : { status: 401 };
    };

  it.each([
    [307, '/mcp/'],
    [308, '/mcp/'],
    [307, 'mcp/'],
    [308, '/v2/mcp?x=1'],
  ])('by %i to %s is followed with method, body and all headers', async (status, location) => {
    const server = await rig.serve({ on: { '*': moved(status, location) } });
    const id = await rig.connector(server.origin, {
      credential: { k: 'the-key' },
      headers: { 'X-Key': '${credential.k}' },
    });
    const agent = await rig.agent(id);
    rig.llm.reset({ tool: 'echo', args: '{"text":"there"}' }, ({ messages }) => String(messages.at(-1)?.content));
    expect((await rig.ask(agent, 'go')).answer).toContain('echo: {"text":"there"}');
    await rig.ok('DELETE', `/connectors/${id}`);
    await server.seen('DELETE', 2);

    const [first, second, ...more] = server.of('tools/call');
    expect(more).toEqual([]);
    expect([first?.path, second?.path]).toEqual([
      '/mcp',
      new URL(location, `${server.origin}/mcp`).href.slice(server.origin.length),
    ]);
    expect(second).toMatchObject({ method: 'POST', body: first?.body });
    expect(second?.headers).toMatchObject({
      'x-key': 'the-key',
      'mcp-session-id': 's-1',
      'mcp-protocol-version': '2025-11-25',
      'content-type': 'application/json',
    });
    expect(server.of('DELETE')[1]?.headers['mcp-session-id']).toBe('s-1');
  });

  it('by its full address is followed too', async () => {
    const server = await rig.serve();
    server.on('*', ({ path }) =>
      path === '/mcp' ? { status: 307, headers: { Location: `${server.origin}/new` } } : 'normal',
    );
    const id = await rig.connector(server.origin);
    expect((await rig.call(id, 'echo', { text: 'x' })).status).toBe(200);
  });

  it.each([301, 302, 303])('by %i is not followed, and names where it points', async (status) => {
    const server = await rig.serve({ on: { '*': { status, headers: { Location: '/mcp/' } } } });
    const id = await rig.connector(server.origin);
    const answer = await rig.call(id, 'echo', { text: 'x' });
    expect(answer.status).toBe(502);
    expect(reasonOf(answer)).toContain(`${server.origin}/mcp/`);
    expect(await rig.status(id)).toMatchObject({ status: 'failed', error: { code: 'wrong_path' } });
    expect(JSON.stringify((await rig.status(id)).error)).toContain('/mcp/');
    expect(server.requests.filter(({ path }) => path === '/mcp/')).toEqual([]);
  });

  it.each([
    ['in a circle', '/mcp'],
    ['between two', '/other'],
  ])('%s ends after a few hops, once', async (_name, location) => {
    const server = await rig.serve({
      on: { '*': ({ path }) => ({ status: 307, headers: { Location: path === '/mcp' ? location : '/mcp' } }) },
    });
    const id = await rig.connector(server.origin);
    const answer = await rig.call(id, 'echo', { text: 'x' });
    expect(answer.status).toBe(502);
    expect(reasonOf(answer)).toMatch(/redirects.*more than 5/);
    expect(server.requests.length).toBeLessThanOrEqual(12);
  });

  it('without a Location is named as what it is', async () => {
    const server = await rig.serve({ on: { '*': { status: 307 } } });
    const id = await rig.connector(server.origin);
    const answer = await rig.call(id, 'echo', { text: 'x' });
    expect(answer.status).toBe(502);
    expect(reasonOf(answer)).toContain('307');
  });

  it('of one call alone fails that call as not made', async () => {
    const server = await rig.serve({ on: { 'tools/call': { status: 302, headers: { Location: '/login' } } } });
    const id = await rig.connector(server.origin);
    const agent = await rig.agent(id);
    rig.llm.reset({ tool: 'echo', args: '{"text":"x"}' }, ({ messages }) => String(messages.at(-1)?.content));
    const { answer } = await rig.ask(agent, 'go');
    expect(answer).toContain('/login');
    expect(answer).not.toContain('outcome is unknown');
    expect(server.requests.filter(({ path }) => path === '/login')).toEqual([]);
  });
});

describe('a redirect to another origin', () => {
  it.each([
    ['another port', (port: number) => `http://127.0.0.1:${port}/mcp`],
    ['another name of the host', (port: number) => `http://localhost:${port}/mcp`],
    ['no scheme', (port: number) => `//127.0.0.1:${port}/mcp`],
    ['a user name', (port: number) => `http://svc:pw-in-it@127.0.0.1:${port}/mcp`],
  ])('is not followed, and no credential leaves: %s', async (_name, location) => {
    const canary = await rig.serve();
    for (const status of [307, 308, 302]) {
      const server = await rig.serve({ on: { '*': { status, headers: { Location: location(canary.port) } } } });
      const id = await rig.connector(server.origin, {
        credential: { k: 'CANARY-redirect' },
        headers: { Authorization: 'Bearer ${credential.k}' },
      });
      const answer = await rig.call(id, 'echo', { text: 'x' });
      expect(answer.status).toBe(502);
      expect(reasonOf(answer)).toMatch(/another origin/);
      expect(await rig.status(id)).toMatchObject({ status: 'failed', error: { code: 'address_refused' } });
    }
    expect(canary.requests).toEqual([]);
    expect(found(rig.said(), 'CANARY-redirect', 'pw-in-it')).toEqual([]);
  });

  it.each([
    'http://169.254.169.254/latest',
    'file:///etc/passwd',
    'javascript:alert(1)',
    'https://127.0.0.1/mcp',
    'http://[',
  ])('is not followed: %s', async (location) => {
    const server = await rig.serve({ on: { '*': { status: 307, headers: { Location: location } } } });
    const id = await rig.connector(server.origin);
    const answer = await rig.call(id, 'echo', { text: 'x' });
    expect(answer.status).toBe(502);
    expect(reasonOf(answer)).toMatch(/redirects/);
  });
});
