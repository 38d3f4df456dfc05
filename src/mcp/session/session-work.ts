import type { Connector } from '../../connectors/types.ts';
import { UpstreamError } from '../../errors.ts';
import type { Connection } from '../connection/connection.ts';
import type { Session } from './session.ts';

/**
 * Runs work that changes nothing at the server on its session, opened if need be; once more in a new one when the
 * server no longer knew the session.
 * @throws UpstreamError after the status of the connection has been brought up to date
 */
export async function onSession<T>(
  connection: Connection,
  connector: Connector,
  work: (session: Session, connector: Connector) => Promise<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  for (let again = true; ; again = false) {
    const open = await connection.ensure(connector, signal);
    try {
      return await connection.use(open, (session) => work(session, open.connector));
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      await connection.note(open, error);
      if (error.code !== 'session_lost' || !again) throw error;
    }
  }
}
