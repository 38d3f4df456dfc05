import { speaksMcp } from '../../connectors/protocols.ts';
import type { Connector } from '../../connectors/types.ts';
import { isCatalogueError, UpstreamError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { type Bulkhead, createBulkhead } from '../../outbound/resilience.ts';
import { createLocalProcesses } from '../process/local-process.ts';
import type { McpSessionsDeps, PoolLimits } from '../sessions.ts';
import type { ConnectionChange, McpCaller } from '../types.ts';
import { createCallerSessions } from './caller-sessions.ts';
import { type Connection, createConnection } from './connection.ts';
import type { ToolsChange } from './connection-list.ts';
import { followOtherProcesses } from './other-processes.ts';
import { createOpenWork } from './shared-work.ts';
import { type ConnectionStates, createConnectionStates } from './status.ts';
import { startSweep } from './sweep.ts';

/** A connection, the newest version of its connector that was seen, and what bounds the calls on it. */
export interface PooledConnection {
  readonly connection: Connection;
  readonly connector: Connector;
  readonly bulkhead: Bulkhead;
}

export interface ConnectionPool {
  readonly states: ConnectionStates;
  /** The one that everybody shares, made by its first use. @throws while the server shuts down */
  of(connector: Connector): PooledConnection;
  /** `undefined` for one that was not used. */
  known(connectorId: string): Connection | undefined;
  /** Works on the session of this caller: the shared one, unless headers of the caller are passed on. */
  using<T>(
    connector: Connector,
    caller: McpCaller | undefined,
    work: (connection: Connection) => Promise<T>,
  ): Promise<T>;
  /** Open sessions of single callers. */
  callerSessions(connectorId: string): number;
  /** Switches it off for all, callers with sessions of their own included. */
  disable(connector: Connector, cause: string): Promise<void>;
  /** Lets go of all its sessions. */
  retire(connectorId: string, cause: string): Promise<void>;
  /** Connects every enabled declared server, in parallel. */
  connectDeclared(): void;
  close(deadlineMs: number): Promise<void>;
}

const LIMITS: PoolLimits = { idleMs: 900_000, probeMs: 60_000, sweepMs: 1000, maxSessions: 256 };
const ENABLED = 'plugins.ml_commons.mcp_connector_enabled';
/** A connector of the API that fails is tried again by itself for so long after its last use. */
const WANTED_MS = 3_600_000;
/** Names of tools in one event, of each kind. */
const MAX_NAMES = 100;
/** Calls that wait for one of `max_connection` to end. */
const MAX_WAITING = 1000;

/** The connections of this process: made by use, watched over, ended with their connectors and at shutdown. */
export function createConnectionPool(deps: McpSessionsDeps): ConnectionPool {
  const { connectors, connections, mcpTools, log, now = Date.now, random = Math.random } = deps;
  const limits = { ...LIMITS, ...deps.limits };
  const states = createConnectionStates({ connections, log, now, declared, onChange });
  const closing = new AbortController();
  const processes = createLocalProcesses();
  const disposals = new Map<string, Promise<void>>();
  const work = createOpenWork();
  const pool = new Map<string, PooledConnection>();
  const ofCallers = createCallerSessions({
    ...deps,
    processes,
    now,
    random,
    closing: closing.signal,
    onOpened: evict,
    serverOf: (connector) => entryOf(connector).connection.server,
    maxCallers: limits.maxSessions,
  });

  function entryOf(connector: Connector): PooledConnection {
    closing.signal.throwIfAborted();
    const known = pool.get(connector.id);
    if (known !== undefined && known.connector.revision >= connector.revision) return known;
    const { id, name, clientConfig } = connector;
    const before = disposals.get(id);
    const connection: Connection =
      known?.connection ??
      createConnection(connector, {
        ...deps,
        ...{ states, processes, now, random, closing: closing.signal },
        onOpened: () => evict(connection),
        onGone: () => forgetGone(id, entry),
        onTools: (change) => publish('tools', id, shown(change)),
        wanted: (time) => isWanted(entry, time),
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
    deps.metrics?.forget(id);
  }

  async function declared(id: string): Promise<Connector['declared']> {
    try {
      return (await connectors.load(id)).declared;
    } catch (error) {
      if (isCatalogueError(error)) return undefined;
      throw error;
    }
  }

  function onChange(id: string, { message, ...change }: ConnectionChange): void {
    publish('connection', id, { ...change, ...(message !== undefined && { message }) });
  }

  function publish(type: 'connection' | 'tools', id: string, change: JsonObject): void {
    const name = pool.get(id)?.connector.name;
    const data = { connector_id: id, ...(name !== undefined && { name }), ...change };
    deps.events?.publish({ type, data, scope: { connectorId: id } });
  }

  /** Declared servers always, others for an hour after their last use. */
  function isWanted(
    { connection, connector }: { connection: Connection; connector: Connector },
    time: number,
  ): boolean {
    if (connector.declared !== undefined) return connector.declared.problem === undefined;
    return time - connection.lastUsed() < WANTED_MS;
  }

  /** What is known of a connector is forgotten when an update has led it to another server. */
  async function forgetMoved(id: string): Promise<void> {
    if (closing.signal.aborted) return;
    try {
      const connector = await connectors.load(id);
      if (speaksMcp(connector)) await entryOf(connector).connection.forgetMoved(connector);
    } catch (error) {
      if (!isCatalogueError(error)) throw error;
    }
  }

  async function connectDeclared(): Promise<void> {
    const all = (await connectors.list()).filter((connector) => connector.declared !== undefined);
    await Promise.all(
      all.map(async (connector) => {
        const { enabled, problem } = connector.declared ?? {};
        if (problem !== undefined) {
          log.warn({ connectorId: connector.id, code: problem.code }, `MCP server not usable: ${problem.message}`);
        }
        // The connection of that id is the stored connector's.
        if (problem?.code === 'id_taken') return;
        const { connection } = entryOf(connector);
        await connection.forgetMoved(connector);
        if (problem !== undefined) return;
        if (enabled && deps.settings.flag(ENABLED)) await connection.recover('start', { patient: true });
      }),
    );
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

  const stopSweep = startSweep({
    shared: () => pool.values(),
    ofCallers() {
      ofCallers.forgetUnused(limits.idleMs);
      return ofCallers.all();
    },
    enabled: () => deps.settings.flag(ENABLED),
    stillThere,
    now,
    limits,
  });

  /** A connector that another process deleted has no session here for long. */
  async function stillThere({ id }: Connector): Promise<boolean> {
    if ((await connectors.find(id)) !== undefined) return true;
    await ended(id);
    return false;
  }

  /** Ends what there is of an id; whatever is made anew under it waits for that. */
  async function ended(id: string): Promise<void> {
    const gone = work.track(dispose(id, disposals.get(id))).finally(() => {
      if (disposals.get(id) === gone) disposals.delete(id);
    });
    disposals.set(id, gone);
    await gone;
  }

  async function disable(connector: Connector, cause: string): Promise<void> {
    await Promise.all([entryOf(connector).connection.disable(cause), ofCallers.cut(connector.id, cause)]);
  }

  const stopFollowing = deps.shared
    ? followOtherProcesses({ connections, states, known: () => pool.values(), disable, log })
    : async () => undefined;

  connectors.onChange(async (id, change) => {
    if (change === 'updated') {
      await Promise.all([pool.get(id)?.connection.retire(change), ofCallers.retire(id, change)]);
      await forgetMoved(id);
      return;
    }
    await ended(id);
  });

  return {
    states,
    of: entryOf,
    known: (id) => pool.get(id)?.connection,
    using,
    callerSessions: (id) =>
      ofCallers.all().filter(({ connector, connection }) => connector.id === id && connection.current() !== undefined)
        .length,
    disable,
    async retire(id, cause) {
      await Promise.all([pool.get(id)?.connection.retire(cause), ofCallers.retire(id, cause)]);
    },
    connectDeclared() {
      work
        .track(connectDeclared())
        .catch((err: unknown) => log.error({ err }, 'MCP servers of the configuration file were not connected'));
    },
    async close(deadlineMs) {
      stopSweep();
      await stopFollowing();
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
      await processes.close();
      pool.clear();
    },
  };
}

/** Names enough to look for; the list itself is asked for. */
function shown({ added, removed, changed }: ToolsChange): JsonObject {
  const some = (names: readonly string[]): string[] => names.slice(0, MAX_NAMES);
  return { added: some(added), removed: some(removed), changed: some(changed) };
}
