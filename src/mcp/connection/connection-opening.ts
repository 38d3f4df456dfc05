import type { Connector } from '../../connectors/types.ts';
import { isCatalogueError, UpstreamError } from '../../errors.ts';
import { remedyFor } from '../remedies.ts';
import { openWithRetry } from '../session/opening.ts';
import type { ToolReading } from '../tool-reading.ts';
import type { ConnectionDeps } from './connection.ts';
import type { ConnectionHealth, OpenedBy } from './connection-health.ts';
import type { ConnectionList } from './connection-list.ts';
import { addressOf } from './server-address.ts';
import type { OpenSession, SessionLifetimes } from './session-lifetimes.ts';
import { Superseded } from './shared-work.ts';

/** What changes while a connection lives; its parts share it. Times are epoch milliseconds. */
export interface ConnectionLife {
  /** How messages name it: `connector "weather"`. */
  destination: string;
  current: OpenSession | undefined;
  /** Grows with whatever makes an opening under way void: its late result is dropped. */
  generation: number;
  /** Gives up the opening under way. */
  stopOpening: (() => void) | undefined;
  /** The server spoke the era with sessions. */
  knownLegacy: boolean;
  /** Why it is opened next, for its history. */
  cause: string;
  /** Its connector was deleted. */
  disposed: boolean;
  stderr: (() => readonly string[]) | undefined;
  readonly times: { used: number; opened: number; heard: number; probed: number };
}

/** A connection that was never used. */
export function beginLife(name: string, time: number): ConnectionLife {
  return {
    destination: `connector "${name}"`,
    current: undefined,
    generation: 0,
    stopOpening: undefined,
    knownLegacy: false,
    cause: 'first use',
    disposed: false,
    stderr: undefined,
    times: { used: time, opened: 0, heard: time, probed: 0 },
  };
}

export interface ConnectionOpeningDeps {
  readonly life: ConnectionLife;
  readonly deps: Pick<
    ConnectionDeps,
    'states' | 'log' | 'now' | 'before' | 'closing' | 'onOpened' | 'onGone' | 'server'
  > &
    Parameters<typeof openWithRetry>[1] & { readonly connectors: Pick<ConnectionDeps['connectors'], 'load'> };
  readonly health: ConnectionHealth;
  readonly list: ConnectionList;
  readonly lifetimes: Pick<SessionLifetimes, 'opened'>;
  readonly adopt: ToolReading['adopt'];
  /** Counts work that may have to be waited for. */
  readonly track: <T>(work: Promise<T>) => Promise<T>;
  /** The server ended the session without being asked to. */
  lost(open: OpenSession, error: Error): Promise<void>;
  /** It ended the stream on which it tells of changes; `undefined`: before the session was adopted. */
  missed(open: OpenSession | undefined): void;
}

export interface ConnectionOpening {
  /** The connector as it is now. @throws CONNECTOR_NOT_FOUND */
  loaded(): Promise<Connector>;
  /**
   * Opens by the connector as it is now: whoever waits for it may have read it before a change. In the background it is
   * tried once. @throws UpstreamError, Superseded
   */
  open(by: OpenedBy): Promise<OpenSession>;
  /** What was learnt from another address is not true of this server. */
  forgetMoved(connector: Connector): Promise<void>;
}

/** How one connection is opened, from its present state to `connected` or `failed`. */
export function createConnectionOpening(connectorId: string, parts: ConnectionOpeningDeps): ConnectionOpening {
  const { life, deps, health, list, lifetimes, adopt, track, lost, missed } = parts;
  const { states, log, now } = deps;

  async function loaded(): Promise<Connector> {
    try {
      return await deps.connectors.load(connectorId);
    } catch (error) {
      if (isCatalogueError(error) && error.statusCode === 404) deps.onGone();
      throw error;
    }
  }

  async function open(by: OpenedBy): Promise<OpenSession> {
    const background = by === 'background';
    const asked = life.generation;
    await deps.before;
    health.admit(by);
    const { status } = await states.get(connectorId);
    if (asked !== life.generation) throw new Superseded();
    if (status === 'disabled') throw disabledError(life.destination);
    list.beginReading();
    life.generation += 1;
    const mine = life.generation;
    const attempt = new AbortController();
    life.stopOpening = () => attempt.abort(new Superseded());
    const connector = await loaded();
    await forgetMoved(connector);
    if (mine !== life.generation) throw new Superseded();
    if (background) health.attempted();
    await states.move(connectorId, 'connecting', life.cause);
    const end: { of?: OpenSession; why?: Error | undefined } = {};
    let opened: Awaited<ReturnType<typeof openWithRetry>>;
    try {
      opened = await openWithRetry(background ? triedOnce(connector) : connector, deps, {
        signal: attempt.signal,
        knownLegacy: life.knownLegacy,
        onHeard: () => {
          life.times.heard = now();
        },
        onListChanged: list.changed,
        onMissed: () => missed(end.of),
        onClosing: (closed) => void track(closed),
        onStderr: (lines) => {
          life.stderr = lines;
          end.why = undefined;
        },
        onGone: (error) => {
          end.why = error;
          if (end.of !== undefined) void track(lost(end.of, error));
        },
      });
    } catch (error) {
      life.knownLegacy = false;
      deps.closing.throwIfAborted();
      if (isCatalogueError(error)) await loaded();
      if (mine !== life.generation) throw new Superseded();
      life.cause = 'after a failure';
      throw await health.openingFailed(error, by);
    } finally {
      if (mine === life.generation) life.stopOpening = undefined;
    }
    if (mine !== life.generation) {
      await opened.session.close();
      throw new Superseded();
    }
    health.opened(by);
    const { session } = opened;
    life.knownLegacy = !session.stateless;
    const result = lifetimes.opened(session, connector);
    life.times.opened = now();
    life.current = result;
    await adopt(result, opened.answer);
    if (life.current !== result) throw new Superseded();
    deps.onOpened();
    await deps.server?.told(undefined);
    const { tools, leftOut } = result.list;
    log.info(
      { connectorId, protocolVersion: session.protocolVersion, tools: tools.length, leftOut: leftOut.length },
      `MCP connected to ${life.destination}: protocol ${session.protocolVersion}, ${tools.length} tools`,
    );
    end.of = result;
    if (end.why !== undefined) await lost(result, end.why);
    return result;
  }

  async function forgetMoved(connector: Connector): Promise<void> {
    const { address } = await states.get(connectorId);
    if (address === undefined || address === addressOf(connector)) return;
    life.knownLegacy = false;
    await Promise.all([states.renew(connectorId), list.disown()]);
  }

  return { loaded, open, forgetMoved };
}

/** Nobody waits for it: what fails is tried again later. */
function triedOnce(connector: Connector): Connector {
  return { ...connector, clientConfig: { ...connector.clientConfig, max_retry_times: 0 } };
}

/** What every use of a disabled connection gets. */
export function disabledError(destination: string): UpstreamError {
  return new UpstreamError({
    code: 'disabled',
    destination,
    message: `${destination} is disabled: its tools are not used until it is enabled again.`,
    remedy: remedyFor('disabled'),
    statusCode: 409,
    delivered: 'no',
  });
}
