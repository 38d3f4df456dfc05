import type { Connector, Connectors } from '../../connectors/types.ts';
import { CONNECTOR_NOT_FOUND, UpstreamError } from '../../errors.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { UNREACHABLE } from '../failure-kinds.ts';
import type { OpeningDeps } from '../session/opening.ts';
import type { Session } from '../session/session.ts';
import { createToolReading } from '../tool-reading.ts';
import type { ToolList } from '../types.ts';
import {
  type ConnectionHealth,
  createConnectionHealth,
  type OpenedBy,
  type SharedServer,
} from './connection-health.ts';
import { type ConnectionListDeps, createConnectionList } from './connection-list.ts';
import { beginLife, createConnectionOpening, disabledError } from './connection-opening.ts';
import { createUpkeep } from './connection-upkeep.ts';
import { createMissedStreams } from './missed-streams.ts';
import { createSessionLifetimes, type OpenSession } from './session-lifetimes.ts';
import { createOpenWork, Superseded, singleFlight, whileNotAborted } from './shared-work.ts';
import type { ConnectionStates } from './status.ts';
import { endOfSession } from './verification.ts';

export interface ConnectionDeps extends OpeningDeps, Omit<ConnectionListDeps, keyof OpeningDeps> {
  readonly connectors: OpeningDeps['connectors'] & Pick<Connectors, 'load'>;
  readonly states: ConnectionStates;
  readonly metrics?: Pick<Metrics, 'connectAttempt'>;
  readonly closing: AbortSignal;
  readonly onOpened: () => void;
  /** The connector turned out to be gone. */
  readonly onGone: () => void;
  /** Whether it is tried again by itself, at that time, after a failure that passes. Default: never. */
  readonly wanted?: (time: number) => boolean;
  /** Of a single caller's connection: the server as the connector's other connections know it. */
  readonly server?: SharedServer;
  /** What is left of an earlier connector of the same id; nothing begins before it ended. */
  readonly before?: Promise<void>;
}

/** One MCP server: at most one session, opened by the first use and shared by all. */
export interface Connection {
  readonly health: Pick<ConnectionHealth, 'breaker' | 'failures' | 'dueAt'>;
  /** For the connections of single callers with the same server. */
  readonly server: SharedServer;
  /** The last lines of a local process, also of one that is gone. */
  stderr(): readonly string[];
  current(): OpenSession | undefined;
  /** The open session, opened if need be; `stale` sessions of an older revision are replaced. @throws UpstreamError */
  ensure(connector: Connector, signal?: AbortSignal): Promise<OpenSession>;
  /** The list while it is fresh, else read again. @throws UpstreamError */
  tools(connector: Connector, signal?: AbortSignal): Promise<ToolList>;
  /** Runs one call on the session and keeps it open until the call ends. */
  use<T>(open: OpenSession, work: (session: Session) => Promise<T>): Promise<T>;
  /** Takes in what a failed call says about the connection; settles before the call's own reply is given. */
  note(open: OpenSession, error: UpstreamError): Promise<void>;
  /** Reads the list again now. @throws UpstreamError */
  relist(open: OpenSession): Promise<ToolList>;
  /** When its list is read again by itself, epoch milliseconds: its server said that it changed. */
  relistAt(): number | undefined;
  /** Reads the list again where it may have changed. Failures end up in the status. */
  refresh(): Promise<void>;
  /**
   * A round trip now, and the list where it may have changed; opens the session when there is none, past the breaker too.
   * Failures end up in the status.
   */
  probe(connector: Connector): Promise<void>;
  /** Opens it although nobody asked for it: one try, or as many as a use makes. Failures end up in the status. */
  recover(cause: string, options?: { patient: boolean }): Promise<void>;
  /**
   * Lets go of the session: closed at once, or when its last call ends. Late results of an opening are dropped. The next
   * use opens a new session, and reads the list anew unless that is kept. `trying`: that use comes at once.
   */
  retire(cause: string, options?: { keepList?: boolean; trying?: boolean }): Promise<void>;
  /** Forgets the tools that are known, where they were read from another address than the connector now has. */
  forgetMoved(connector: Connector): Promise<void>;
  /** Closes the session, cuts the calls on it, and refuses every use until `enable`. */
  disable(cause: string): Promise<void>;
  /** Ends what `disable` began; nothing is opened yet. */
  enable(cause: string): Promise<void>;
  /** For ever: its connector was deleted. Every later use is a 404; settles when nothing of it runs but calls under way. */
  dispose(): Promise<void>;
  /** Closes everything; calls that still run after `deadlineMs` are cut. */
  shutDown(deadlineMs: number): Promise<void>;
  lastUsed(): number;
  /** When it was used or opened last. */
  idleSince(): number;
  lastHeard(): number;
  lastProbe(): number;
}

/** Beyond the deadline for calls: for openings that are given up and sessions that are ended. */
const CLOSING_MS = 3000;

/** Watches over the session with one server. Nothing is opened before the first use. */
export function createConnection(described: Connector, deps: ConnectionDeps): Connection {
  const { states, log, now } = deps;
  const connectorId = described.id;
  const life = beginLife(described.name, now());
  const health = createConnectionHealth(connectorId, life.destination, {
    ...deps,
    wanted: (time) => !life.disposed && (deps.wanted?.(time) ?? false),
    local: described.protocol === 'mcp_stdio',
  });
  const list = createConnectionList(connectorId, () => life.destination, deps);
  const lifetimes = createSessionLifetimes();
  const work = createOpenWork();
  const ended = new AbortController();

  async function ensure(connector: Connector, signal?: AbortSignal, by: OpenedBy = 'use'): Promise<OpenSession> {
    for (;;) {
      signal?.throwIfAborted();
      life.times.used = now();
      life.destination = `connector "${connector.name}"`;
      requireThere();
      if ((await states.get(connectorId)).status === 'disabled') throw disabledError(life.destination);
      requireThere();
      if (life.current !== undefined && life.current.connector.revision < connector.revision) await retire('updated');
      if (life.current !== undefined) return life.current;
      try {
        await whileNotAborted(openOnce(by), signal);
      } catch (error) {
        if (!(error instanceof Superseded)) throw error;
        deps.closing.throwIfAborted();
      }
    }
  }

  function requireThere(): void {
    if (life.disposed) throw new CONNECTOR_NOT_FOUND(connectorId);
  }

  /** The server ended the session without being asked to, and nobody was waiting for an answer. */
  async function lost(open: OpenSession, error: Error): Promise<void> {
    if (life.current !== open) return;
    const reason =
      error instanceof UpstreamError
        ? error
        : new UpstreamError({
            code: 'stream_broken',
            destination: life.destination,
            message: error.message,
            statusCode: 502,
          });
    if (reason.code === 'process_exited') return giveUp(open, 'process', reason);
    await note(open, reason);
  }

  async function note(open: OpenSession, error: UpstreamError): Promise<void> {
    if (life.current !== open) return;
    if (error.code === 'session_lost') {
      log.warn({ connectorId }, `MCP session lost: ${error.message}`);
      letGo(open, { terminate: false });
      if (health.ended(error, open.proved)) {
        life.cause = 'after a failure';
        await health.fail('use', error);
        return;
      }
      life.cause = 'session_lost';
      await states.move(connectorId, 'idle', 'session_lost');
      return;
    }
    const reason = await endOfSession(open.session, error);
    if (reason === undefined || life.current !== open) return;
    if (reason.code === 'session_lost') return note(open, reason);
    await giveUp(open, 'use', reason);
  }

  async function giveUp(open: OpenSession, during: string, reason: UpstreamError): Promise<void> {
    letGo(open, { terminate: !UNREACHABLE.has(reason.code) });
    if (during !== 'probe') health.ended(reason, open.proved);
    life.cause = 'after a failure';
    await health.fail(during, reason);
  }

  function letGo(open: OpenSession, how: { terminate: boolean }): void {
    if (life.current === open) life.current = undefined;
    void lifetimes.close(open, how);
  }

  async function recover(why: string, { patient } = { patient: false }): Promise<void> {
    const { status } = await states.get(connectorId);
    if (life.current !== undefined || life.disposed || (status !== 'failed' && status !== 'idle')) return;
    life.cause = why;
    await openOnce(patient ? 'use' : 'background').catch(() => undefined);
  }

  async function retire(why: string, { keepList = false, trying = false } = {}): Promise<void> {
    life.generation += 1;
    const mine = life.generation;
    const open = life.current;
    life.current = undefined;
    life.cause = why;
    health.reset();
    life.stopOpening?.();
    if (!keepList) list.clear();
    if (open !== undefined)
      log.info({ connectorId, cause: why }, `MCP connection to ${life.destination} closed: ${why}`);
    const { status } = await states.get(connectorId);
    if (status !== 'idle' && status !== 'disabled' && life.generation === mine)
      await states.move(connectorId, 'idle', why, {}, { trying });
    if (open === undefined) return;
    const closed = lifetimes.close(open);
    if (open.inFlight === 0) await closed;
  }

  /** A state is kept for a connector that exists, and for no other. */
  async function confirm(): Promise<void> {
    await deps.before;
    await opening.loaded();
    requireThere();
  }

  async function dispose(): Promise<void> {
    life.disposed = true;
    ended.abort(new CONNECTOR_NOT_FOUND(connectorId));
    await retire('deleted');
    await work.settled();
  }

  async function disable(why: string): Promise<void> {
    await confirm();
    life.generation += 1;
    life.current = undefined;
    life.stopOpening?.();
    health.reset();
    log.info({ connectorId, cause: why }, `MCP connection to ${life.destination} disabled: ${why}`);
    await states.move(connectorId, 'disabled', why);
    await lifetimes.cutAll();
  }

  async function enable(why: string): Promise<void> {
    await confirm();
    life.cause = why;
    log.info({ connectorId, cause: why }, `MCP connection to ${life.destination} enabled: ${why}`);
    await states.move(connectorId, 'idle', why);
  }

  async function shutDown(deadlineMs: number): Promise<void> {
    life.generation += 1;
    const wasOpen = life.current !== undefined;
    life.current = undefined;
    life.stopOpening?.();
    ended.abort(deps.closing.reason);
    await Promise.all([lifetimes.closeAll(deadlineMs), work.settled(deadlineMs + CLOSING_MS)]);
    const { status } = await states.get(connectorId);
    if (status === 'connected' || status === 'connecting') await states.move(connectorId, 'idle', 'shutdown');
    if (wasOpen) log.info({ connectorId, cause: 'shutdown' }, `MCP connection to ${life.destination} closed: shutdown`);
  }

  const missed = createMissedStreams({
    now,
    markStale: list.markStale,
    isCurrent: (open) => life.current === open,
    ask: (open) => void work.track(probe(open.connector)),
  });
  const reading = createToolReading(connectorId, {
    list,
    states,
    now,
    signal: ended.signal,
    track: work.track,
    current: () => life.current,
    cause: () => life.cause,
    ensure,
    used() {
      life.times.used = now();
    },
    note,
    giveUp,
  });
  const { probe, refresh, told } = createUpkeep(connectorId, {
    ...{ life, states, health, list, now, ensure, giveUp, note },
    relist: reading.relist,
    track: work.track,
  });
  const opening = createConnectionOpening(connectorId, {
    ...{ life, deps, health, list, lifetimes, lost, missed },
    adopt: reading.adopt,
    track: work.track,
  });
  const openOnce = singleFlight((by: OpenedBy) => work.track(opening.open(by)));

  return {
    health,
    server: { health: health.server, told },
    stderr: () => life.stderr?.() ?? [],
    current: () => life.current,
    ensure,
    tools: reading.tools,
    async use(open, work) {
      try {
        const result = await lifetimes.use(open, work);
        health.proved();
        return result;
      } finally {
        life.times.used = now();
      }
    },
    note,
    relist: reading.relist,
    relistAt: () => (life.current === undefined ? undefined : list.refresh.dueAt()),
    refresh,
    probe,
    recover,
    retire,
    async forgetMoved(connector) {
      if (life.current === undefined && life.stopOpening === undefined) await opening.forgetMoved(connector);
    },
    disable,
    enable,
    dispose,
    shutDown,
    lastUsed: () => life.times.used,
    idleSince: () => Math.max(life.times.used, life.times.opened),
    lastHeard: () => life.times.heard,
    lastProbe: () => life.times.probed,
  };
}
