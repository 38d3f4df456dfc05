import type { Connectors } from '../connectors/types.ts';
import { type CauseCode, CONNECTOR_NOT_FOUND, FORBIDDEN, isCatalogueError } from '../errors.ts';
import type { Principal } from '../identity/principal.ts';
import type { JsonObject } from '../json.ts';
import type { ConnectionReport, McpSessions } from '../mcp/types.ts';
import type { KnownTools } from '../tools/known-tools.ts';
import type { ToolRegistry } from '../tools/registry.ts';

/** One entry of `mcp_connections`; times are epoch milliseconds. */
export interface AgentConnection {
  readonly connector_id: string;
  /** Absent for one that the caller may not see. */
  readonly name?: string;
  readonly status: ConnectionReport['status'];
  /** Absent for a connector that does not exist. */
  readonly since?: number;
  readonly tool_count: number;
  readonly tools: readonly string[];
  readonly protocol_version?: string;
  readonly last_success_time?: number;
  readonly left_out?: ConnectionReport['left_out'];
  readonly warnings?: readonly string[];
  readonly error?: {
    readonly code: CauseCode | 'not_found';
    readonly message: string;
    readonly remedy: string;
    readonly next_retry_time?: number;
  };
}

export interface AgentConnectionsDeps {
  readonly connectors: Pick<Connectors, 'find' | 'requireVisible'>;
  readonly sessions: Pick<McpSessions, 'report'>;
  readonly registry: Pick<ToolRegistry, 'known'>;
}

/** How the connectors of an agent are doing, one entry each, as the principal may know it; a probe asks all of them at the same time. */
export async function agentConnections(
  principal: Principal,
  agentId: string,
  agent: JsonObject,
  probe: boolean,
  deps: AgentConnectionsDeps,
  connectorIds: readonly string[],
): Promise<AgentConnection[]> {
  const reports = new Map(
    await Promise.all(connectorIds.map(async (id) => [id, await reportOf(principal, id, probe, deps)] as const)),
  );
  const known = await deps.registry.known(agentId, agent);
  return known.map((tools) => entry(tools, reports.get(tools.connectorId)));
}

async function reportOf(
  principal: Principal,
  id: string,
  probe: boolean,
  { connectors, sessions }: AgentConnectionsDeps,
): Promise<ConnectionReport | Error> {
  try {
    const connector = await connectors.find(id);
    if (connector !== undefined) connectors.requireVisible(principal, connector);
    return await sessions.report(id, { probe });
  } catch (error) {
    if (isCatalogueError(error)) return error;
    throw error;
  }
}

function entry(
  { connectorId, offered, warnings, leftOut }: KnownTools,
  report: ConnectionReport | Error | undefined,
): AgentConnection {
  if (report instanceof FORBIDDEN) {
    const remedy = 'Ask its owner or an administrator to share it with you.';
    const error = { code: 'forbidden', message: report.message, remedy } as const;
    return { connector_id: connectorId, status: 'failed', tool_count: 0, tools: [], error };
  }
  const tools = { tool_count: offered.length, tools: offered };
  if (report === undefined || report instanceof Error) {
    const message = report?.message ?? new CONNECTOR_NOT_FOUND(connectorId).message;
    const remedy = 'Create the connector, or update the agent so that it names another one.';
    const error = { code: 'not_found', message, remedy } as const;
    return { connector_id: connectorId, name: connectorId, status: 'failed', ...tools, error };
  }
  const { name, status, since, protocol_version, last_success_time, error } = report;
  const left = [...(report.left_out ?? []), ...leftOut];
  const told = [...(report.warnings ?? []), ...warnings];
  return {
    connector_id: connectorId,
    name,
    status,
    since,
    ...tools,
    ...(protocol_version === undefined ? {} : { protocol_version }),
    ...(last_success_time === undefined ? {} : { last_success_time }),
    ...(left.length === 0 ? {} : { left_out: left }),
    ...(told.length === 0 ? {} : { warnings: told }),
    ...(error === undefined ? {} : { error: errorOf(error) }),
  };
}

function errorOf({ code, message, remedy, next_retry_time }: NonNullable<ConnectionReport['error']>) {
  return { code, message, remedy, ...(next_retry_time === undefined ? {} : { next_retry_time }) };
}
