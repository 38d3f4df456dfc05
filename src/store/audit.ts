import { uuidv7 } from 'uuidv7';
import type { AuditEntry, AuditQuery, AuditRow } from '../schemas/audit.ts';
import { auditCondition } from './audit-filter.ts';
import type { Database } from './database.ts';
import { prepare } from './prepared.ts';
import type { Tables } from './tables.ts';

/** Where a reading of all rows has got to: rows are in the order of time, then of id. */
export interface AuditPosition {
  readonly time: number;
  readonly id: string;
}

export interface AuditStore {
  insert(entry: AuditEntry): Promise<void>;
  /** Newest first. */
  list(limit: number): Promise<AuditRow[]>;
  search(query: AuditQuery): Promise<{ total: number; rows: AuditRow[] }>;
  /** Oldest first, from `range.from` (inclusive) to `range.to` (exclusive), after a position. */
  page(range: { from: number; to: number }, after: AuditPosition | undefined, limit: number): Promise<AuditRow[]>;
  /** Deletes at most `limit` of the oldest rows from before `time`; resolves with their number. */
  deleteBefore(time: number, limit: number): Promise<number>;
}

/** The audit table: rows are added, read and, when they are old, deleted; never changed. */
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
      arguments: p.arguments,
      result: p.result,
    }),
  );

  async function search({ filter, from, size, newestFirst }: AuditQuery): Promise<{ total: number; rows: AuditRow[] }> {
    const matching = kysely.selectFrom('audit').where((build) => auditCondition(build, filter));
    const order = newestFirst ? 'desc' : 'asc';
    const [{ total }, rows] = await Promise.all([
      matching.select((build) => build.fn.countAll<number | string>().as('total')).executeTakeFirstOrThrow(),
      matching.selectAll().orderBy('time', order).orderBy('id', order).limit(size).offset(from).execute(),
    ]);
    return { total: Number(total), rows: rows.map(fromRow) };
  }

  return {
    search,
    async insert(entry) {
      const row = {
        id: uuidv7(),
        time: now(),
        principal: storable(entry.principal),
        action: entry.action,
        outcome: entry.outcome,
        agent_id: entry.agentId ?? null,
        connector_id: entry.connectorId ?? null,
        tool: storable(entry.tool ?? null),
        arguments_hash: entry.argumentsHash ?? null,
        duration_ms: entry.durationMs === undefined ? null : Math.round(entry.durationMs),
        bytes: entry.bytes ?? null,
        detail: storable(entry.detail ?? null),
        arguments: storable(entry.arguments ?? null),
        result: storable(entry.result ?? null),
      };
      await database.write((transaction) => insertRow(transaction, row));
    },

    async list(limit) {
      return (await search({ filter: { kind: 'all' }, from: 0, size: limit, newestFirst: true })).rows;
    },

    async page({ from, to }, after, limit) {
      const inRange = kysely.selectFrom('audit').selectAll().where('time', '>=', from).where('time', '<', to);
      const rest = after
        ? inRange.where((build) =>
            build.and([
              build('time', '>=', after.time),
              build.or([build('time', '>', after.time), build('id', '>', after.id)]),
            ]),
          )
        : inRange;
      return (await rest.orderBy('time').orderBy('id').limit(limit).execute()).map(fromRow);
    },

    deleteBefore(time, limit) {
      return database.write(async (transaction) => {
        const oldest = transaction
          .selectFrom('audit')
          .select('id')
          .where('time', '<', time)
          .orderBy('time')
          .limit(limit);
        const { numDeletedRows } = await transaction
          .deleteFrom('audit')
          .where('id', 'in', oldest)
          .executeTakeFirstOrThrow();
        return Number(numDeletedRows);
      });
    },
  };
}

/** PostgreSQL keeps no NUL in a text; a name that holds one must not keep its row out. */
function storable<T extends string | null>(text: T): T {
  return (text?.replaceAll('\0', '\ufffd') ?? null) as T;
}

function fromRow(row: Tables['audit']): AuditRow {
  return {
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
    ...(row.arguments !== null && { arguments: row.arguments }),
    ...(row.result !== null && { result: row.result }),
  };
}
