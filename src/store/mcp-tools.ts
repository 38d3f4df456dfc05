import type { JsonObject } from '../json.ts';
import type { Database } from './database.ts';
import { prepare } from './prepared.ts';

export interface McpToolRow {
  readonly name: string;
  readonly definition: JsonObject;
  readonly hash: string;
  readonly present: boolean;
  readonly firstSeenTime: number;
  readonly lastSeenTime: number;
}

export interface OfferedName {
  readonly offeredAs: string;
  readonly connectorId: string;
  readonly tool: string;
}

export interface McpToolStore {
  /**
   * Registers a freshly read list: new rows appear, changed ones are rewritten, missing ones become absent. Of two
   * tools with one name the first counts.
   */
  replace(connectorId: string, tools: readonly { name: string; definition: JsonObject; hash: string }[]): Promise<void>;
  /** In the order of the server's list; absent ones last. */
  list(connectorId: string): Promise<McpToolRow[]>;
  deleteOf(connectorId: string): Promise<void>;
  offeredNames(agentId: string): Promise<OfferedName[]>;
  /** @throws UniqueViolation when the name or the tool already has a row in this agent. */
  claimName(agentId: string, name: OfferedName): Promise<void>;
  deleteNames(agentId: string): Promise<void>;
}

/** Rows written by one statement: keeps statements bounded and below the engines' limit of parameters. */
const ROWS_PER_STATEMENT = 100;

/** The registered tools of MCP servers, and the names agents offer them under. */
export function createMcpToolStore(database: Database, { now = Date.now }: { now?: () => number } = {}): McpToolStore {
  const { kysely } = database;
  const namesOf = prepare((p: { agentId: string }) =>
    kysely
      .selectFrom('offered_names')
      .select(['offered_as', 'connector_id', 'tool'])
      .where('agent_id', '=', p.agentId)
      .orderBy('create_time')
      .orderBy('offered_as'),
  );

  return {
    replace(connectorId, tools) {
      const names = new Set<string>();
      const unique = tools.filter(({ name }) => !names.has(name) && names.add(name));
      return database.write(async (transaction) => {
        const time = now();
        await transaction
          .updateTable('mcp_tools')
          .set({ present: 0 })
          .where('connector_id', '=', connectorId)
          .where('present', '=', 1)
          .execute();
        for (let start = 0; start < unique.length; start += ROWS_PER_STATEMENT) {
          const rows = unique.slice(start, start + ROWS_PER_STATEMENT).map((tool, index) => ({
            connector_id: connectorId,
            name: tool.name,
            definition: JSON.stringify(tool.definition),
            hash: tool.hash,
            position: start + index,
            present: 1,
            first_seen_time: time,
            last_seen_time: time,
          }));
          await transaction
            .insertInto('mcp_tools')
            .values(rows)
            .onConflict((conflict) =>
              conflict.columns(['connector_id', 'name']).doUpdateSet((row) => ({
                definition: row.ref('excluded.definition'),
                hash: row.ref('excluded.hash'),
                position: row.ref('excluded.position'),
                present: row.ref('excluded.present'),
                last_seen_time: row.ref('excluded.last_seen_time'),
              })),
            )
            .execute();
        }
      });
    },

    async list(connectorId) {
      const rows = await kysely
        .selectFrom('mcp_tools')
        .selectAll()
        .where('connector_id', '=', connectorId)
        .orderBy('present', 'desc')
        .orderBy('position')
        .execute();
      return rows.map((row) => ({
        name: row.name,
        definition: JSON.parse(row.definition) as JsonObject,
        hash: row.hash,
        present: row.present === 1,
        firstSeenTime: row.first_seen_time,
        lastSeenTime: row.last_seen_time,
      }));
    },

    async deleteOf(connectorId) {
      await database.write((transaction) =>
        transaction.deleteFrom('mcp_tools').where('connector_id', '=', connectorId).execute(),
      );
    },

    async offeredNames(agentId) {
      const { rows } = await namesOf(kysely, { agentId });
      return rows.map((row) => ({ offeredAs: row.offered_as, connectorId: row.connector_id, tool: row.tool }));
    },

    async claimName(agentId, { offeredAs, connectorId, tool }) {
      await database.write((transaction) =>
        transaction
          .insertInto('offered_names')
          .values({ agent_id: agentId, offered_as: offeredAs, connector_id: connectorId, tool, create_time: now() })
          .execute(),
      );
    },

    async deleteNames(agentId) {
      await database.write((transaction) =>
        transaction.deleteFrom('offered_names').where('agent_id', '=', agentId).execute(),
      );
    },
  };
}
