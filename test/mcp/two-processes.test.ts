import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import type { McpSessions } from '../../src/mcp/types.ts';
import { type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { openPool, type Pool } from './pool.ts';

let server: FakeMcpServer;
let pool: Pool;
let other: McpSessions;

beforeEach(async () => {
  server = await startFakeMcpServer();
  pool = await openPool({ probeMs: 100, sweepMs: 20 }, undefined, { shared: true });
  pool.add('weather', server.origin);
  other = pool.restarted();
});
afterEach(async () => {
  await pool.dispose();
  await server.stop();
});

const call = (sessions: McpSessions) =>
  sessions.call('weather', { tool: 'echo', argumentsText: '{}', principal: OPEN_PRINCIPAL });
const statusIn = async (sessions: McpSessions) => (await sessions.report('weather')).status;

describe('two processes on one database', () => {
  it('disable for each other, and enable again', async () => {
    await Promise.all([call(pool.sessions), call(other)]);
    await pool.sessions.act('weather', 'disable', OPEN_PRINCIPAL);
    await expect.poll(() => statusIn(other), { timeout: 10_000 }).toBe('disabled');
    await expect(call(other)).rejects.toMatchObject({ code: 'disabled' });

    await pool.sessions.act('weather', 'enable', OPEN_PRINCIPAL);
    await expect.poll(() => statusIn(other), { timeout: 10_000 }).not.toBe('disabled');
    expect((await call(other)).isError).toBe(false);
  });

  it('keep what was disabled when the one that did not know of it stops at once', async () => {
    await Promise.all([call(pool.sessions), call(other)]);
    await pool.sessions.act('weather', 'disable', OPEN_PRINCIPAL);
    await other.close(100);
    expect((await pool.connections.state('weather'))?.status).toBe('disabled');
    expect(await statusIn(pool.restarted())).toBe('disabled');
  });

  it('let go of a connector that the other one deleted', async () => {
    await call(other);
    const { find } = pool.connectors;
    pool.connectors.find = async () => undefined;
    await server.seen('DELETE');
    await expect.poll(() => pool.connections.state('weather'), { timeout: 10_000 }).toBeUndefined();
    pool.connectors.find = find;
  });
});
