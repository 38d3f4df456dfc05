import { expect, it } from 'vitest';
import { createAuditStore } from '../../src/store/audit.ts';
import { onEachEngine } from '../support/databases.ts';

onEachEngine('audit', (database) => {
  it('lists the newest first, in order of arrival within one millisecond, each entry as it was given', async () => {
    const audit = createAuditStore(database(), { now: () => 42 });
    const whole = {
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
    };
    await audit.insert({ principal: 'open', action: 'first', outcome: 'ok' });
    await audit.insert({ principal: 'open', action: 'second', outcome: 'failed' });
    await audit.insert(whole);
    const [newest, before, ...rest] = await audit.list(2);
    expect(newest).toEqual({ ...whole, durationMs: 13, id: expect.any(String), time: 42 });
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
});
