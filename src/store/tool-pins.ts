import type { JsonObject } from '../json.ts';
import type { Database } from './database.ts';
import { prepare } from './prepared.ts';

/** A definition of a tool, and what tells it from every other. */
export interface ToolDefinition {
  readonly connectorId: string;
  readonly tool: string;
  readonly hash: string;
  readonly definition: JsonObject;
}

export interface ToolPin {
  readonly connectorId: string;
  readonly tool: string;
  /** Of the definition that is trusted; absent: none ever was. */
  readonly hash?: string;
  readonly pinnedTime?: number;
  readonly approvedBy?: string;
  readonly approvedTime?: number;
  /** Of the newest other definition that was met. */
  readonly seenHash?: string;
  /** Hash of the other definition that each principal looked at last. */
  readonly shown: Readonly<Record<string, string>>;
}

export interface FullToolPin extends ToolPin {
  readonly definition?: JsonObject;
  readonly seenDefinition?: JsonObject;
}

/** What each agent trusts of the tools it names. Times are epoch milliseconds. */
export interface ToolPinStore {
  list(agentId: string): Promise<ToolPin[]>;
  /** `list` with the definitions. */
  full(agentId: string): Promise<FullToolPin[]>;
  /** Trusts these definitions of tools that have none that is trusted; those that do keep theirs. */
  pin(agentId: string, tools: readonly ToolDefinition[]): Promise<void>;
  /** Keeps a definition that is not trusted. @returns whether it is another one than was kept before */
  note(agentId: string, tool: ToolDefinition): Promise<boolean>;
  /** Trusts this definition in place of any other. */
  approve(agentId: string, tool: ToolDefinition, by: string): Promise<void>;
  /** Remembers which definitions a principal looked at. */
  show(
    agentId: string,
    principalId: string,
    tools: readonly Pick<ToolDefinition, 'connectorId' | 'tool' | 'hash'>[],
  ): Promise<void>;
  /** Of the whole agent, or of some connectors in it. */
  deleteOf(agentId: string, connectorIds?: readonly string[]): Promise<void>;
}

/** Rows written by one statement. */
const ROWS_PER_STATEMENT = 100;
/** Principals whose last look at a tool is remembered. */
const MAX_SHOWN = 50;

/** The pinned tool definitions of all agents. */
export function createToolPinStore(database: Database, { now = Date.now }: { now?: () => number } = {}): ToolPinStore {
  const { kysely } = database;
  const pinsOf = prepare((p: { agentId: string }) =>
    kysely
      .selectFrom('tool_pins')
      .select(['connector_id', 'tool', 'hash', 'pinned_time', 'approved_by', 'approved_time', 'seen_hash', 'shown'])
      .where('agent_id', '=', p.agentId)
      .orderBy('connector_id')
      .orderBy('tool'),
  );

  return {
    async list(agentId) {
      const { rows } = await pinsOf(kysely, { agentId });
      return rows.map(fromRow);
    },

    async full(agentId) {
      const rows = await kysely
        .selectFrom('tool_pins')
        .selectAll()
        .where('agent_id', '=', agentId)
        .orderBy('connector_id')
        .orderBy('tool')
        .execute();
      return rows.map((row) => ({
        ...fromRow(row),
        ...(row.definition !== null && { definition: JSON.parse(row.definition) as JsonObject }),
        ...(row.seen_definition !== null && { seenDefinition: JSON.parse(row.seen_definition) as JsonObject }),
      }));
    },

    async pin(agentId, tools) {
      await database.write(async (transaction) => {
        const time = now();
        for (let start = 0; start < tools.length; start += ROWS_PER_STATEMENT) {
          const rows = tools
            .slice(start, start + ROWS_PER_STATEMENT)
            .map(({ connectorId, tool, hash, definition }) => ({
              agent_id: agentId,
              connector_id: connectorId,
              tool,
              hash,
              definition: JSON.stringify(definition),
              pinned_time: time,
            }));
          await transaction
            .insertInto('tool_pins')
            .values(rows)
            .onConflict((conflict) =>
              conflict
                .columns(['agent_id', 'connector_id', 'tool'])
                .doUpdateSet((row) => ({
                  hash: row.ref('excluded.hash'),
                  definition: row.ref('excluded.definition'),
                  pinned_time: row.ref('excluded.pinned_time'),
                  seen_hash: null,
                  seen_definition: null,
                  seen_time: null,
                  shown: null,
                }))
                .where('tool_pins.hash', 'is', null),
            )
            .execute();
        }
      });
    },

    note(agentId, { connectorId, tool, hash, definition }) {
      return database.write(async (transaction) => {
        const before = await transaction
          .selectFrom('tool_pins')
          .select(['hash', 'seen_hash'])
          .where('agent_id', '=', agentId)
          .where('connector_id', '=', connectorId)
          .where('tool', '=', tool)
          .executeTakeFirst();
        if (before?.seen_hash === hash || before?.hash === hash) return false;
        const seen = { seen_hash: hash, seen_definition: JSON.stringify(definition), seen_time: now() };
        await transaction
          .insertInto('tool_pins')
          .values({ agent_id: agentId, connector_id: connectorId, tool, ...seen })
          .onConflict((conflict) => conflict.columns(['agent_id', 'connector_id', 'tool']).doUpdateSet(seen))
          .execute();
        return true;
      });
    },

    async approve(agentId, { connectorId, tool, hash, definition }, by) {
      const time = now();
      const row = {
        hash,
        definition: JSON.stringify(definition),
        pinned_time: time,
        approved_by: by,
        approved_time: time,
        seen_hash: null,
        seen_definition: null,
        seen_time: null,
        shown: null,
      };
      await database.write((transaction) =>
        transaction
          .insertInto('tool_pins')
          .values({ agent_id: agentId, connector_id: connectorId, tool, ...row })
          .onConflict((conflict) => conflict.columns(['agent_id', 'connector_id', 'tool']).doUpdateSet(row))
          .execute(),
      );
    },

    async show(agentId, principalId, tools) {
      await database.write(async (transaction) => {
        for (const { connectorId, tool, hash } of tools) {
          const row = await transaction
            .selectFrom('tool_pins')
            .select('shown')
            .where('agent_id', '=', agentId)
            .where('connector_id', '=', connectorId)
            .where('tool', '=', tool)
            .executeTakeFirst();
          const { [principalId]: _earlier, ...others } = shownOf(row?.shown ?? null);
          const kept = [...Object.entries(others).slice(1 - MAX_SHOWN), [principalId, hash]];
          await transaction
            .updateTable('tool_pins')
            .set({ shown: JSON.stringify(Object.fromEntries(kept)) })
            .where('agent_id', '=', agentId)
            .where('connector_id', '=', connectorId)
            .where('tool', '=', tool)
            .execute();
        }
      });
    },

    async deleteOf(agentId, connectorIds) {
      if (connectorIds?.length === 0) return;
      await database.write((transaction) => {
        const all = transaction.deleteFrom('tool_pins').where('agent_id', '=', agentId);
        return (connectorIds === undefined ? all : all.where('connector_id', 'in', connectorIds)).execute();
      });
    },
  };
}

interface PinRow {
  readonly connector_id: string;
  readonly tool: string;
  readonly hash: string | null;
  readonly pinned_time: number | null;
  readonly approved_by: string | null;
  readonly approved_time: number | null;
  readonly seen_hash: string | null;
  readonly shown: string | null;
}

function fromRow(row: PinRow): ToolPin {
  return {
    connectorId: row.connector_id,
    tool: row.tool,
    ...(row.hash !== null && { hash: row.hash }),
    ...(row.pinned_time !== null && { pinnedTime: row.pinned_time }),
    ...(row.approved_by !== null && { approvedBy: row.approved_by }),
    ...(row.approved_time !== null && { approvedTime: row.approved_time }),
    ...(row.seen_hash !== null && { seenHash: row.seen_hash }),
    shown: shownOf(row.shown),
  };
}

function shownOf(text: string | null): Record<string, string> {
  return text === null ? {} : (JSON.parse(text) as Record<string, string>);
}
