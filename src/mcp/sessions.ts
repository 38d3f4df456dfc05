import type { Connector, Connectors } from '../connectors/types.ts';
import { CONFLICT, isCatalogueError, MCP_DISABLED, UpstreamError } from '../errors.ts';
import { type Bulkhead, createBulkhead } from '../outbound/resilience.ts';
import type { Outbound } from '../outbound/types.ts';
import type { AuditEntry } from '../schemas/audit.ts';
import type { Settings } from '../settings/types.ts';
import type { ConnectionStore } from '../store/connections.ts';
import type { McpToolStore } from '../store/mcp-tools.ts';
import type { Audit } from '../telemetry/audit.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Redactor } from '../telemetry/redactor.ts';
import { createCallerSessions } from './caller-sessions.ts';
import { type Connection, createConnection } from './connection.ts';
import { ACTIONS, connectionReport } from './report.ts';
import { createOpenWork, whileNotAborted } from './shared-work.ts';
import { createConnectionStates } from './status.ts';
import { argumentsHash, callArguments, callTool } from './tool-call.ts';
import { toolNamed } from './tool-names.ts';
import type { ConnectionReport, McpCall, McpCaller, McpCallResult, McpSessions, ToolList } from './types.ts';

export interface McpSessionsDeps {
  readonly connectors: Pick<Connectors, 'load' | 'list' | 'mcpEndpoint' | 'onChange'>;
  readonly outbound: Outbound;
  readonly connections: ConnectionStore;
  readonly mcpTools: McpToolStore;
  readonly settings: Pick<Settings, 'flag'>;
  readonly audit: Audit;
  readonly redactor: Pick<Redactor, 'clean' | 'cleanContent' | 'taint'>;
  readonly log: Logger;
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
  /** How often both are looked at. */
  readonly sweepMs: number;
  /** Open sessions; beyond it the one unused the longest is closed. */
  readonly maxSessions: number;
}

const LIMITS: PoolLimits = { idleMs: 900_000, probeMs: 60_000, sweepMs: 15_000, maxSessions: 256 };
const PAYLOADS = 'plugins.ml_commons.audit.payloads';
const ENABLED = 'plugins.ml_commons.mcp_connector_enabled';
/** Calls that wait for one of `max_connection` to end. */
const MAX_WAITING = 1000;

/**
 * The pool of sessions with MCP servers: opened by the first use, once per connector whatever the number of callers,
 * shared, kept warm, closed when idle, when the connector changes and at shutdown.
 */
export function createMcpSessions(deps: McpSessionsDeps): McpSessions {
  const { connectors, connections, mcpTools, log, now = Date.now, random = Math.random } = deps;
  const limits = { ...LIMITS, ...deps.limits };
  const states = createConnectionStates({ connections, log, now });
  const closing = new AbortController();
  const disposals = new Map<string, Promise<void>>();
  const work = createOpenWork();
  const pool = new Map<string, { connection: Connection; connector: Connector; bulkhead: Bulkhead }>();
  const ofCallers = createCallerSessions({
    ...deps,
    now,
    random,
    closing: closing.signal,
    onOpened: evict,
    maxCallers: limits.maxSessions,
  });

  function entryOf(connector: Connector): { connection: Connection; bulkhead: Bulkhead } {
    closing.signal.throwIfAborted();
    const known = pool.get(connector.id);
    if (known !== undefined && known.connector.revision >= connector.revision) return known;
    const { id, name, clientConfig } = connector;
    const before = disposals.get(id);
    const connection: Connection =
      known?.connection ??
      createConnection(id, name, {
        ...deps,
        ...{ states, now, random, closing: closing.signal },
        onOpened: () => evict(connection),
        onGone: () => forgetGone(id, entry),
        ...(before && { before }),
      });
    const bulkhead = createBulkhead(clientConfig.max_connection, MAX_WAITING, `connector "${name}"`);
    const entry = { connection, connector, bulkhead };
    pool.set(id, entry);
    return entry;
  }

  /** A use that began before its connector was deleted leaves nothing behind. */
  function forgetGone(id: string, entry: { connection: Connection }): void {
    if (pool.get(id)?.connection !== entry.connection) return;
    pool.delete(id);
    void states.forget(id);
  }

  /** Ends what runs, then removes what is stored: in that order, so that nothing is stored afterwards. */
  async function dispose(id: string, before: Promise<void> | undefined): Promise<void> {
    const entry = pool.get(id);
    pool.delete(id);
    await before;
    await Promise.all([entry?.connection.dispose(), ofCallers.dispose(id)]);
    await states.forget(id);
    await mcpTools.deleteOf(id);
  }

  function requireEnabled(): void {
    if (!deps.settings.flag(ENABLED)) throw new MCP_DISABLED();
  }

  /** Works on the session of this caller: the shared one, unless headers of the caller are passed on. */
  async function using<T>(
    connector: Connector,
    caller: McpCaller | undefined,
    work: (connection: Connection) => Promise<T>,
  ): Promise<T> {
    closing.signal.throwIfAborted();
    const disabled = (await states.get(connector.id)).status === 'disabled';
    const own = disabled ? undefined : ofCallers.use(connector, caller, work);
    return own ?? work(entryOf(connector).connection);
  }

  function everyConnection(): { connection: Connection; connector: Connector }[] {
    return [...pool.values(), ...ofCallers.all()];
  }

  /** Closes the sessions unused the longest when there are too many. */
  function evict(justOpened: Connection | undefined): void {
    const open = everyConnection().filter(({ connection }) => connection.current() !== undefined);
    const spare = open
      .filter(({ connection }) => connection !== justOpened && connection.current()?.inFlight === 0)
      .sort((a, b) => a.connection.lastUsed() - b.connection.lastUsed());
    for (const { connection } of spare.slice(0, Math.max(0, open.length - limits.maxSessions))) {
      void connection.retire('too many open sessions', { keepList: true });
    }
  }

  const sweep = setInterval(() => {
    ofCallers.forgetUnused(limits.idleMs);
    for (const { connection, connector } of everyConnection()) {
      const open = connection.current();
      if (open === undefined) continue;
      const time = now();
      if (open.inFlight === 0 && time - connection.lastUsed() >= limits.idleMs) {
        void connection.retire('idle', { keepList: true });
      } else if (time - Math.max(connection.lastHeard(), connection.lastProbe()) >= limits.probeMs) {
        void connection.probe(connector);
      }
    }
  }, limits.sweepMs);
  sweep.unref();

  connectors.onChange(async (id, change) => {
    if (change === 'updated') {
      await Promise.all([pool.get(id)?.connection.retire(change), ofCallers.retire(id, change)]);
      return;
    }
    const gone = work.track(dispose(id, disposals.get(id))).finally(() => {
      if (disposals.get(id) === gone) disposals.delete(id);
    });
    disposals.set(id, gone);
    await gone;
  });

  async function call(connectorId: string, request: McpCall): Promise<McpCallResult> {
    requireEnabled();
    const values = callArguments(request);
    const connector = await connectors.load(connectorId);
    const { bulkhead } = entryOf(connector);
    const { principal, callerHeaders: headers } = request;
    const caller: McpCaller = { principal, ...(headers && { headers }) };
    const began = performance.now();
    const entry = {
      principal: principal.id,
      action: 'tool_call',
      ...(request.agentId !== undefined && { agentId: request.agentId }),
      connectorId,
      tool: request.tool,
      argumentsHash: argumentsHash(values),
      ...(deps.settings.flag(PAYLOADS) && { arguments: request.argumentsText }),
    };
    const record = (facts: Pick<AuditEntry, 'outcome' | 'bytes' | 'detail' | 'result'>): Promise<void> =>
      deps.audit.record({ ...entry, durationMs: Math.round(performance.now() - began), ...facts });
    try {
      const result = await bulkhead.run(
        () =>
          using(connector, caller, (connection) => callTool(connection, connector, request, values, { random, log })),
        request.signal,
      );
      const { bytes, content, structuredContent, isError } = result;
      const kept = deps.settings.flag(PAYLOADS) && { result: JSON.stringify({ content, structuredContent }) };
      await record({ outcome: isError ? 'tool_error' : 'ok', bytes, ...kept });
      return result;
    } catch (error) {
      await record(failedOutcome(error, request.signal));
      throw error;
    }
  }

  async function tools(
    connectorId: string,
    options: { signal?: AbortSignal; caller?: McpCaller } = {},
  ): Promise<ToolList> {
    requireEnabled();
    const connector = await connectors.load(connectorId);
    return using(connector, options.caller, (connection) => connection.tools(connector, options.signal));
  }

  async function reportOf(connector: Connector): Promise<ConnectionReport> {
    const [record, rows] = await Promise.all([states.get(connector.id), mcpTools.list(connector.id)]);
    const open = ofCallers
      .all()
      .filter(({ connector: { id }, connection }) => id === connector.id && connection.current() !== undefined);
    const facts = { now: now(), callerSessions: open.length };
    return connectionReport(connector, record, rows, pool.get(connector.id)?.connection, facts);
  }

  return {
    tools,
    call,
    async report(connectorId, options = {}) {
      const connector = await connectors.load(connectorId);
      if (options.probe && deps.settings.flag(ENABLED)) {
        await whileNotAborted(entryOf(connector).connection.probe(connector), options.signal);
      }
      return reportOf(await connectors.load(connectorId));
    },
    async reports() {
      const all = await connectors.list();
      return Promise.all(all.filter(({ protocol }) => protocol === 'mcp_streamable_http').map(reportOf));
    },
    async act(connectorId, action, principal) {
      const connector = await connectors.load(connectorId);
      const { connection } = entryOf(connector);
      const { status } = await states.get(connectorId);
      if (!ACTIONS[status].includes(action)) {
        const offered = ACTIONS[status].map((name) => `_${name}`).join(', ');
        throw new CONFLICT(`Connector ${connectorId} is ${status}: it can be ${offered}, not _${action}`);
      }
      const why = `${action} by ${principal.name}`;
      if (action === 'disable') await Promise.all([connection.disable(why), ofCallers.cut(connectorId, why)]);
      else {
        if (action === 'enable') await connection.enable(why);
        else await connection.retire(why);
        if (deps.settings.flag(ENABLED)) await connection.probe(connector);
      }
      await deps.audit.record({ principal: principal.id, action: `connection.${action}`, outcome: 'ok', connectorId });
      return reportOf(connector);
    },
    async toolNamed(connectorId, name, options) {
      const [list, connector] = await Promise.all([tools(connectorId, options), connectors.load(connectorId)]);
      return toolNamed(connector.name, list, name);
    },
    async reset(connectorId, cause) {
      await Promise.all([pool.get(connectorId)?.connection.retire(cause), ofCallers.retire(connectorId, cause)]);
    },
    async close(deadlineMs) {
      clearInterval(sweep);
      closing.abort(
        new UpstreamError({
          code: 'connection_refused',
          destination: 'this server',
          message: 'This server is shutting down: no MCP session is opened any more.',
          statusCode: 503,
          delivered: 'no',
        }),
      );
      const shutDown = everyConnection().map(({ connection }) => connection.shutDown(deadlineMs));
      await Promise.all([...shutDown, work.settled(deadlineMs)]);
      pool.clear();
    },
  };
}

function failedOutcome(error: unknown, signal: AbortSignal | undefined): Pick<AuditEntry, 'outcome' | 'detail'> {
  if (signal?.aborted) return { outcome: 'cancelled' };
  if (error instanceof UpstreamError) {
    return { outcome: error.delivered === 'unknown' ? 'unknown' : 'failed', detail: error.code };
  }
  return { outcome: 'failed', detail: isCatalogueError(error) ? error.code : 'internal' };
}
