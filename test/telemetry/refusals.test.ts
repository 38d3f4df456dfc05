import { expect, it } from 'vitest';
import type { AuditEntry } from '../../src/schemas/audit.ts';
import { createRefusals } from '../../src/telemetry/refusals.ts';

it('writes at most one row a second for each principal, action and permission, and counts the rest', () => {
  let now = 1_000_000;
  const rows: AuditEntry[] = [];
  const refusals = createRefusals({ audit: { record: async (row) => void rows.push(row) }, now: () => now });
  const refuse = (principal: string, permission: string): void =>
    refusals.record(permission, { principal, action: 'access', detail: permission });
  for (let n = 0; n < 1000; n += 1) refuse('user:ann', 'user:read');
  refuse('user:bob', 'user:read');
  refuse('user:ann', 'role:read');
  now += 999;
  refuse('user:ann', 'user:read');
  now += 1;
  for (let n = 0; n < 3; n += 1) refuse('user:ann', 'user:read');
  refuse('user:bob', 'user:read');
  expect(rows.map(({ principal, outcome, detail }) => [principal, outcome, detail])).toEqual([
    ['user:ann', 'refused', 'user:read'],
    ['user:bob', 'refused', 'user:read'],
    ['user:ann', 'refused', 'role:read'],
    ['user:ann', 'refused', 'user:read; 1000 more before this were left out'],
    ['user:bob', 'refused', 'user:read'],
  ]);
});
