import type { Connector } from '../connectors/types.ts';
import { UpstreamError } from '../errors.ts';
import type { ConnectionList } from './connection/connection-list.ts';
import { createHoldOff } from './connection/hold-off.ts';
import { addressOf } from './connection/server-address.ts';
import type { OpenSession } from './connection/session-lifetimes.ts';
import { singleFlight, whileNotAborted } from './connection/shared-work.ts';
import type { ConnectionStates } from './connection/status.ts';
import type { ListAnswer } from './session/session.ts';
import type { ToolList } from './types.ts';

/** The connection whose tools are read. */
export interface ReadConnection {
  readonly list: ConnectionList;
  readonly states: Pick<ConnectionStates, 'get' | 'move'>;
  readonly now: () => number;
  /** Ends what is read. */
  readonly signal: AbortSignal;
  /** Counts work that may have to be waited for. */
  readonly track: <T>(work: Promise<T>) => Promise<T>;
  current(): OpenSession | undefined;
  /** Why it is open, for its history. */
  cause(): string;
  /** @throws UpstreamError */
  ensure(connector: Connector, signal?: AbortSignal): Promise<OpenSession>;
  /** Somebody used it. */
  used(): void;
  /** Takes in what a failed request says about the session. */
  note(open: OpenSession, error: UpstreamError): Promise<void>;
  /** The session is of no use any more. */
  giveUp(open: OpenSession, during: string, reason: UpstreamError): Promise<void>;
}

export interface ToolReading {
  /** The list while it is fresh, else read again. @throws UpstreamError */
  tools(connector: Connector, signal?: AbortSignal): Promise<ToolList>;
  /** Reads the list again now, once for all who ask. @throws UpstreamError */
  relist(open: OpenSession): Promise<ToolList>;
  /** Takes in what was read; with it the session counts as connected. */
  adopt(open: OpenSession, answer: ListAnswer): Promise<ToolList>;
}

/** How one connection reads its tools, and what that says about it. */
export function createToolReading(connectorId: string, connection: ReadConnection): ToolReading {
  const { list, states, now, signal: ended } = connection;
  /** A rate limit leaves the session: nothing else would keep uses from asking for the list every time. */
  const holdOff = createHoldOff(now);

  async function adopt(open: OpenSession, answer: ListAnswer): Promise<ToolList> {
    const { leftOut, warnings } = await list.adopt(open, answer);
    const address = addressOf(open.connector);
    if (connection.current() === open) {
      await states.move(connectorId, 'connected', connection.cause(), {
        lastSuccessTime: now(),
        protocolVersion: open.session.protocolVersion,
        warnings,
        leftOut,
        ...(address !== undefined && { address }),
      });
    }
    return open.list;
  }

  async function relist(open: OpenSession): Promise<ToolList> {
    holdOff.refuse();
    list.beginReading();
    try {
      const answer = await list.read(open, ended);
      holdOff.end();
      return connection.current() === open ? await adopt(open, answer) : open.list;
    } catch (error) {
      list.markStale('it could not be read');
      if (!(error instanceof UpstreamError)) throw error;
      await connection.note(open, error);
      if (error.code === 'rate_limited') holdOff.failed(error);
      else holdOff.end();
      if (error.code !== 'session_lost') {
        const isOver = connection.current() === open && error.code !== 'rate_limited';
        if (isOver) await connection.giveUp(open, 'list', error);
        throw error;
      }
      return (await connection.ensure(open.connector)).list;
    }
  }

  const relistOnce = singleFlight((open: OpenSession) => connection.track(relist(open)));

  return {
    async tools(connector, signal) {
      const { status } = await states.get(connectorId);
      const known = status === 'connected' || status === 'idle' ? list.fresh(connector.revision) : undefined;
      if (known !== undefined) {
        connection.used();
        return known;
      }
      const open = await connection.ensure(connector, signal);
      return list.fresh(connector.revision) ?? whileNotAborted(relistOnce(open), signal);
    },
    relist: relistOnce,
    adopt,
  };
}
