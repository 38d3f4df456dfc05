import type { Connectors } from '../connectors/types.ts';
import { INVALID_ARGUMENT, MCP_DISABLED } from '../errors.ts';
import type { Authorization } from '../identity/types.ts';
import type { JsonObject } from '../json.ts';
import type { McpCaller, McpSessions } from '../mcp/types.ts';
import type { Settings } from '../settings/types.ts';
import type { McpToolStore } from '../store/mcp-tools.ts';
import type { Logger } from '../telemetry/logger.ts';
import { createMcpTool } from './mcp-tool.ts';
import { nameTools } from './offered-names.ts';
import { type FoundTool, type SourceTools, toolsOfSource } from './source-tools.ts';
import { connectorIds, isWanted, toolSources } from './sources.ts';
import type { ResolvedTools, Tool } from './tool.ts';

export interface ToolRegistryDeps {
  readonly sessions: Pick<McpSessions, 'tools' | 'call'>;
  readonly connectors: Pick<Connectors, 'find' | 'visible'>;
  readonly mcpTools: Pick<McpToolStore, 'list' | 'offeredNames' | 'claimName'>;
  readonly settings: Pick<Settings, 'flag'>;
  /** Audits what the caller's roles or the owner of a connector refuse. */
  readonly authorization: Pick<Authorization, 'refused'>;
  readonly log: Logger;
}

interface ResolveRequest {
  readonly agentId: string;
  /** The agent's document. */
  readonly agent: JsonObject;
  /** Of the caller: `"<tool>.description"` replaces a description. */
  readonly parameters: Readonly<Record<string, string>>;
  /** Offered or own names; the others are left out. `undefined` offers all. */
  readonly selected?: readonly string[];
  /** Who runs the agent: what it may not use is left out. Its own headers go on to connectors that name them. */
  readonly caller: McpCaller;
  readonly signal: AbortSignal;
}

/** What is known of a connector's tools in an agent without asking the server. */
export interface KnownTools {
  readonly connectorId: string;
  readonly offered: readonly string[];
  readonly warnings: readonly string[];
}

export interface ToolRegistry {
  /**
   * The tools an agent may call now; connectors are opened in parallel and one that fails, or that the caller may not
   * use, is reported as missing.
   * @throws INVALID_ARGUMENT (a tool type nobody serves, more tools than a model takes), MCP_DISABLED,
   * UpstreamError, CONNECTOR_NOT_FOUND or FORBIDDEN of a connector that is required.
   */
  resolve(request: ResolveRequest): Promise<ResolvedTools>;
  /** One entry per connector, from the lists read last. Names are stored as `resolve` would. */
  known(agentId: string, agent: JsonObject): Promise<KnownTools[]>;
}

const MAX_TOOLS = 128;

/** Turns what an agent names into tools. */
export function createToolRegistry(deps: ToolRegistryDeps): ToolRegistry {
  const { connectors, mcpTools, settings } = deps;

  async function offer(found: readonly FoundTool[], request: ResolveRequest): Promise<Tool[]> {
    const names = await nameTools(
      request.agentId,
      found.map(({ source, connectorName, tool }) => ({
        connectorId: source.connectorId,
        connectorName,
        tool: tool.name,
      })),
      mcpTools,
    );
    return found.flatMap(({ source, target, tool }) => {
      const offeredAs = names.of(source.connectorId, tool.name);
      if (offeredAs === undefined) return [];
      if (request.selected && !request.selected.includes(offeredAs) && !request.selected.includes(tool.name)) return [];
      const description =
        request.parameters[`${offeredAs}.description`] ??
        source.descriptions.get(tool.name) ??
        tool.description ??
        tool.title ??
        tool.name;
      const { annotations, inputSchema } = tool;
      const fallback =
        target === source.connectorId && source.fallbackConnectorId !== undefined
          ? { fallbackConnectorId: source.fallbackConnectorId }
          : {};
      return createMcpTool(
        {
          offeredAs,
          connectorId: target,
          ...fallback,
          tool: tool.name,
          description,
          inputSchema,
          annotations,
          includeOutput: source.includeOutput,
        },
        deps,
      );
    });
  }

  return {
    async resolve(request) {
      const sources = toolSources(request.agent);
      const unserved = sources.otherTypes[0];
      if (unserved !== undefined) throw new INVALID_ARGUMENT(`Tool type not found: ${unserved}`);
      if (sources.mcp.length > 0 && !settings.flag('plugins.ml_commons.mcp_connector_enabled'))
        throw new MCP_DISABLED();
      const lists = await Promise.all(sources.mcp.map((source) => toolsOfSource(source, request, deps)));
      const found = distinct(lists);
      const tools = await offer(found, request);
      if (tools.length > MAX_TOOLS) throw new INVALID_ARGUMENT(tooMany(tools, found));
      return { tools, missing: lists.flatMap((list) => list.missing ?? []) };
    },

    async known(agentId, agent) {
      const { mcp } = toolSources(agent);
      const ids = connectorIds({ mcp, otherTypes: [] });
      const lists = await Promise.all(
        ids.map(async (connectorId) => {
          const connector = await connectors.find(connectorId);
          const rows = (await mcpTools.list(connectorId)).filter((row) => row.present).map((row) => row.name);
          const sources = mcp.filter((source) => source.connectorId === connectorId);
          const wanted = rows.filter((row) => sources.some((source) => isWanted(row, source.filters)));
          const idle = sources.flatMap((source) =>
            source.filters.filter((filter) => !rows.some((row) => filter.test(row))).map(({ source }) => source),
          );
          const connectorName = connector?.name ?? connectorId;
          return { connectorId, connectorName, wanted, idle: rows.length === 0 ? [] : idle };
        }),
      );
      const named = await nameTools(
        agentId,
        lists.flatMap(({ connectorId, connectorName, wanted }) =>
          wanted.map((tool) => ({ connectorId, connectorName, tool })),
        ),
        mcpTools,
      );
      return lists.map(({ connectorId, wanted, idle }) => ({
        connectorId,
        offered: wanted.flatMap((tool) => named.of(connectorId, tool) ?? []),
        warnings: idle.map(
          (filter) =>
            `tool_filters: ${JSON.stringify(filter)} matches no tool of this connector; a pattern must match the whole name`,
        ),
      }));
    },
  };
}

/** A tool that several entries name is offered once, as the first of them says. */
function distinct(lists: readonly SourceTools[]): FoundTool[] {
  const byKey = new Map<string, FoundTool>();
  for (const found of lists.flatMap((list) => list.found)) {
    const key = `${found.source.connectorId}\0${found.tool.name}`;
    if (!byKey.has(key)) byKey.set(key, found);
  }
  return [...byKey.values()];
}

function tooMany(tools: readonly Tool[], found: readonly FoundTool[]): string {
  const names = new Map(found.map(({ target, connectorName }) => [target, connectorName]));
  const counts = new Map<string, number>();
  for (const { source } of tools) {
    if (source) counts.set(source.connectorId, (counts.get(source.connectorId) ?? 0) + 1);
  }
  const list = [...counts].map(([id, count]) => `connector "${names.get(id) ?? id}" (${id}) ${count}`).join(', ');
  return `The agent offers more tools than a model takes (${tools.length} > ${MAX_TOOLS}): ${list}. Name the ones that are needed with tool_filters, or with selected_tools in the request`;
}
