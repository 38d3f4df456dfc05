import { expect, it } from 'vitest';
import type { AuditEntry } from '../../src/schemas/audit.ts';
import { createAuditStore } from '../../src/store/audit.ts';
import { openDatabase } from '../../src/store/database.ts';
import { createAudit } from '../../src/telemetry/audit.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { createRedactor } from '../../src/telemetry/redactor.ts';
import { sqliteDatabase } from '../support/databases.ts';

const ENTRY: AuditEntry = {
  principal: 'open',
  action: 'tool_call',
  outcome: 'ok',
  agentId: 'a1',
  connectorId: 'c1',
  tool: 'echo',
  durationMs: 12,
};

function auditWith(insert: (entry: AuditEntry) => Promise<void>): {
  record: (entry: AuditEntry) => Promise<void>;
  lines: Record<string, unknown>[];
} {
  const lines: Record<string, unknown>[] = [];
  const stream = { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) };
  const log = createLogger({ level: 'info', redactor: createRedactor(), stream });
  return { record: createAudit({ log, sink: { insert } }).record, lines };
}

it('writes one line and one row', async () => {
  const rows: AuditEntry[] = [];
  const { record, lines } = auditWith(async (entry) => void rows.push(entry));
  await record(ENTRY);
  expect(rows).toEqual([ENTRY]);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatchObject({ ...ENTRY, level: 'info', msg: 'MCP audit: tool_call ok' });
});

it('does not fail its caller when the row cannot be stored', async () => {
  const { record, lines } = auditWith(async () => {
    throw new Error('disk full');
  });
  await record({ principal: 'open', action: 'connector_create', outcome: 'ok' });
  expect(lines.map((line) => line['msg'])).toEqual([
    'audit: connector_create ok',
    'audit row of connector_create was not stored',
  ]);
});

it('is not waited for by the call of a tool, and its failure is logged all the same', async () => {
  let fail: (error: Error) => void = () => undefined;
  const { record, lines } = auditWith(() => new Promise((_, reject) => (fail = reject)));
  await record(ENTRY);
  expect(lines).toHaveLength(1);
  fail(new Error('disk full'));
  await new Promise((resolve) => setImmediate(resolve));
  expect(lines[1]).toMatchObject({ level: 'error', msg: 'audit row of tool_call was not stored' });
});

it('stores the row of a tool call that nobody waited for before the database closes', async () => {
  const { database, options, dispose } = await sqliteDatabase();
  const log = createLogger({ level: 'silent', redactor: createRedactor() });
  await createAudit({ log, sink: createAuditStore(database) }).record(ENTRY);
  await database.close();
  const again = await openDatabase(options);
  expect(await createAuditStore(again).list(10)).toMatchObject([ENTRY]);
  await again.close();
  await dispose();
});
