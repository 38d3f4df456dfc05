import { speaksMcp } from '../connectors/protocols.ts';
import type { Connectors } from '../connectors/types.ts';
import { AGENT_NOT_FOUND, isCatalogueError } from '../errors.ts';
import type { Principal } from '../identity/principal.ts';
import type { ConnectionReport, McpSessions } from '../mcp/types.ts';
import type { Documents } from '../store/documents.ts';
import type { KnownTools } from '../tools/known-tools.ts';
import type { ToolRegistry } from '../tools/registry.ts';
import type { ToolPermission } from '../tools/tool-policy.ts';
import { mcpConnectorIds } from './document.ts';
import { connectionReasons, type Reason, reason, toolReasons } from './explain-reasons.ts';
import { type AgentProblemsDeps, agentProblems, type Problem } from './problems.ts';

export interface ExplainDeps extends AgentProblemsDeps {
  readonly documents: Pick<Documents, 'get'>;
  readonly connectors: Pick<Connectors, 'find' | 'visible' | 'joinedTo'>;
  readonly sessions: Pick<McpSessions, 'report'>;
  readonly registry: Pick<ToolRegistry, 'known'>;
}

/** Why one tool can be called, or not. */
export interface ToolExplanation {
  /** The server's own name, or the name that was asked for. */
  readonly tool: string;
  readonly offered_as?: string;
  readonly connector_id?: string;
  readonly connector_name?: string;
  /** Whether a call by this caller would work now. */
  readonly callable: boolean;
  readonly permission?: ToolPermission;
  readonly reasons: readonly Reason[];
}

/** `GET /agents/{id}/_explain`. */
export interface Explanation {
  readonly agent_id: string;
  readonly tools: readonly ToolExplanation[];
  readonly problems: readonly Problem[];
}

export interface ExplainOptions {
  /** Own or offered name: only this tool. */
  readonly tool?: string;
  /** Opens the connections first. */
  readonly probe?: boolean;
}

/** @throws AGENT_NOT_FOUND */
export type Explain = (principal: Principal, agentId: string, options?: ExplainOptions) => Promise<Explanation>;

/** A connector of the agent that the caller may see. */
interface SeenConnector extends KnownTools {
  readonly report: ConnectionReport | undefined;
  /** Why no call to it works; empty when calls do. */
  readonly obstacles: readonly Reason[];
  /** What should be known about it all the same. */
  readonly notes: readonly Reason[];
}

/** Says of each tool of an agent whether it can be called and if not why, and what is wrong with what the agent refers to. */
export function createExplain(deps: ExplainDeps): Explain {
  const { documents, connectors, sessions, registry } = deps;

  async function reportOf(id: string, probe: boolean): Promise<ConnectionReport | undefined> {
    try {
      return await sessions.report(id, { probe });
    } catch (error) {
      if (isCatalogueError(error)) return undefined;
      throw error;
    }
  }

  /** The reports of those connectors that the caller may see and that have a connection. */
  async function reportsOf(principal: Principal, ids: readonly string[], probe: boolean) {
    const entries = await Promise.all(
      ids.map(async (id): Promise<[string, ConnectionReport | undefined]> => {
        const connector = await connectors.find(id);
        const asked = connector !== undefined && speaksMcp(connector) && connectors.visible(principal, connector);
        return [id, asked ? await reportOf(id, probe) : undefined];
      }),
    );
    return new Map(entries);
  }

  return async (principal, agentId, { tool, probe = false } = {}) => {
    const agent = await documents.get('agent', agentId);
    if (agent === undefined) throw new AGENT_NOT_FOUND(agentId);
    const { body } = agent;
    const joined = connectors.joinedTo({ id: agentId, name: String(body.name) });
    const reports = await reportsOf(principal, mcpConnectorIds(body, joined), probe);
    const known = await registry.known(agentId, body);
    const seen = known.flatMap((entry): SeenConnector[] => {
      const { connector, connectorId } = entry;
      if (connector === undefined || !connectors.visible(principal, connector)) return [];
      const report = reports.get(connectorId);
      return [{ ...entry, report, ...connectionReasons(connector, report, principal, deps.settings) }];
    });
    const explained = seen
      .filter(({ sources }) => sources.length > 0)
      .flatMap((entry) => explainTools(entry, seen, principal));
    const problems = await agentProblems(principal, body, known, seen, deps);
    const chosen = explained.filter((each) => each.offered_as === tool || each.tool === tool);
    if (tool === undefined) return { agent_id: agentId, tools: explained, problems };
    return {
      agent_id: agentId,
      tools: chosen.length > 0 ? chosen : [unknownTool(tool, known.length > seen.length)],
      problems,
    };
  };
}

function explainTools(entry: SeenConnector, seen: readonly SeenConnector[], principal: Principal): ToolExplanation[] {
  const { connectorId, connector, report, tools, obstacles, notes } = entry;
  const place = { connector_id: connectorId, connector_name: connector?.name ?? connectorId };
  const known = tools.map((tool): ToolExplanation => {
    const { name } = tool.definition;
    const own = toolReasons(tool, entry, principal);
    const spare = obstacles.length === 0 ? undefined : fallbackFor(name, entry, seen, principal);
    const reasons = [...own.obstacles, ...obstacles, ...own.notes, ...notes, ...(spare ? [spare] : [])];
    return {
      tool: name,
      ...(tool.offeredAs !== undefined && { offered_as: tool.offeredAs }),
      ...place,
      callable: own.obstacles.length === 0 && (obstacles.length === 0 || spare !== undefined),
      permission: tool.verdict.permission,
      reasons,
    };
  });
  const broken = (report?.left_out ?? []).map(({ name, reason: why }): ToolExplanation => {
    const remedy = 'Have its definition repaired on the server; the other tools of the connector are not affected.';
    return {
      tool: name,
      ...place,
      callable: false,
      reasons: [reason('broken', `It cannot be offered: ${why}.`, remedy)],
    };
  });
  return [...known, ...broken];
}

/** Says that calls go to a connector that stands in; `undefined` when none can. */
function fallbackFor(
  name: string,
  { sources }: SeenConnector,
  seen: readonly SeenConnector[],
  principal: Principal,
): Reason | undefined {
  const ids = sources.flatMap(({ fallbackConnectorId }) => fallbackConnectorId ?? []);
  const usable = seen.find(
    ({ connectorId, obstacles, tools }) =>
      ids.includes(connectorId) &&
      obstacles.length === 0 &&
      !principal.access.deniesTool(connectorId, name) &&
      tools.some(({ definition, spare, verdict }) => definition.name === name && spare && !verdict.withheld),
  );
  if (usable === undefined) return undefined;
  const { connector, connectorId } = usable;
  return reason(
    'uses_fallback',
    `Calls go to the fallback connector "${connector?.name ?? connectorId}" (${connectorId}).`,
    'Nothing to do for the calls; bring the connector itself back.',
  );
}

function unknownTool(tool: string, hidden: boolean): ToolExplanation {
  const also = hidden ? ' Connectors that do not exist or are not shared with you are not looked at.' : '';
  const message = `No connector of the agent is known to have a tool of this name, its own or an offered one.${also}`;
  const remedy =
    'Check the spelling; ask with ?probe=true so that the servers are asked; GET /_plugins/_ml/connectors/{connector_id}/tools lists what a server has.';
  return { tool, callable: false, reasons: [reason('unknown_tool', message, remedy)] };
}
