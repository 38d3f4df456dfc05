import type { Connectors } from '../connectors/types.ts';
import { INVALID_ARGUMENT, MCP_DISABLED } from '../errors.ts';
import type { Authorization } from '../identity/types.ts';
import type { JsonObject } from '../json.ts';
import type { McpCaller, McpSessions } from '../mcp/types.ts';
import type { Settings } from '../settings/types.ts';
import type { McpToolStore } from '../store/mcp-tools.ts';
import type { Logger } from '../telemetry/logger.ts';
import { createCallGuard } from './call-guard.ts';
import { type ForeseenTools, type ForesightRequest, foreseenTools } from './foreseen-tools.ts';
import { type KnownTools, knownTools, storedTools } from './known-tools.ts';
import { createMcpTool } from './mcp-tool.ts';
import { pinWarnings } from './pin-warnings.ts';
import type { ToolPins } from './pins.ts';
import { isSelected, MAX_OFFERED, type PlannedTool, planTools } from './plan.ts';
import { toolsOfSource } from './source-tools.ts';
import { type AgentToolSources, connectorIds, toolSources } from './sources.ts';
import type { ResolvedTools, Tool } from './tool.ts';
import { type ToolPolicy, toolPolicy } from './tool-policy.ts';

export interface ToolRegistryDeps {
  readonly sessions: Pick<McpSessions, 'tools' | 'call' | 'watchPause'>;
  readonly connectors: Pick<Connectors, 'find' | 'visible' | 'joinedTo'>;
  readonly mcpTools: Pick<McpToolStore, 'list' | 'offeredNames' | 'claimName'>;
  readonly settings: Pick<Settings, 'flag' | 'text'>;
  readonly pins: ToolPins;
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

export interface ToolRegistry {
  /**
   * The tools an agent may call now; connectors are opened in parallel and one that fails, or that the caller may not
   * use, is reported as missing. Tools that the agent's own parameters deny, or that are not as they were pinned where that
   * blocks, are withheld.
   * @throws INVALID_ARGUMENT (a tool type nobody serves, more tools than a model takes), MCP_DISABLED,
   * UpstreamError, CONNECTOR_NOT_FOUND or FORBIDDEN of a connector that is required.
   */
  resolve(request: ResolveRequest): Promise<ResolvedTools>;
  /**
   * What `resolve` would answer if every server that can be reached still had the list it gave last. No server is asked, and
   * neither a required connector that fails nor too many tools is an error.
   */
  foreseen(request: ForesightRequest): Promise<ForeseenTools>;
  /** One entry per connector, from the lists read last. Names and pins are stored as `resolve` would. */
  known(agentId: string, agent: JsonObject): Promise<KnownTools[]>;
  /**
   * Pins what is known of the tools of an agent that was registered, or changed by a person: then those that it did not name
   * `before`. Pins of connectors that it names no more are dropped.
   */
  pin(agentId: string, agent: JsonObject, before?: JsonObject): Promise<void>;
  /** Drops the pins of an agent that is gone. */
  unpin(agentId: string): Promise<void>;
}

const MCP_ENABLED = 'plugins.ml_commons.mcp_connector_enabled';

/** Turns what an agent names into tools. */
export function createToolRegistry(deps: ToolRegistryDeps): ToolRegistry {
  const { connectors, settings, pins } = deps;

  function sourcesOf(agentId: string, agent: JsonObject): AgentToolSources {
    const joined = settings.flag(MCP_ENABLED) ? connectors.joinedTo({ id: agentId, name: String(agent.name) }) : [];
    return toolSources(agent, joined);
  }

  function offer(
    { found, offeredAs, verdict }: PlannedTool,
    policy: ToolPolicy,
    { agentId, parameters }: ResolveRequest,
  ): Tool {
    const { source, target, tool } = found;
    const description =
      parameters[`${offeredAs}.description`] ??
      source.descriptions.get(tool.name) ??
      tool.description ??
      tool.title ??
      offeredAs;
    const { annotations, inputSchema } = tool;
    const fallback =
      target === source.connectorId && source.fallbackConnectorId !== undefined
        ? { fallbackConnectorId: source.fallbackConnectorId }
        : {};
    const permission = verdict.permission === 'ask' ? 'ask' : 'allow';
    return createMcpTool(
      {
        offeredAs,
        connectorId: target,
        ...fallback,
        tool: tool.name,
        hash: tool.hash,
        description,
        inputSchema,
        annotations,
        includeOutput: source.includeOutput,
        permission,
        guard: createCallGuard(agentId, found, { offeredAs, permission }, policy, deps),
      },
      deps,
    );
  }

  return {
    async resolve(request) {
      const sources = sourcesOf(request.agentId, request.agent);
      const unserved = sources.otherTypes[0];
      if (unserved !== undefined) throw new INVALID_ARGUMENT(`Tool type not found: ${unserved}`);
      if (sources.mcp.length > 0 && !settings.flag(MCP_ENABLED)) throw new MCP_DISABLED();
      const policy = toolPolicy(request.agent);
      const lists = await Promise.all(sources.mcp.map((source) => toolsOfSource(source, request, deps)));
      const all = await planTools(request.agentId, lists, policy, deps);
      const wanted = all.filter((each) => isSelected(each, request.selected));
      const offered = wanted.filter(({ verdict }) => verdict.withheld === undefined);
      if (offered.length > MAX_OFFERED) throw new INVALID_ARGUMENT(tooMany(offered));
      return {
        tools: offered.map((each) => offer(each, policy, request)),
        missing: lists.flatMap((list) => list.missing ?? []),
        withheld: wanted.flatMap(({ found: { source, tool }, offeredAs, verdict: { withheld } }) =>
          withheld === undefined ? [] : { tool: tool.name, offeredAs, connectorId: source.connectorId, ...withheld },
        ),
        warnings: warningsOf(request.agentId, wanted),
      };
    },

    foreseen: (request) => foreseenTools(request, sourcesOf(request.agentId, request.agent), deps),
    known: (agentId, agent) => knownTools(agentId, agent, sourcesOf(agentId, agent), deps),

    async pin(agentId, agent, before) {
      const sources = sourcesOf(agentId, agent);
      const tools = await storedTools(sources, deps);
      if (before === undefined) {
        await pins.forget(agentId);
        return pins.adopt(agentId, tools);
      }
      const named = sourcesOf(agentId, before);
      const ids = connectorIds(sources);
      await pins.forget(
        agentId,
        connectorIds(named).filter((id) => !ids.includes(id)),
      );
      const earlier = new Set((await storedTools(named, deps)).map(keyOf));
      await pins.adopt(
        agentId,
        tools.filter((each) => !earlier.has(keyOf(each))),
      );
    },

    unpin: (agentId) => pins.forget(agentId),
  };
}

function keyOf({ connectorId, tool }: { connectorId: string; tool: { name: string } }): string {
  return `${connectorId}\0${tool.name}`;
}

function warningsOf(agentId: string, tools: readonly PlannedTool[]): string[] {
  const connectors = new Map(tools.map(({ found: { target, from } }) => [target, from.name]));
  return [...connectors].flatMap(([id, name]) =>
    pinWarnings(
      agentId,
      { id, name },
      tools.flatMap(({ found: { target, tool }, verdict }) => (target === id ? { name: tool.name, verdict } : [])),
    ),
  );
}

function tooMany(tools: readonly PlannedTool[]): string {
  const counts = new Map<string, { readonly name: string; readonly count: number }>();
  for (const { found } of tools) {
    counts.set(found.target, { name: found.from.name, count: (counts.get(found.target)?.count ?? 0) + 1 });
  }
  const list = [...counts].map(([id, { name, count }]) => `connector "${name}" (${id}) ${count}`).join(', ');
  return `The agent offers more tools than a model takes (${tools.length} > ${MAX_OFFERED}): ${list}. Name the ones that are needed with tool_filters, or with selected_tools in the request`;
}
