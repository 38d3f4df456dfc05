import type { Connectors } from '../connectors/types.ts';
import { CONFLICT, MCP_DISABLED } from '../errors.ts';
import type { Outbound } from '../outbound/types.ts';
import type { Settings } from '../settings/types.ts';
import type { ConnectionStore } from '../store/connections.ts';
import type { McpToolStore } from '../store/mcp-tools.ts';
import type { Audit } from '../telemetry/audit.ts';
import type { EventSink } from '../telemetry/events.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Redactor } from '../telemetry/redactor.ts';
import { recorded } from './connection/call-record.ts';
import type { Connection } from './connection/connection.ts';
import { createConnectionPool } from './connection/connection-pool.ts';
import { ACTIONS, type AgentsOf, createReports } from './connection/report.ts';
import { whileNotAborted } from './connection/shared-work.ts';
import { createPausedCalls } from './paused-calls.ts';
import { createServerContent } from './server-content.ts';
import { onSession } from './session/session-work.ts';
import { callArguments, callTool } from './tool-call.ts';
import { toolNamed } from './tool-names.ts';
import type { ConnectionChange, McpCall, McpCaller, McpCallResult, McpSessions, ToolList } from './types.ts';

export interface McpSessionsDeps {
  readonly connectors: Pick<Connectors, 'find' | 'load' | 'list' | 'mcpEndpoint' | 'localServer' | 'onChange'>;
  readonly outbound: Outbound;
  readonly connections: ConnectionStore;
  readonly mcpTools: McpToolStore;
  readonly settings: Pick<Settings, 'flag'>;
  readonly audit: Audit;
  readonly redactor: Pick<Redactor, 'clean' | 'cleanContent' | 'taint'>;
  readonly log: Logger;
  /** Told of changes of status and of tools. */
  readonly events?: EventSink;
  readonly metrics?: Pick<Metrics, 'toolCall' | 'connectAttempt' | 'forget'>;
  /** Other processes may serve the same database; default false. */
  readonly shared?: boolean;
  /** Default: no agent has tools of any. */
  readonly agentsOf?: AgentsOf;
  /** Epoch milliseconds. */
  readonly now?: () => number;
  /** In [0, 1). */
  readonly random?: () => number;
  readonly limits?: Partial<PoolLimits>;
}

/** Times in milliseconds. */
export interface PoolLimits {
  /** An unused session is closed after this long. */
  readonly idleMs: number;
  /** A server that said nothing for this long is asked, and no more often than that. */
  readonly probeMs: number;
  /** How often all of it is looked at. */
  readonly sweepMs: number;
  /** Open sessions; beyond it the one unused the longest is closed. */
  readonly maxSessions: number;
}

const ENABLED = 'plugins.ml_commons.mcp_connector_enabled';

/**
 * The pool of sessions with MCP servers: opened by the first use, once per connector whatever the number of callers,
 * shared, kept warm, closed when idle, when the connector changes and at shutdown.
 */
export function createMcpSessions(deps: McpSessionsDeps): McpSessions {
  const { connectors, connections, mcpTools, log, now = Date.now, random = Math.random } = deps;
  const pool = createConnectionPool(deps);
  const { states } = pool;
  const paused = createPausedCalls(deps);

  function requireEnabled(): void {
    if (!deps.settings.flag(ENABLED)) throw new MCP_DISABLED();
  }

  async function call(connectorId: string, request: McpCall): Promise<McpCallResult> {
    requireEnabled();
    const values = callArguments(request);
    const connector = await connectors.load(connectorId);
    const { bulkhead } = pool.of(connector);
    const { principal, callerHeaders: headers } = request;
    const caller: McpCaller = { principal, ...(headers && { headers }) };
    const once = (connection: Connection) => callTool(connection, connector, request, values, { random, log, paused });
    return recorded(connectorId, request, values, deps, () =>
      bulkhead.run(() => pool.using(connector, caller, once), request.signal),
    );
  }

  async function tools(
    connectorId: string,
    options: { signal?: AbortSignal; caller?: McpCaller } = {},
  ): Promise<ToolList> {
    requireEnabled();
    const connector = await connectors.load(connectorId);
    return pool.using(connector, options.caller, (connection) => connection.tools(connector, options.signal));
  }

  const content = createServerContent({
    async run(connectorId, options, work) {
      requireEnabled();
      const connector = await connectors.load(connectorId);
      const { bulkhead } = pool.of(connector);
      const once = (connection: Connection) => onSession(connection, connector, work, options.signal);
      return bulkhead.run(() => pool.using(connector, options.caller, once), options.signal);
    },
  });

  const reports = createReports({
    connectors,
    states,
    mcpTools,
    now,
    recovering: () => deps.settings.flag(ENABLED),
    ...(deps.agentsOf && { agentsOf: deps.agentsOf }),
    connectionOf: pool.known,
    callerSessions: pool.callerSessions,
  });

  return {
    ...content,
    tools,
    call,
    watchPause: paused.watch,
    async report(connectorId, options = {}) {
      const connector = await connectors.load(connectorId);
      if (options.probe && deps.settings.flag(ENABLED)) {
        await whileNotAborted(pool.of(connector).connection.probe(connector), options.signal);
      }
      return reports.of(await connectors.load(connectorId));
    },
    reports: (only) => reports.all(only),
    async act(connectorId, action, principal) {
      const connector = await connectors.load(connectorId);
      const { connection } = pool.of(connector);
      const { status } = await states.get(connectorId);
      if (!ACTIONS[status].includes(action)) {
        const offered = ACTIONS[status].map((name) => `_${name}`);
        const only = `only ${offered.join(' and ')} ${offered.length === 1 ? 'is' : 'are'} possible now`;
        throw new CONFLICT(`Connector ${connectorId} is ${status}: ${only}, not _${action}`);
      }
      const why = `${action} by ${principal.name}`;
      const enabled = deps.settings.flag(ENABLED);
      if (action === 'disable') await pool.disable(connector, why);
      else {
        if (action === 'enable') await connection.enable(why);
        else await connection.retire(why, { trying: enabled });
        if (enabled) await connection.probe(connector);
      }
      const report = await reports.of(connector);
      const failed = report.status === 'failed' || report.status === 'auth_required';
      const told = { outcome: failed ? 'failed' : 'ok', ...(failed && report.error && { detail: report.error.code }) };
      await deps.audit.record({ principal: principal.id, action: `connection.${action}`, connectorId, ...told });
      return report;
    },
    async toolNamed(connectorId, name, options) {
      const [list, connector] = await Promise.all([tools(connectorId, options), connectors.load(connectorId)]);
      return toolNamed(connector.name, list, name, { forcePrefix: connector.declared !== undefined });
    },
    async history(connectorId, limit) {
      await states.stored(connectorId);
      return (await connections.history(connectorId, limit)) as ConnectionChange[];
    },
    start: () => pool.connectDeclared(),
    reset: (connectorId, cause) => pool.retire(connectorId, cause),
    close: (deadlineMs) => pool.close(deadlineMs),
  };
}
