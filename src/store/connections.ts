import type { Kysely } from 'kysely';
import { uuidv7 } from 'uuidv7';
import type { JsonObject } from '../json.ts';
import type { Database } from './database.ts';
import type { Tables } from './tables.ts';

export interface ConnectionStateRow {
  readonly connectorId: string;
  readonly status: string;
  readonly body: JsonObject;
  readonly since: number;
}

export interface ConnectionTransition {
  readonly from: string;
  readonly to: string;
  readonly cause: string;
  readonly code?: string;
  readonly message?: string;
  readonly time: number;
}

export interface ConnectionStore {
  /**
   * Writes the state and, when the status changed, its transition, in one transaction. A stored `disabled` is kept unless
   * `overrides` says that whoever writes knows of it: another process may have been told so.
   */
  save(state: ConnectionStateRow, transition?: ConnectionTransition, options?: { overrides: boolean }): Promise<void>;
  /** Ids of those that are `disabled`. */
  disabled(): Promise<string[]>;
  state(connectorId: string): Promise<ConnectionStateRow | undefined>;
  states(): Promise<ConnectionStateRow[]>;
  /** Newest first. */
  history(connectorId: string, limit: number): Promise<ConnectionTransition[]>;
  deleteOf(connectorId: string): Promise<void>;
}

/** Transitions that are kept of each connection. */
const KEPT = 1000;

/** The last known state of each connection, and the newest 1,000 transitions that led there. */
export function createConnectionStore(database: Database): ConnectionStore {
  const { kysely } = database;
  return {
    save(state, transition, { overrides } = { overrides: false }) {
      return database.write(async (transaction) => {
        const row = { status: state.status, body: JSON.stringify(state.body), since: state.since };
        await transaction
          .insertInto('connection_states')
          .values({ connector_id: state.connectorId, ...row })
          .onConflict((conflict) => {
            const update = conflict.column('connector_id').doUpdateSet(row);
            return overrides ? update : update.where('connection_states.status', '!=', 'disabled');
          })
          .execute();
        if (!transition) return;
        await transaction
          .insertInto('connection_transitions')
          .values({
            id: uuidv7(),
            connector_id: state.connectorId,
            from_status: transition.from,
            to_status: transition.to,
            cause: transition.cause,
            code: transition.code ?? null,
            message: transition.message ?? null,
            time: transition.time,
          })
          .execute();
        const oldest = await newestFirst(transaction, state.connectorId).offset(KEPT).limit(1).executeTakeFirst();
        if (oldest === undefined) return;
        await transaction
          .deleteFrom('connection_transitions')
          .where('connector_id', '=', state.connectorId)
          .where(({ eb, and, or }) =>
            or([eb('time', '<', oldest.time), and([eb('time', '=', oldest.time), eb('id', '<=', oldest.id)])]),
          )
          .execute();
      });
    },

    async disabled() {
      const rows = await kysely
        .selectFrom('connection_states')
        .select('connector_id')
        .where('status', '=', 'disabled')
        .execute();
      return rows.map((row) => row.connector_id);
    },

    async state(connectorId) {
      const row = await kysely
        .selectFrom('connection_states')
        .selectAll()
        .where('connector_id', '=', connectorId)
        .executeTakeFirst();
      return row && fromRow(row);
    },

    async states() {
      const rows = await kysely.selectFrom('connection_states').selectAll().orderBy('connector_id').execute();
      return rows.map(fromRow);
    },

    async history(connectorId, limit) {
      const rows = await newestFirst(kysely, connectorId).selectAll().limit(limit).execute();
      return rows.map((row) => ({
        from: row.from_status,
        to: row.to_status,
        cause: row.cause,
        ...(row.code !== null && { code: row.code }),
        ...(row.message !== null && { message: row.message }),
        time: row.time,
      }));
    },

    deleteOf(connectorId) {
      return database.write(async (transaction) => {
        await transaction.deleteFrom('connection_states').where('connector_id', '=', connectorId).execute();
        await transaction.deleteFrom('connection_transitions').where('connector_id', '=', connectorId).execute();
      });
    },
  };
}

function newestFirst(from: Kysely<Tables>, connectorId: string) {
  return from
    .selectFrom('connection_transitions')
    .select(['id', 'time'])
    .where('connector_id', '=', connectorId)
    .orderBy('time', 'desc')
    .orderBy('id', 'desc');
}

function fromRow(row: Tables['connection_states']): ConnectionStateRow {
  return {
    connectorId: row.connector_id,
    status: row.status,
    body: JSON.parse(row.body) as JsonObject,
    since: row.since,
  };
}
