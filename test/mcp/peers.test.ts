import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type McpPeer,
  startEverythingServer,
  startMemoryServer,
  startSessionEraServer,
  startStatelessMemoryServer,
  startStatelessServer,
} from '../support/mcp-peers.ts';
import { openPool, type Pool, textOf } from './pool.ts';

describe.each([
  { name: 'the everything server', start: startEverythingServer, version: '2025-11-25', tool: 'echo' },
  { name: 'the memory server behind a gateway', start: startMemoryServer, version: '2025-11-25', tool: 'read_graph' },
  {
    name: 'the memory server behind a stateless proxy',
    start: startStatelessMemoryServer,
    version: '2026-07-28',
    tool: 'read_graph',
  },
  { name: 'a server of the first SDK', start: startSessionEraServer, version: '2025-11-25', tool: 'add' },
  { name: 'a server of the second SDK', start: startStatelessServer, version: '2026-07-28', tool: 'add' },
])('$name', ({ start, version, tool }) => {
  let peer: McpPeer;
  let pool: Pool;

  beforeAll(async () => {
    peer = await start();
    pool = await openPool();
    pool.add('peer', peer.url);
  }, 60_000);
  afterAll(async () => {
    await pool?.dispose();
    await peer?.stop();
  });

  it('is connected to in its own era, with all its tools', async () => {
    const { tools, leftOut } = await pool.sessions.tools('peer');
    expect(tools.map(({ name }) => name)).toContain(tool);
    expect(leftOut).toEqual([]);
    const report = await pool.sessions.report('peer', { probe: true });
    expect(report).toMatchObject({ status: 'connected', protocol_version: version, tool_count: tools.length });
    expect(report.warnings).toBeUndefined();
  });

  it('answers a call', async () => {
    const values = { echo: { message: 'hello' }, add: { a: 2, b: 3 }, read_graph: {} }[tool];
    const expected = { echo: 'Echo: hello', add: '5', read_graph: expect.stringContaining('entities') }[tool];
    const result = await pool.call('peer', tool, values);
    expect(result.isError).toBe(false);
    expect(textOf(result)).toEqual(expected);
  });

  it('gives a mistake in the arguments to the model as an error of the tool', async () => {
    const broken = { echo: {}, add: { a: 'x' }, read_graph: {} }[tool];
    if (tool === 'read_graph')
      return expect(pool.call('peer', 'open_nodes', broken)).resolves.toMatchObject({ isError: true });
    return expect(pool.call('peer', tool, broken)).resolves.toMatchObject({ isError: true });
  });

  it('is connected to again after the session was closed', async () => {
    await pool.sessions.reset('peer', 'test');
    expect((await pool.sessions.report('peer')).status).toBe('idle');
    await pool.sessions.tools('peer');
    expect((await pool.sessions.report('peer')).status).toBe('connected');
  });
});
