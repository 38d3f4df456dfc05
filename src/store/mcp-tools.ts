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
   * tools with one name the first counts. Of the absent ones the 1,000 seen last are kept.
   */
  replace(connectorId: string, tools: readonly { name: string; definition: JsonObject; hash: string }[]): Promise<void>;
  /** In the order of the server's list; absent ones last. */
  list(connectorId: string): Promise<McpToolRow[]>;
  /** Names of the tools that are there, by connector and in the order of its list; of one connector or of all. */
  presentNames(connectorId?: string): Promise<ReadonlyMap<string, readonly string[]>>;
  deleteOf(connectorId: string): Promise<void>;
  offeredNames(agentId: string): Promise<OfferedName[]>;
  /**
   * A name never changes its meaning while its tool is there. Of a server that keeps renaming its tools only the newest
   * names stay: beyond 8,192 names of one agent the oldest whose tools are absent are given up, down to 4,096, and such a
   * tool that comes back is named like a new one.
   * @throws UniqueViolation when the name or the tool already has a row in this agent. */
  claimName(agentId: string, name: OfferedName): Promise<void>;
  deleteNames(agentId: string): Promise<void>;
}

/** Rows written by one statement: keeps statements bounded and below the engines' limit of parameters. */
const ROWS_PER_STATEMENT = 100;
const MAX_ABSENT = 1000;
const MAX_NAMES = 8192;
const KEPT_NAMES = 4096;

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
        await transaction
          .deleteFrom('mcp_tools')
          .where('connector_id', '=', connectorId)
          .where('present', '=', 0)
          .where('name', 'not in', (older) =>
            older
              .selectFrom('mcp_tools')
              .select('name')
              .where('connector_id', '=', connectorId)
              .where('present', '=', 0)
              .orderBy('last_seen_time', 'desc')
              .orderBy('position')
              .limit(MAX_ABSENT),
          )
          .execute();
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

    async presentNames(connectorId) {
      const all = kysely.selectFrom('mcp_tools').select(['connector_id', 'name']).where('present', '=', 1);
      const wanted = connectorId === undefined ? all : all.where('connector_id', '=', connectorId);
      const names = new Map<string, string[]>();
      for (const row of await wanted.orderBy('connector_id').orderBy('position').execute()) {
        const known = names.get(row.connector_id);
        if (known === undefined) names.set(row.connector_id, [row.name]);
        else known.push(row.name);
      }
      return names;
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
      await database.write(async (transaction) => {
        await transaction
          .insertInto('offered_names')
          .values({ agent_id: agentId, offered_as: offeredAs, connector_id: connectorId, tool, create_time: now() })
          .execute();
        const names = await transaction
          .selectFrom('offered_names')
          .select(({ fn }) => fn.countAll<number | string>().as('count'))
          .where('agent_id', '=', agentId)
          .executeTakeFirst();
        const count = Number(names?.count ?? 0);
        if (count <= MAX_NAMES) return;
        await transaction
          .deleteFrom('offered_names')
          .where('agent_id', '=', agentId)
          .where('offered_as', 'in', (oldest) =>
            oldest
              .selectFrom('offered_names as n')
              .select('n.offered_as')
              .where('n.agent_id', '=', agentId)
              .where(({ not, exists, selectFrom }) =>
                not(
                  exists(
                    selectFrom('mcp_tools as t')
                      .select('t.name')
                      .whereRef('t.connector_id', '=', 'n.connector_id')
                      .whereRef('t.name', '=', 'n.tool')
                      .where('t.present', '=', 1),
                  ),
                ),
              )
              .orderBy('n.create_time')
              .orderBy('n.offered_as')
              .limit(count - KEPT_NAMES),
          )
          .execute();
      });
    },

    async deleteNames(agentId) {
      await database.write((transaction) =>
        transaction.deleteFrom('offered_names').where('agent_id', '=', agentId).execute(),
      );
    },
  };
}
