import type { Connector } from '../connectors/types.ts';
import type { McpToolRow } from '../store/mcp-tools.ts';
import type { Connection } from './connection.ts';
import type { ConnectionRecord } from './status.ts';
import { offeredAlone } from './tool-names.ts';
import type { ConnectionAction, ConnectionError, ConnectionReport, ConnectionStatus } from './types.ts';

/** Next steps by state. */
export const ACTIONS: Readonly<Record<ConnectionStatus, readonly ConnectionAction[]>> = {
  idle: ['reconnect', 'disable'],
  connecting: ['disable'],
  connected: ['disable'],
  failed: ['reconnect', 'disable'],
  auth_required: ['disable'],
  disabled: ['enable'],
};

/** What `GET /connectors/{id}/_status` shows, from the last known truth alone. */
export function connectionReport(
  connector: Pick<Connector, 'id' | 'name' | 'passthroughHeaders'>,
  record: ConnectionRecord,
  rows: readonly McpToolRow[],
  connection: Connection | undefined,
  { now, callerSessions = 0 }: { readonly now: number; readonly callerSessions?: number },
): ConnectionReport {
  const present = rows.filter((row) => row.present);
  const offered = offeredAlone(
    connector.name,
    present.map(({ name }) => name),
  );
  const state = record.status === 'connected' ? 'available' : 'known';
  const tools = [...offered].map(([offeredAs, name]) => ({ name, offered_as: offeredAs, state }));
  const leftOut = record.leftOut.map(({ name, reason }) => ({ name, offered_as: '', state: 'left_out', reason }));
  const retryTime = connection?.health.breaker.retryAt();
  return {
    connector_id: connector.id,
    name: connector.name,
    origin: 'api',
    transport: 'remote',
    status: record.status,
    since: record.since,
    tool_count: present.length,
    tools: [...tools, ...leftOut],
    ...(record.protocolVersion !== undefined && { protocol_version: record.protocolVersion }),
    ...(record.lastSuccessTime !== undefined && { last_success_time: record.lastSuccessTime }),
    ...(record.error !== undefined && record.status !== 'connected' && { error: upToDate(record.error, now) }),
    breaker: {
      state: connection?.health.breaker.state() ?? 'closed',
      failures: connection?.health.failures() ?? 0,
      ...(retryTime !== undefined && { retry_time: retryTime }),
    },
    ...(record.warnings.length > 0 && { warnings: record.warnings }),
    ...(record.leftOut.length > 0 && { left_out: record.leftOut }),
    ...(connector.passthroughHeaders !== undefined && { caller_sessions: callerSessions }),
    actions: ACTIONS[record.status],
  };
}

/** A retry time that has passed is none: the next use tries. */
function upToDate({ next_retry_time: next, ...error }: ConnectionError, now: number): ConnectionError {
  return next !== undefined && next > now ? { ...error, next_retry_time: next } : error;
}
