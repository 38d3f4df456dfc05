import type { Connectors } from '../connectors/types.ts';
import { type CauseCode, UpstreamError } from '../errors.ts';
import type { Principal } from '../identity/principal.ts';
import type { JsonObject } from '../json.ts';
import type { DiscoveredTool } from '../mcp/types.ts';
import type { McpToolStore } from '../store/mcp-tools.ts';
import type { Logger } from '../telemetry/logger.ts';
import { discovered } from './known-tools.ts';
import { isSelected, type PlanDeps, planTools } from './plan.ts';
import { type SourceTools, toolsOfSource } from './source-tools.ts';
import type { AgentToolSources, McpSource } from './sources.ts';
import { toolPolicy } from './tool-policy.ts';
import type { ToolVerdict } from './verdicts.ts';

/** Why the list of a connector cannot be read now. */
export interface Unreachable {
  readonly code: CauseCode;
  readonly message: string;
}

export interface ForesightRequest {
  readonly agentId: string;
  /** The agent's document. */
  readonly agent: JsonObject;
  /** As for `resolve`. */
  readonly selected?: readonly string[];
  readonly principal: Principal;
  /** `undefined`: its list would be read. */
  readonly unreachable: (connectorId: string) => Unreachable | undefined;
}

/** A tool that a run would find. */
export interface ForeseenTool {
  /** Connector the agent names. */
  readonly connectorId: string;
  /** Connector the calls go to: that one, or its fallback. */
  readonly target: string;
  readonly definition: DiscoveredTool;
  readonly offeredAs: string;
  readonly verdict: ToolVerdict;
  /** Named by `selected`, or all are. */
  readonly selected: boolean;
}

/** What `resolve` would answer. */
export interface ForeseenTools {
  readonly tools: readonly ForeseenTool[];
  /** Tools that the model would be offered. */
  readonly offered: number;
  /** Required connectors because of which it would throw. */
  readonly failing: readonly string[];
}

interface ForesightDeps extends PlanDeps {
  readonly connectors: Pick<Connectors, 'find' | 'visible'>;
  readonly mcpTools: Pick<McpToolStore, 'list' | 'offeredNames' | 'claimName'>;
  readonly log: Logger;
}

/**
 * Goes the way of a run with the lists that servers gave last: asks no server, audits no refusal. Names and pins are stored
 * as for a run.
 */
export async function foreseenTools(
  { agentId, agent, selected, principal, unreachable }: ForesightRequest,
  sources: AgentToolSources,
  deps: ForesightDeps,
): Promise<ForeseenTools> {
  const { mcpTools, connectors } = deps;
  const reader = { caller: { principal }, signal: new AbortController().signal };
  const lastLists = {
    async tools(connectorId: string) {
      const why = unreachable(connectorId);
      if (why !== undefined) {
        throw new UpstreamError({ ...why, destination: connectorId, statusCode: 400, delivered: 'no' });
      }
      const rows = await mcpTools.list(connectorId);
      return { tools: rows.filter(({ present }) => present).map(discovered), leftOut: [], warnings: [] };
    },
  };
  const walk = {
    sessions: lastLists,
    connectors,
    mcpTools,
    authorization: { refused: () => undefined },
    log: { warn: () => undefined, error: deps.log.error.bind(deps.log) },
  };
  const lists = await Promise.all(
    sources.mcp.map((source) => listOrFailure(source, () => toolsOfSource(source, reader, walk))),
  );
  const planned = await planTools(agentId, lists, toolPolicy(agent), deps);
  const tools = planned.map(
    (each): ForeseenTool => ({
      connectorId: each.found.source.connectorId,
      target: each.found.target,
      definition: each.found.tool,
      offeredAs: each.offeredAs,
      verdict: each.verdict,
      selected: isSelected(each, selected),
    }),
  );
  return {
    tools,
    offered: tools.filter((tool) => tool.selected && tool.verdict.withheld === undefined).length,
    failing: lists.flatMap(({ failing }) => failing ?? []),
  };
}

/** Of a required connector that fails there is nothing but that. */
async function listOrFailure(
  { connectorId }: McpSource,
  read: () => Promise<SourceTools>,
): Promise<SourceTools & { readonly failing?: string }> {
  try {
    return await read();
  } catch {
    return { found: [], met: [], failing: connectorId };
  }
}
