import type { Principal } from '../identity/principal.ts';
import type { ConnectionReport } from '../mcp/types.ts';
import type { ForeseenTool } from '../tools/foreseen-tools.ts';
import type { KnownTool, KnownTools } from '../tools/known-tools.ts';
import type { ToolPermission } from '../tools/tool-policy.ts';
import { type Problem, type Reason, reason, toolReasons } from './explain-reasons.ts';

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

/** A connector of the agent that the caller may see, or that does not exist. */
export interface SeenConnector extends KnownTools {
  readonly report: ConnectionReport | undefined;
  /** Why no call to it works; empty when calls do. */
  readonly obstacles: readonly Reason[];
  /** What should be known about it all the same. */
  readonly notes: readonly Reason[];
  /** It can be used and was never listed: what it has shows the next use. */
  readonly unlisted: boolean;
}

/** What the tools of all connectors are judged by. */
interface ExplainedAgent {
  readonly principal: Principal;
  readonly seen: readonly SeenConnector[];
  /** What a run would find. */
  readonly foreseen: readonly ForeseenTool[];
  /** Why a run fails, whatever the tool; empty when it does not. */
  readonly blocking: readonly Problem[];
}

/** The tools of one connector that the agent names: those a run would find, and why it would not find the others. */
export function explainTools(entry: SeenConnector, agent: ExplainedAgent): ToolExplanation[] {
  const { connectorId, connector, report } = entry;
  if (isStranger(entry)) return [];
  const found = agent.foreseen.filter((tool) => tool.connectorId === connectorId);
  const names = new Set(found.map(({ definition }) => definition.name));
  // Of a connector that is gone nobody can say whose it was: its own tools are not told.
  const stored = connector === undefined ? [] : entry.tools;
  const rows = stored.map(({ definition: { name } }) => name);
  const known = stored.flatMap((tool) => {
    const there = found.find(({ definition }) => definition.name === tool.definition.name);
    return there === undefined ? lackingTool(tool, entry, agent) : foundTool(there, entry, agent);
  });
  const ofFallback = found.filter(({ definition }) => !rows.includes(definition.name));
  const broken = (report?.left_out ?? []).filter(({ name }) => !names.has(name));
  return [
    ...known,
    ...ofFallback.map((tool) => foundTool(tool, entry, agent)),
    ...broken.map(({ name, reason: why }): ToolExplanation => {
      const remedy = 'Have its definition repaired on the server; the other tools of the connector are not affected.';
      const reasons = [reason('broken', `It cannot be offered: ${why}.`, remedy), ...blockedFor(entry, agent)];
      return { tool: name, ...placeOf(entry), callable: false, reasons };
    }),
  ];
}

/** A tool that was asked for and that nothing is known of. */
export function unknownTool(tool: string, hidden: boolean): ToolExplanation {
  const also = hidden ? ' Connectors that are not shared with you are not looked at.' : '';
  const message = `No connector of the agent is known to have a tool of this name, its own or an offered one.${also}`;
  const remedy =
    'Check the spelling; ask with ?probe=true so that the servers are asked; GET /_plugins/_ml/connectors/{connector_id}/tools lists what a server has.';
  return { tool, callable: false, reasons: [reason('unknown_tool', message, remedy)] };
}

function foundTool(tool: ForeseenTool, entry: SeenConnector, agent: ExplainedAgent): ToolExplanation {
  const { definition, offeredAs, verdict, selected, target } = tool;
  const judged: KnownTool = { definition, offeredAs, verdict, present: true, wanted: true, spare: false };
  const own = toolReasons(judged, entry, agent.principal);
  const obstacles = [...own.obstacles, ...(selected ? [] : [NOT_SELECTED]), ...blockedFor(entry, agent)];
  const spare = target === entry.connectorId ? [] : [usesFallback(target, agent.seen)];
  return {
    tool: definition.name,
    offered_as: offeredAs,
    ...placeOf(entry),
    callable: obstacles.length === 0,
    permission: verdict.permission,
    reasons: [...obstacles, ...entry.obstacles, ...own.notes, ...entry.notes, ...spare],
  };
}

/** A tool that a run would not find; nothing where that hangs on a fallback connector which was never listed. */
function lackingTool(tool: KnownTool, entry: SeenConnector, agent: ExplainedAgent): ToolExplanation[] {
  const { definition, offeredAs, verdict } = tool;
  const own = toolReasons(tool, entry, agent.principal);
  const blocked = blockedFor(entry, agent);
  if (own.obstacles.length + blocked.length === 0 && standsInUnlisted(entry, agent.seen)) return [];
  return [
    {
      tool: definition.name,
      ...(offeredAs !== undefined && { offered_as: offeredAs }),
      ...placeOf(entry),
      callable: false,
      permission: verdict.permission,
      reasons: [...own.obstacles, ...blocked, ...entry.obstacles, ...own.notes, ...entry.notes],
    },
  ];
}

/** Whether a connector that was never listed would stand in for this one. */
export function standsInUnlisted({ sources, obstacles }: SeenConnector, seen: readonly SeenConnector[]): boolean {
  const ids = sources.flatMap(({ fallbackConnectorId }) => fallbackConnectorId ?? []);
  return obstacles.length > 0 && seen.some(({ connectorId, unlisted }) => unlisted && ids.includes(connectorId));
}

/** What is said of the connector of the tool itself is not said twice. */
function blockedFor({ connectorId }: SeenConnector, { blocking }: ExplainedAgent): Reason[] {
  return blocking
    .filter((problem) => problem.connector_id !== connectorId)
    .map(({ code, message, remedy }) => reason(code, message, remedy));
}

/** A stored connector that has taken the name of a declared one which joins the agent: it does not join. */
function isStranger({ connector, sources }: SeenConnector): boolean {
  return connector?.declared === undefined && sources.every(({ joined }) => joined);
}

function placeOf({ connectorId, connector }: SeenConnector) {
  return { connector_id: connectorId, connector_name: connector?.name ?? connectorId };
}

function usesFallback(target: string, seen: readonly SeenConnector[]): Reason {
  const name = seen.find(({ connectorId }) => connectorId === target)?.connector?.name ?? target;
  return reason(
    'uses_fallback',
    `Calls go to the fallback connector "${name}" (${target}).`,
    'Nothing to do for the calls; bring the connector itself back.',
  );
}

const NOT_SELECTED = reason(
  'not_selected',
  'selected_tools of the agent does not name it, so it is not offered.',
  'Add its name, the own or the offered one, to selected_tools, or name it there in the request.',
);
