import { expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import type { AuditEntry } from '../../src/schemas/audit.ts';
import { createAuditStore } from '../../src/store/audit.ts';
import { readAuditSearch } from '../../src/telemetry/audit-query.ts';
import { createAuditTrail } from '../../src/telemetry/audit-trail.ts';
import { onEachEngine } from '../support/databases.ts';

const WHOLE: AuditEntry = {
  principal: 'open',
  action: 'tool_call',
  outcome: 'ok',
  agentId: 'a',
  connectorId: 'c',
  tool: 'get 🦉',
  argumentsHash: 'f00',
  durationMs: 12.7,
  bytes: 3_000_000_000,
  detail: 'd',
  arguments: '{"text":"🦉"}',
  result: '{"content":[]}',
};

onEachEngine('audit', (database) => {
  it('lists the newest first, in order of arrival within one millisecond, each entry as it was given', async () => {
    const audit = createAuditStore(database(), { now: () => 42 });
    await audit.insert({ principal: 'open', action: 'first', outcome: 'ok' });
    await audit.insert({ principal: 'open', action: 'second', outcome: 'failed' });
    await audit.insert(WHOLE);
    const [newest, before, ...rest] = await audit.list(2);
    expect(newest).toEqual({ ...WHOLE, durationMs: 13, id: expect.any(String), time: 42 });
    expect(before).toEqual({
      principal: 'open',
      action: 'second',
      outcome: 'failed',
      id: expect.any(String),
      time: 42,
    });
    expect(rest).toEqual([]);
    expect(new Set((await audit.list(10)).map(({ id }) => id)).size).toBe(3);
  });

  it('keeps a row whose texts hold what an engine cannot store', async () => {
    const audit = createAuditStore(database());
    await audit.insert({ principal: 'open', action: 'tool_call', outcome: 'ok', tool: 'a\0b' });
    expect((await audit.list(1))[0]?.tool).toBe('a\ufffdb');
  });

  it.each<[name: string, query: JsonObject, found: string]>([
    ['match_all', { match_all: {} }, 'abcd'],
    ['term', { term: { action: 'connector.create' } }, 'b'],
    ['term with a value member and a keyword suffix', { term: { 'outcome.keyword': { value: 'ok' } } }, 'ab'],
    ['term of a number', { term: { bytes: 30 } }, 'c'],
    ['term of a value that would be SQL', { term: { action: "' or 1=1 --" } }, ''],
    ['term of a value that no row can hold', { term: { action: 'a\0' } }, ''],
    ['terms', { terms: { action: ['sign_in', 'connector.create', 'none'] } }, 'bd'],
    ['terms of nothing', { terms: { action: [] } }, ''],
    ['range', { range: { bytes: { gt: 10, lte: 30 } } }, 'c'],
    ['range of times', { range: { time: { gte: '1970-01-01T00:00:02.000Z', lt: 4000 } } }, 'bc'],
    ['exists', { exists: { field: 'tool' } }, 'ac'],
    ['bool must', { bool: { must: [{ term: { principal: 'ann' } }, { exists: { field: 'bytes' } }] } }, 'ac'],
    ['bool filter, one clause without a list', { bool: { filter: { term: { principal: 'bob' } } } }, 'bd'],
    ['bool should', { bool: { should: [{ term: { bytes: 10 } }, { term: { action: 'sign_in' } }] } }, 'ad'],
    [
      'bool should beside must, which narrows nothing',
      { bool: { must: { term: { principal: 'ann' } }, should: { term: { bytes: 10 } } } },
      'ac',
    ],
    ['bool must_not of rows without the field', { bool: { must_not: { term: { tool: 'echo' } } } }, 'bcd'],
    ['bool must_not of a range', { bool: { must_not: [{ range: { bytes: { gte: 20 } } }] } }, 'abd'],
    [
      'nested bools',
      {
        bool: {
          must: {
            bool: { should: [{ term: { tool: 'echo' } }, { bool: { must_not: { exists: { field: 'bytes' } } } }] },
          },
        },
      },
      'abd',
    ],
    ['an empty bool', { bool: {} }, 'abcd'],
  ])('finds by %s', async (_name, query, found) => {
    let time = 0;
    const audit = createAuditStore(database(), { now: () => time });
    const entries: AuditEntry[] = [
      { principal: 'ann', action: 'tool_call', outcome: 'ok', tool: 'echo', bytes: 10, detail: 'a' },
      { principal: 'bob', action: 'connector.create', outcome: 'ok', connectorId: 'c1', detail: 'b' },
      { principal: 'ann', action: 'tool_call', outcome: 'failed', tool: 'other', bytes: 30, detail: 'c' },
      { principal: 'bob', action: 'sign_in', outcome: 'refused', detail: 'd' },
    ];
    for (const entry of entries) {
      time += 1000;
      await audit.insert(entry);
    }
    const { total, rows } = await audit.search(readAuditSearch({ query, sort: 'time' }));
    expect(rows.map(({ detail }) => detail).join('')).toBe(found);
    expect(total).toBe(found.length);
    const second = await audit.search(readAuditSearch({ query, from: 1, size: 1 }));
    expect(second.rows.map(({ detail }) => detail)).toEqual([...found].reverse().slice(1, 2));
    expect(second.total).toBe(found.length);
  });

  it('is read as a whole, page by page, rows of one millisecond included, within a range of times', async () => {
    let time = 1000;
    const store = createAuditStore(database(), { now: () => time });
    await database().write(async (transaction) => {
      for (let row = 0; row < 1203; row += 1) {
        const id = `id-${String(row).padStart(5, '0')}`;
        const values = { id, time: 1000 + Math.floor(row / 700), principal: 'ann', action: 'tool_call', outcome: 'ok' };
        const empty = { agent_id: null, connector_id: null, tool: null, arguments_hash: null, duration_ms: null };
        const rest = { bytes: null, detail: null, arguments: null, result: null };
        await transaction
          .insertInto('audit')
          .values({ ...values, ...empty, ...rest })
          .execute();
      }
    });
    time = 5000;
    const trail = createAuditTrail({ store, now: () => time });
    const read = async (range: { from?: string; to?: string }): Promise<string[]> => {
      const ids: string[] = [];
      for await (const lines of trail.lines(range)) {
        for (const line of lines.split('\n').slice(0, -1)) ids.push((JSON.parse(line) as { id: string }).id);
      }
      return ids;
    };
    const all = await read({});
    expect(all).toHaveLength(1203);
    expect(all).toEqual([...new Set(all)].sort());
    expect(await read({ from: '1001' })).toEqual(all.slice(700));
    expect(await read({ to: '1970-01-01T00:00:01.001Z' })).toEqual(all.slice(0, 700));
    expect(await read({ from: '1002' })).toEqual([]);
  });

  it('deletes the oldest rows, no more than it is told to', async () => {
    let time = 0;
    const audit = createAuditStore(database(), { now: () => time });
    for (const detail of 'abcde') {
      time += 1000;
      await audit.insert({ principal: 'ann', action: 'tool_call', outcome: 'ok', detail });
    }
    expect(await audit.deleteBefore(4000, 2)).toBe(2);
    expect((await audit.list(10)).map(({ detail }) => detail)).toEqual(['e', 'd', 'c']);
    expect(await audit.deleteBefore(4000, 2)).toBe(1);
    expect(await audit.deleteBefore(4000, 2)).toBe(0);
    expect((await audit.list(10)).map(({ detail }) => detail)).toEqual(['e', 'd']);
  });
});
