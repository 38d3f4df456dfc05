import type { Connector, Connectors } from '../connectors/types.ts';
import { CONNECTOR_NOT_FOUND, isCatalogueError, UpstreamError } from '../errors.ts';
import type { JsonObject } from '../json.ts';
import { retry } from '../outbound/resilience.ts';
import type { McpToolStore } from '../store/mcp-tools.ts';
import { type ConnectionHealth, createConnectionHealth } from './connection-health.ts';
import { UNREACHABLE } from './failure-kinds.ts';
import { remedyFor } from './failures.ts';
import { createListCache } from './list-cache.ts';
import { type OpeningDeps, openWithRetry, retryOptions } from './opening.ts';
import type { ListAnswer, Session } from './session.ts';
import { createSessionLifetimes, type OpenSession } from './session-lifetimes.ts';
import { createOpenWork, Superseded, singleFlight, whileNotAborted } from './shared-work.ts';
import type { ConnectionStates } from './status.ts';
import { readToolList } from './tool-list.ts';
import type { ToolList } from './types.ts';
import { endOfSession } from './verification.ts';

export interface ConnectionDeps extends OpeningDeps {
  readonly connectors: Pick<Connectors, 'load' | 'mcpEndpoint'>;
  readonly states: ConnectionStates;
  readonly mcpTools: Pick<McpToolStore, 'replace'>;
  readonly closing: AbortSignal;
  readonly onOpened: () => void;
  /** The connector turned out to be gone. */
  readonly onGone: () => void;
  /** What is left of an earlier connector of the same id; nothing begins before it ended. */
  readonly before?: Promise<void>;
}

/** One MCP server: at most one session, opened by the first use and shared by all. */
export interface Connection {
  readonly health: Pick<ConnectionHealth, 'breaker' | 'failures'>;
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
  /** A round trip now; opens the session when there is none. Failures end up in the status. */
  probe(connector: Connector): Promise<void>;
  /**
   * Lets go of the session: closed at once, or when its last call ends. Late results of an opening are dropped. The next
   * use opens a new session, and reads the list anew unless that is kept.
   */
  retire(cause: string, options?: { keepList: boolean }): Promise<void>;
  /** Closes the session, cuts the calls on it, and refuses every use until `enable`. */
  disable(cause: string): Promise<void>;
  /** Ends what `disable` began; nothing is opened yet. */
  enable(cause: string): Promise<void>;
  /** For ever: its connector was deleted. Every later use is a 404; settles when nothing of it runs but calls under way. */
  dispose(): Promise<void>;
  /** Closes everything; calls that still run after `deadlineMs` are cut. */
  shutDown(deadlineMs: number): Promise<void>;
  lastUsed(): number;
  lastHeard(): number;
  lastProbe(): number;
}

/** Beyond the deadline for calls: for openings that are given up and sessions that are ended. */
const CLOSING_MS = 3000;

/** Watches over the session with one server. Nothing is opened before the first use. */
export function createConnection(connectorId: string, name: string, deps: ConnectionDeps): Connection {
  const { states, log, now } = deps;
  let destination = `connector "${name}"`;
  const health = createConnectionHealth(connectorId, destination, deps);
  let current: OpenSession | undefined;
  const cache = createListCache(now);
  const lifetimes = createSessionLifetimes();
  let stopOpening: (() => void) | undefined;
  let knownLegacy = false;
  let generation = 0;
  let cause = 'first use';
  const work = createOpenWork();
  const ended = new AbortController();
  let disposed = false;
  const times = { used: now(), heard: now(), probed: 0 };

  async function ensure(connector: Connector, signal?: AbortSignal): Promise<OpenSession> {
    for (;;) {
      signal?.throwIfAborted();
      times.used = now();
      destination = `connector "${connector.name}"`;
      requireThere();
      if ((await states.get(connectorId)).status === 'disabled') throw disabledError(destination);
      requireThere();
      if (current !== undefined && current.connector.revision < connector.revision) await retire('updated');
      if (current !== undefined) return current;
      try {
        await whileNotAborted(openOnce(), signal);
      } catch (error) {
        if (!(error instanceof Superseded)) throw error;
        deps.closing.throwIfAborted();
      }
    }
  }

  function requireThere(): void {
    if (disposed) throw new CONNECTOR_NOT_FOUND(connectorId);
  }

  /** The connector as it is now. @throws CONNECTOR_NOT_FOUND */
  async function loaded(): Promise<Connector> {
    try {
      return await deps.connectors.load(connectorId);
    } catch (error) {
      if (isCatalogueError(error) && error.statusCode === 404) deps.onGone();
      throw error;
    }
  }

  /** Opens by the connector as it is now: whoever waits for it may have read it before a change. */
  async function open(): Promise<OpenSession> {
    const asked = generation;
    await deps.before;
    await health.refuseWhileBroken();
    if (asked !== generation) throw new Superseded();
    cache.beginReading();
    generation += 1;
    const mine = generation;
    const attempt = new AbortController();
    stopOpening = () => attempt.abort(new Superseded());
    const connector = await loaded();
    if (mine !== generation) throw new Superseded();
    await states.move(connectorId, 'connecting', cause);
    let opened: Awaited<ReturnType<typeof openWithRetry>>;
    try {
      opened = await openWithRetry(connector, deps, {
        signal: attempt.signal,
        knownLegacy,
        onHeard: () => {
          times.heard = now();
        },
        onListChanged: markStale,
        onClosing: (closed) => void work.track(closed),
      });
    } catch (error) {
      knownLegacy = false;
      deps.closing.throwIfAborted();
      if (isCatalogueError(error)) await loaded();
      if (mine !== generation) throw new Superseded();
      cause = 'after a failure';
      throw await health.openingFailed(error);
    } finally {
      if (mine === generation) stopOpening = undefined;
    }
    if (mine !== generation) {
      await opened.session.close();
      throw new Superseded();
    }
    health.opened();
    const { session } = opened;
    knownLegacy = !session.stateless;
    const result = lifetimes.opened(session, connector);
    current = result;
    await adopt(result, opened.answer);
    if (current !== result) throw new Superseded();
    deps.onOpened();
    const { tools, leftOut } = result.list;
    log.info(
      { connectorId, protocolVersion: session.protocolVersion, tools: tools.length, leftOut: leftOut.length },
      `MCP connected to ${destination}: protocol ${session.protocolVersion}, ${tools.length} tools`,
    );
    return result;
  }

  async function adopt(open: OpenSession, answer: ListAnswer): Promise<ToolList> {
    const read = readToolList(answer.entries, { statelessEra: open.session.stateless });
    const list = { ...read, warnings: [...open.session.deviations(), ...answer.warnings, ...read.warnings] };
    open.list = list;
    cache.put(list, open.connector.revision, answer.ttlMs);
    const rows = list.tools.map(({ hash, ...definition }) => ({
      name: definition.name,
      definition: definition as unknown as JsonObject,
      hash,
    }));
    await deps.mcpTools.replace(connectorId, rows).catch((error: unknown) => {
      log.error({ err: error, connectorId }, `MCP tools of ${destination} were not registered`);
    });
    if (current === open) {
      await states.move(connectorId, 'connected', cause, {
        lastSuccessTime: now(),
        protocolVersion: open.session.protocolVersion,
        warnings: list.warnings,
        leftOut: list.leftOut,
      });
    }
    return list;
  }

  async function tools(connector: Connector, signal?: AbortSignal): Promise<ToolList> {
    const { status } = await states.get(connectorId);
    const known = status === 'connected' || status === 'idle' ? cache.fresh(connector.revision) : undefined;
    if (known !== undefined) {
      times.used = now();
      return known;
    }
    const open = await ensure(connector, signal);
    return cache.fresh(connector.revision) ?? whileNotAborted(relistOnce(open), signal);
  }

  async function relist(open: OpenSession): Promise<ToolList> {
    cache.beginReading();
    const pageMs = open.connector.clientConfig.connection_timeout * 1000;
    try {
      const answer = await retry((_attempt, totalMs) => open.session.list({ pageMs, totalMs }, ended.signal), {
        ...retryOptions(open.connector, deps.random),
        signal: ended.signal,
        onRetry: ({ attempt, error }) =>
          log.warn({ connectorId, code: error.code, attempt }, `MCP retry of ${destination}: ${error.message}`),
      });
      return current === open ? await adopt(open, answer) : open.list;
    } catch (error) {
      cache.markStale();
      if (!(error instanceof UpstreamError)) throw error;
      await note(open, error);
      if (error.code !== 'session_lost') {
        if (current === open && error.code !== 'rate_limited') await giveUp(open, 'list', error);
        throw error;
      }
      return (await ensure(open.connector)).list;
    }
  }

  async function note(open: OpenSession, error: UpstreamError): Promise<void> {
    if (current !== open) return;
    if (error.code === 'session_lost') {
      log.warn({ connectorId }, `MCP session lost: ${error.message}`);
      letGo(open, { terminate: false });
      cause = 'session_lost';
      await states.move(connectorId, 'idle', 'session_lost');
      return;
    }
    const reason = await endOfSession(open.session, error);
    if (reason === undefined || current !== open) return;
    if (reason.code === 'session_lost') return note(open, reason);
    await giveUp(open, 'use', reason);
  }

  async function giveUp(open: OpenSession, during: string, reason: UpstreamError): Promise<void> {
    letGo(open, { terminate: !UNREACHABLE.has(reason.code) });
    cause = 'after a failure';
    await health.fail(during, reason);
  }

  function letGo(open: OpenSession, how: { terminate: boolean }): void {
    if (current === open) current = undefined;
    void lifetimes.close(open, how);
  }

  function markStale(): void {
    if (cache.markStale())
      log.info({ connectorId }, `MCP tool list of ${destination} changed: it is read again before its next use`);
  }

  async function probe(connector: Connector): Promise<void> {
    times.probed = now();
    const open = current;
    try {
      if (open === undefined) {
        await ensure(connector);
        return;
      }
      await open.session.ping(connector.clientConfig.connection_timeout * 1000);
      if (current === open) await states.amend(connectorId, { lastSuccessTime: now() });
    } catch (error) {
      if (open === undefined || !(error instanceof UpstreamError) || current !== open) return;
      if (error.code === 'rate_limited') return;
      if (error.code !== 'session_lost') return giveUp(open, 'probe', error);
      await note(open, error);
      await ensure(connector).catch(() => undefined);
    }
  }

  async function retire(why: string, options = { keepList: false }): Promise<void> {
    generation += 1;
    const mine = generation;
    const open = current;
    current = undefined;
    cause = why;
    health.reset();
    stopOpening?.();
    if (!options.keepList) cache.clear();
    if (open !== undefined) log.info({ connectorId, cause: why }, `MCP connection to ${destination} closed: ${why}`);
    const { status } = await states.get(connectorId);
    if (status !== 'idle' && status !== 'disabled' && generation === mine) await states.move(connectorId, 'idle', why);
    if (open === undefined) return;
    const closed = lifetimes.close(open);
    if (open.inFlight === 0) await closed;
  }

  /** A state is kept for a connector that exists, and for no other. */
  async function confirm(): Promise<void> {
    await deps.before;
    await loaded();
    requireThere();
  }

  async function dispose(): Promise<void> {
    disposed = true;
    ended.abort(new CONNECTOR_NOT_FOUND(connectorId));
    await retire('deleted');
    await work.settled();
  }

  async function disable(why: string): Promise<void> {
    await confirm();
    generation += 1;
    const open = current;
    current = undefined;
    stopOpening?.();
    health.reset();
    log.info({ connectorId, cause: why }, `MCP connection to ${destination} disabled: ${why}`);
    await states.move(connectorId, 'disabled', why);
    if (open !== undefined) await lifetimes.cut(open);
  }

  async function enable(why: string): Promise<void> {
    await confirm();
    cause = why;
    log.info({ connectorId, cause: why }, `MCP connection to ${destination} enabled: ${why}`);
    await states.move(connectorId, 'idle', why);
  }

  async function shutDown(deadlineMs: number): Promise<void> {
    generation += 1;
    const wasOpen = current !== undefined;
    current = undefined;
    stopOpening?.();
    ended.abort(deps.closing.reason);
    await Promise.all([lifetimes.closeAll(deadlineMs), work.settled(deadlineMs + CLOSING_MS)]);
    const { status } = await states.get(connectorId);
    if (status === 'connected' || status === 'connecting') await states.move(connectorId, 'idle', 'shutdown');
    if (wasOpen) log.info({ connectorId, cause: 'shutdown' }, `MCP connection to ${destination} closed: shutdown`);
  }

  const openOnce = singleFlight(() => work.track(open()));
  const relistOnce = singleFlight((of: OpenSession) => work.track(relist(of)));

  return {
    health,
    current: () => current,
    ensure,
    tools,
    async use(open, work) {
      try {
        return await lifetimes.use(open, work);
      } finally {
        times.used = now();
      }
    },
    note,
    relist: (open) => relistOnce(open),
    probe,
    retire,
    disable,
    enable,
    dispose,
    shutDown,
    lastUsed: () => times.used,
    lastHeard: () => times.heard,
    lastProbe: () => times.probed,
  };
}

function disabledError(destination: string): UpstreamError {
  return new UpstreamError({
    code: 'disabled',
    destination,
    message: `${destination} is disabled: its tools are not used until it is enabled again.`,
    remedy: remedyFor('disabled'),
    statusCode: 409,
    delivered: 'no',
  });
}
