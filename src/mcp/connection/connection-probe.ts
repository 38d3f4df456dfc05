import type { Connector } from '../../connectors/types.ts';
import { UpstreamError } from '../../errors.ts';
import type { OpenSession } from './session-lifetimes.ts';

/** What a probe does to its connection. */
export interface Probed {
  current(): OpenSession | undefined;
  /** @throws UpstreamError */
  ensure(connector: Connector): Promise<unknown>;
  /** The server answered. */
  answered(open: OpenSession): Promise<void>;
  /** The session is of no use any more. */
  giveUp(open: OpenSession, during: string, reason: UpstreamError): Promise<void>;
  /** Takes in what a failed request says about the session. @returns whether a new one may be opened at once */
  note(open: OpenSession, error: UpstreamError): Promise<boolean>;
}

/**
 * A round trip now: opens the session when there is none, replaces one that is lost. Failures end up in the status; a
 * server that limits its rate is there.
 */
export async function probeConnection(connection: Probed, connector: Connector): Promise<void> {
  const open = connection.current();
  try {
    if (open === undefined) {
      await connection.ensure(connector);
      return;
    }
    await open.session.ping(connector.clientConfig.connection_timeout * 1000, 'connection_timeout');
    if (connection.current() === open) await connection.answered(open);
  } catch (error) {
    if (open === undefined || !(error instanceof UpstreamError) || connection.current() !== open) return;
    if (error.code === 'rate_limited') return;
    if (error.code !== 'session_lost') return connection.giveUp(open, 'probe', error);
    if (await connection.note(open, error)) await connection.ensure(connector).catch(() => undefined);
  }
}
