import type { Connector, Connectors } from '../connectors/types.ts';
import type { JsonObject } from '../json.ts';
import type { DiscoveredTool } from '../mcp/types.ts';
import type { Settings } from '../settings/types.ts';
import type { McpToolRow, McpToolStore } from '../store/mcp-tools.ts';
import { nameTools } from './offered-names.ts';
import { pinWarnings } from './pin-warnings.ts';
import type { MetTool, ToolPins } from './pins.ts';
import { type AgentToolSources, connectorIds, isWanted, type McpSource } from './sources.ts';
import { PERMISSION_DEFAULT, permissionDefault, toolPolicy } from './tool-policy.ts';
import { judge, type ToolVerdict } from './verdicts.ts';

/** A tool that a connector is known to have. */
export interface KnownTool {
  readonly definition: DiscoveredTool;
  /** In the list its server gave last. */
  readonly present: boolean;
  /** The agent names it, and its server lists it. */
  readonly wanted: boolean;
  /** It may stand in for a tool of a connector that fails. */
  readonly spare: boolean;
  /** Of wanted ones. */
  readonly offeredAs?: string;
  readonly verdict: ToolVerdict;
}

/** What is known of a connector's tools in an agent without asking the server. */
export interface KnownTools {
  readonly connectorId: string;
  /** `undefined` for one that does not exist. */
  readonly connector: Connector | undefined;
  /** Entries of the agent that name it; none for one that is a fallback only. */
  readonly sources: readonly McpSource[];
  readonly tools: readonly KnownTool[];
  readonly offered: readonly string[];
  readonly leftOut: readonly { readonly name: string; readonly reason: string }[];
  readonly warnings: readonly string[];
}

export interface KnownToolsDeps {
  readonly connectors: Pick<Connectors, 'find'>;
  readonly mcpTools: Pick<McpToolStore, 'list' | 'offeredNames' | 'claimName'>;
  readonly settings: Pick<Settings, 'text'>;
  readonly pins: Pick<ToolPins, 'review'>;
}

interface Listed {
  readonly connectorId: string;
  readonly connector: Connector | undefined;
  readonly sources: readonly McpSource[];
  readonly rows: readonly (McpToolRow & { readonly wanted: boolean; readonly spare: boolean })[];
}

/** The stored tools of each connector that an agent names, and whether the agent wants them. */
async function listed(
  sources: AgentToolSources,
  { connectors, mcpTools }: Pick<KnownToolsDeps, 'connectors' | 'mcpTools'>,
) {
  return Promise.all(
    connectorIds(sources).map(async (connectorId): Promise<Listed> => {
      const [connector, rows] = await Promise.all([connectors.find(connectorId), mcpTools.list(connectorId)]);
      const own = sources.mcp.filter((source) => source.connectorId === connectorId);
      const spare = sources.mcp.filter((source) => source.fallbackConnectorId === connectorId);
      const by = (entries: readonly McpSource[], row: McpToolRow): boolean =>
        row.present && entries.some((source) => isWanted(row.name, source.filters));
      return {
        connectorId,
        connector,
        sources: own,
        rows: rows.map((row) => ({ ...row, wanted: by(own, row), spare: by(spare, row) })),
      };
    }),
  );
}

/** Tools an agent may come to call, as they are stored. */
export async function storedTools(
  sources: AgentToolSources,
  deps: Pick<KnownToolsDeps, 'connectors' | 'mcpTools'>,
): Promise<MetTool[]> {
  return (await listed(sources, deps)).flatMap(met);
}

/** One entry per connector, from the lists read last. Names and pins are stored as for a run. */
export async function knownTools(
  agentId: string,
  agent: JsonObject,
  sources: AgentToolSources,
  deps: KnownToolsDeps,
): Promise<KnownTools[]> {
  const policy = toolPolicy(agent);
  const byDefault = permissionDefault(deps.settings.text(PERMISSION_DEFAULT));
  const lists = await listed(sources, deps);
  const [named, review] = await Promise.all([
    nameTools(
      agentId,
      lists.flatMap(({ connectorId, connector, rows }) =>
        rows.flatMap(({ name: tool, wanted }) =>
          wanted
            ? {
                connectorId,
                connectorName: connector?.name ?? connectorId,
                tool,
                declared: connector?.declared !== undefined,
              }
            : [],
        ),
      ),
      deps.mcpTools,
    ),
    deps.pins.review(agentId, policy.trust, lists.flatMap(met)),
  ]);
  return lists.map(({ connectorId, connector, sources: entries, rows }) => {
    const tools = rows.map((row): KnownTool => {
      const { present, wanted, spare, name } = row;
      const definition = discovered(row);
      const offeredAs = wanted ? named.of(connectorId, name) : undefined;
      const { annotations } = definition;
      const fallbackConnectorId = entries.find(({ filters }) => isWanted(name, filters))?.fallbackConnectorId;
      const subject = { connectorId, target: connectorId, fallbackConnectorId, name, offeredAs, annotations };
      const verdict = judge(subject, policy, byDefault, review);
      return { definition, present, wanted, spare, ...(offeredAs !== undefined && { offeredAs }), verdict };
    });
    const judged = tools.flatMap(({ definition: { name }, wanted, spare, verdict }) =>
      wanted || spare ? { name, verdict } : [],
    );
    const subject = { id: connectorId, name: connector?.name ?? connectorId };
    return {
      connectorId,
      connector,
      sources: entries,
      tools,
      offered: tools.flatMap(({ offeredAs, verdict }) => (verdict.withheld ? [] : (offeredAs ?? []))),
      leftOut: judged.flatMap(({ name, verdict: { withheld } }) =>
        withheld === undefined ? [] : { name, reason: withheld.message },
      ),
      warnings: [...idleFilters(entries, rows), ...pinWarnings(agentId, subject, judged)],
    };
  });
}

function met({ connectorId, rows }: Listed): MetTool[] {
  return rows.flatMap((row) => (row.wanted || row.spare ? { connectorId, tool: discovered(row) } : []));
}

/** As the list of its server held it. */
export function discovered({ definition, hash }: McpToolRow): DiscoveredTool {
  return { ...definition, hash } as unknown as DiscoveredTool;
}

/** Filters that no tool of a list matches; of a list that was never read nothing is said. */
function idleFilters(sources: readonly McpSource[], rows: readonly McpToolRow[]): string[] {
  const present = rows.filter((row) => row.present);
  if (present.length === 0) return [];
  return sources
    .flatMap(({ filters }) => filters.filter((filter) => !present.some(({ name }) => filter.test(name))))
    .map(
      ({ source }) =>
        `tool_filters: ${JSON.stringify(source)} matches no tool of this connector; a pattern must match the whole name`,
    );
}
