import { speaksMcp } from '../../connectors/protocols.ts';
import type { Connector, Connectors } from '../../connectors/types.ts';
import type { McpToolStore } from '../../store/mcp-tools.ts';
import { offeredAlone, renamedBecause } from '../tool-names.ts';
import type { ConnectionAction, ConnectionError, ConnectionReport, ConnectionStatus } from '../types.ts';
import type { Connection } from './connection.ts';
import type { ConnectionRecord, ConnectionStates } from './status.ts';

/** Next steps by state. */
export const ACTIONS: Readonly<Record<ConnectionStatus, readonly ConnectionAction[]>> = {
  idle: ['reconnect', 'disable'],
  connecting: ['disable'],
  connected: ['disable'],
  failed: ['reconnect', 'disable'],
  auth_required: ['disable'],
  disabled: ['enable'],
};

/** Agents by the connector whose tools they get; at most 100 of each. */
export type AgentsOf = (connectorIds: readonly string[]) => Promise<ReadonlyMap<string, ConnectionReport['agents']>>;

export interface ReportsDeps {
  readonly connectors: Pick<Connectors, 'list'>;
  readonly states: Pick<ConnectionStates, 'get' | 'ofAll'>;
  readonly mcpTools: Pick<McpToolStore, 'presentNames'>;
  readonly agentsOf?: AgentsOf;
  readonly now: () => number;
  /** Whether failed connections are tried again by themselves, now. */
  readonly recovering: () => boolean;
  readonly connectionOf: (connectorId: string) => Connection | undefined;
  /** Open sessions of single callers. */
  readonly callerSessions: (connectorId: string) => number;
}

/** What `GET /connectors/{id}/_status` shows, from the last known truth alone. */
export interface Reports {
  of(connector: Connector): Promise<ConnectionReport>;
  /** Of every MCP server, or of those, in the order of the connectors; a fixed number of queries. */
  all(only?: (connector: Connector) => boolean): Promise<ConnectionReport[]>;
}

/** Reads states, tools and agents as they are stored; asks no server. */
export function createReports(deps: ReportsDeps): Reports {
  const { connectors, states, mcpTools, agentsOf = async () => new Map() } = deps;
  const startTime = deps.now();

  function report(
    connector: Connector,
    record: ConnectionRecord,
    names: readonly string[],
    agents: ConnectionReport['agents'],
  ): ConnectionReport {
    const connection = deps.connectionOf(connector.id);
    const retryTime = connection?.health.breaker.retryAt();
    const due = deps.recovering() ? connection?.health.dueAt() : undefined;
    const stderr = connection?.stderr() ?? [];
    const warnings = [...(connector.declared?.warnings ?? []), ...record.warnings];
    return {
      connector_id: connector.id,
      name: connector.name,
      origin: connector.declared ? 'config' : 'api',
      transport: connector.protocol === 'mcp_stdio' ? 'local' : 'remote',
      status: record.status,
      since: record.since,
      tool_count: names.length,
      tools: toolsOf(connector, record, names),
      ...(record.protocolVersion !== undefined && { protocol_version: record.protocolVersion }),
      ...(record.lastSuccessTime !== undefined && { last_success_time: record.lastSuccessTime }),
      ...(record.error !== undefined &&
        record.status !== 'connected' && { error: upToDate(record.error, due, deps.now()) }),
      breaker: {
        state: connection?.health.breaker.state() ?? 'closed',
        failures: connection?.health.failures() ?? 0,
        ...(retryTime !== undefined && { retry_time: retryTime }),
      },
      ...(warnings.length > 0 && { warnings }),
      ...(record.leftOut.length > 0 && { left_out: record.leftOut }),
      ...(connector.passthroughHeaders !== undefined && { caller_sessions: deps.callerSessions(connector.id) }),
      ...(stderr.length > 0 && { stderr }),
      agents,
      actions: ACTIONS[record.status],
    };
  }

  return {
    async of(connector) {
      const { id } = connector;
      const [record, names, agents] = await Promise.all([states.get(id), mcpTools.presentNames(id), agentsOf([id])]);
      return report(connector, record, names.get(id) ?? [], agents.get(id) ?? []);
    },
    async all(only = () => true) {
      const wanted = (await connectors.list()).filter((connector) => speaksMcp(connector) && only(connector));
      const [records, names, agents] = await Promise.all([
        states.ofAll(wanted.filter((connector) => !isWithoutName(connector))),
        mcpTools.presentNames(),
        agentsOf(wanted.map(({ id }) => id)),
      ]);
      return wanted.flatMap((connector) => {
        const { id } = connector;
        if (isWithoutName(connector)) return withoutName(connector, startTime);
        const record = records.get(id);
        return record === undefined ? [] : report(connector, record, names.get(id) ?? [], agents.get(id) ?? []);
      });
    },
  };
}

function isWithoutName({ declared }: Connector): boolean {
  return declared?.problem?.code === 'id_taken';
}

/** A declared server whose name a stored connector holds: that one's state and tools are not its own. */
function withoutName({ id, name, protocol, declared }: Connector, since: number): ConnectionReport {
  return {
    connector_id: id,
    name,
    origin: 'config',
    transport: protocol === 'mcp_stdio' ? 'local' : 'remote',
    status: declared?.enabled ? 'failed' : 'disabled',
    since,
    tool_count: 0,
    tools: [],
    ...(declared?.problem && { error: declared.problem }),
    breaker: { state: 'closed', failures: 0 },
    agents: [],
    actions: [],
  };
}

function toolsOf(connector: Connector, record: ConnectionRecord, names: readonly string[]): ConnectionReport['tools'] {
  const declared = connector.declared !== undefined;
  const state = record.status === 'connected' ? 'available' : 'known';
  const offered = [...offeredAlone(connector.name, names, { forcePrefix: declared })].map(([offeredAs, name]) => ({
    name,
    offered_as: offeredAs,
    state,
    ...(offeredAs !== name && { reason: `offered as ${offeredAs}: ${renamedBecause(name, declared)}` }),
  }));
  const leftOut = record.leftOut.map(({ name, reason }) => ({ name, offered_as: '', state: 'left_out', reason }));
  return [...offered, ...leftOut];
}

/** A retry time that has passed is none: the next use tries. What is still to be tried by itself is overdue, and tried soon. */
function upToDate(
  { next_retry_time: shown, ...error }: ConnectionError,
  due: number | undefined,
  now: number,
): ConnectionError {
  const next = due === undefined ? shown : Math.max(due, now);
  return next !== undefined && (next > now || due !== undefined) ? { ...error, next_retry_time: next } : error;
}
