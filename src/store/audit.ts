import { uuidv7 } from 'uuidv7';
import type { AuditEntry } from '../schemas/audit.ts';
import type { Database } from './database.ts';
import { prepare } from './prepared.ts';
import type { Tables } from './tables.ts';

export interface AuditStore {
  insert(entry: AuditEntry): Promise<void>;
  /** Newest first. */
  list(limit: number): Promise<(AuditEntry & { id: string; time: number })[]>;
}

/** The audit table: rows are added and read, never changed. */
export function createAuditStore(database: Database, { now = Date.now }: { now?: () => number } = {}): AuditStore {
  const { kysely } = database;
  const insertRow = prepare((p: Tables['audit']) =>
    kysely.insertInto('audit').values({
      id: p.id,
      time: p.time,
      principal: p.principal,
      action: p.action,
      outcome: p.outcome,
      agent_id: p.agent_id,
      connector_id: p.connector_id,
      tool: p.tool,
      arguments_hash: p.arguments_hash,
      duration_ms: p.duration_ms,
      bytes: p.bytes,
      detail: p.detail,
    }),
  );

  return {
    async insert(entry) {
      const row = {
        id: uuidv7(),
        time: now(),
        principal: entry.principal,
        action: entry.action,
        outcome: entry.outcome,
        agent_id: entry.agentId ?? null,
        connector_id: entry.connectorId ?? null,
        tool: entry.tool ?? null,
        arguments_hash: entry.argumentsHash ?? null,
        duration_ms: entry.durationMs === undefined ? null : Math.round(entry.durationMs),
        bytes: entry.bytes ?? null,
        detail: entry.detail ?? null,
      };
      await database.write((transaction) => insertRow(transaction, row));
    },

    async list(limit) {
      const rows = await kysely
        .selectFrom('audit')
        .selectAll()
        .orderBy('time', 'desc')
        .orderBy('id', 'desc')
        .limit(limit)
        .execute();
      return rows.map((row) => ({
        id: row.id,
        time: row.time,
        principal: row.principal,
        action: row.action,
        outcome: row.outcome,
        ...(row.agent_id !== null && { agentId: row.agent_id }),
        ...(row.connector_id !== null && { connectorId: row.connector_id }),
        ...(row.tool !== null && { tool: row.tool }),
        ...(row.arguments_hash !== null && { argumentsHash: row.arguments_hash }),
        ...(row.duration_ms !== null && { durationMs: row.duration_ms }),
        ...(row.bytes !== null && { bytes: row.bytes }),
        ...(row.detail !== null && { detail: row.detail }),
      }));
    },
  };
}
