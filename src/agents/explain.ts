import { speaksMcp } from '../connectors/protocols.ts';
import type { Connectors } from '../connectors/types.ts';
import { AGENT_NOT_FOUND, isCatalogueError, UpstreamError } from '../errors.ts';
import type { Principal } from '../identity/principal.ts';
import type { JsonObject } from '../json.ts';
import type { McpSessions } from '../mcp/types.ts';
import type { Documents } from '../store/documents.ts';
import type { Unreachable } from '../tools/foreseen-tools.ts';
import type { KnownTools } from '../tools/known-tools.ts';
import type { ToolRegistry } from '../tools/registry.ts';
import { mcpConnectorIds } from './document.ts';
import { type ConnectionState, connectionReasons, missingReasons, type Problem } from './explain-reasons.ts';
import {
  explainTools,
  type SeenConnector,
  standsInUnlisted,
  type ToolExplanation,
  unknownTool,
} from './explain-tools.ts';
import { type AgentProblemsDeps, agentProblems, selectedTools } from './problems.ts';

export interface ExplainDeps extends AgentProblemsDeps {
  readonly documents: Pick<Documents, 'get'>;
  readonly connectors: Pick<Connectors, 'find' | 'visible' | 'joinedTo'>;
  readonly sessions: Pick<McpSessions, 'report' | 'tools'>;
  readonly registry: Pick<ToolRegistry, 'known' | 'foreseen'>;
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
  /** Opens the connections first, and reads their lists. */
  readonly probe?: boolean;
}

/** @throws AGENT_NOT_FOUND */
export type Explain = (principal: Principal, agentId: string, options?: ExplainOptions) => Promise<Explanation>;

/** A connector that the agent refers to, as it is for this caller. */
type Looked = Pick<SeenConnector, 'report' | 'obstacles' | 'notes'>;

/**
 * Says of each tool of an agent whether it can be called and if not why, and what is wrong with what the agent refers to.
 * It goes the way of a run, with the lists that servers gave last.
 */
export function createExplain(deps: ExplainDeps): Explain {
  const { documents, connectors, sessions, registry } = deps;

  async function stateOf(principal: Principal, id: string, probe: boolean): Promise<ConnectionState> {
    try {
      const report = await sessions.report(id, { probe });
      if (!probe || report.status !== 'connected' || !principal.access.allows('connector:use')) return { report };
      const failure = await listFailure(principal, id);
      return { report: await sessions.report(id), ...(failure && { failure }) };
    } catch (error) {
      if (isCatalogueError(error)) return {};
      throw error;
    }
  }

  async function listFailure(principal: Principal, id: string): Promise<UpstreamError | undefined> {
    try {
      await sessions.tools(id, { caller: { principal } });
      return undefined;
    } catch (error) {
      if (error instanceof UpstreamError) return error;
      throw error;
    }
  }

  /** `undefined` for a connector that the caller may not know. */
  async function look(principal: Principal, id: string, probe: boolean): Promise<Looked | undefined> {
    const connector = await connectors.find(id);
    if (connector === undefined) return { report: undefined, ...missingReasons(id) };
    if (!connectors.visible(principal, connector)) return undefined;
    const state = speaksMcp(connector) ? await stateOf(principal, id, probe) : {};
    return { report: state.report, ...connectionReasons(connector, state, principal, deps.settings) };
  }

  async function explainAgent(principal: Principal, agentId: string, agent: JsonObject, probe: boolean) {
    const ids = mcpConnectorIds(agent, connectors.joinedTo({ id: agentId, name: String(agent.name) }));
    const looked = new Map(await Promise.all(ids.map(async (id) => [id, await look(principal, id, probe)] as const)));
    const selected = selectedTools(agent);
    const foreseen = await registry.foreseen({
      agentId,
      agent,
      principal,
      ...(selected && { selected }),
      unreachable: (id) => unreachableBecause(looked.get(id)),
    });
    const known = await registry.known(agentId, agent);
    const seen = known.flatMap((entry) => seenAs(entry, looked.get(entry.connectorId)));
    const { problems, blocking } = await agentProblems({ principal, agent, known, seen, foreseen }, deps);
    const tools = seen
      .filter(({ sources }) => sources.length > 0)
      .flatMap((entry) => explainTools(entry, { principal, seen, foreseen: foreseen.tools, blocking }));
    const open = seen.some((entry) => (entry.unlisted && entry.sources.length > 0) || standsInUnlisted(entry, seen));
    return { tools, problems, open, hidden: known.length > seen.length };
  }

  return async (principal, agentId, { tool, probe = false } = {}) => {
    const stored = await documents.get('agent', agentId);
    if (stored === undefined) throw new AGENT_NOT_FOUND(agentId);
    const { tools, problems, open, hidden } = await explainAgent(principal, agentId, stored.body, probe);
    if (tool === undefined) return { agent_id: agentId, tools, problems };
    const chosen = tools.filter((each) => each.offered_as === tool || each.tool === tool);
    // A connector that was never listed may have it: a problem says so.
    const none = open ? [] : [unknownTool(tool, hidden)];
    return { agent_id: agentId, tools: chosen.length > 0 ? chosen : none, problems };
  };
}

function seenAs(entry: KnownTools, looked: Looked | undefined): SeenConnector[] {
  if (looked === undefined) return [];
  const waits = looked.report?.status === 'idle' || looked.report?.status === 'connecting';
  return [{ ...entry, ...looked, unlisted: waits && looked.obstacles.length === 0 && entry.tools.length === 0 }];
}

/** As a run would be told it. */
function unreachableBecause(looked: Looked | undefined): Unreachable | undefined {
  const first = looked?.obstacles[0];
  if (first === undefined) return undefined;
  const code = first.code === 'disabled' ? 'disabled' : (looked?.report?.error?.code ?? 'invalid_response');
  return { code, message: first.message };
}
