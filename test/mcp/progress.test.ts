import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createProgressFeed } from '../../src/mcp/session/progress.ts';
import type { CallProgress } from '../../src/mcp/types.ts';
import { type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { openPool, type Pool } from './pool.ts';

const DONE = '{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}';

describe('progress of a call', () => {
  let pool: Pool;
  let server: FakeMcpServer;

  beforeEach(async () => {
    pool = await openPool();
    server = await startFakeMcpServer();
    pool.add('weather', `${server.origin}/mcp`, { headers: { 'X-Key': 'very-secret-credential' } });
  });
  afterEach(async () => {
    await pool.dispose();
    await server.stop();
  });

  async function progressOf(...notices: (Partial<CallProgress> | number)[]): Promise<CallProgress[]> {
    server.on('tools/call', ({ message }) => {
      const { progressToken } = (message as { params: { _meta: { progressToken: number } } }).params._meta;
      const texts = notices.map((notice) =>
        typeof notice === 'number'
          ? notice
          : JSON.stringify({
              jsonrpc: '2.0',
              method: 'notifications/progress',
              params: { progressToken, ...notice },
            }),
      );
      return { sse: [...texts, DONE] };
    });
    const seen: CallProgress[] = [];
    await pool.call('weather', 'echo', {}, { onProgress: (progress) => void seen.push(progress) });
    return seen;
  }

  it('only goes forward', async () => {
    const seen = await progressOf({ progress: 1 }, 300, { progress: 3 }, 300, { progress: 2 }, { progress: 3 }, 300, {
      progress: 4,
      total: 4,
    });
    expect(seen).toEqual([{ progress: 1 }, { progress: 3 }, { progress: 4, total: 4 }]);
  });

  it('counts when what stands beside the number is of another type', async () => {
    const odd = { progress: 1, total: 'three', message: 7, _meta: [] } as unknown as Partial<CallProgress>;
    expect(await progressOf(odd, 300, { progress: 2, total: null } as never)).toEqual([
      { progress: 1 },
      { progress: 2 },
    ]);
  });

  it('is told at once, then not too often, and in the end as it stood', async () => {
    const many = Array.from({ length: 500 }, (_none, index) => ({ progress: index + 1 }));
    const seen = await progressOf(...many);
    expect(seen[0]).toEqual({ progress: 1 });
    expect(seen.at(-1)).toEqual({ progress: 500 });
    expect(seen.length).toBeLessThan(100);
  });

  it('is told without hidden characters, without our credential, and cut', async () => {
    const [seen] = await progressOf({ progress: 1, message: `a\u202eb very-secret-credential ${'x'.repeat(600)}` });
    expect(seen?.message).toMatch(/^ab \[redacted\] x+…$/);
    expect(seen?.message).toHaveLength(500);
  });

  it('is silent after the end', () => {
    const seen: CallProgress[] = [];
    const feed = createProgressFeed((progress) => void seen.push(progress), String);
    feed.take({ progress: 1 });
    feed.take({ progress: 2 });
    feed.end();
    feed.take({ progress: 3 });
    feed.end();
    expect(seen).toEqual([{ progress: 1 }, { progress: 2 }]);
  });
});
