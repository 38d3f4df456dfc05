import type { Connector } from '../../connectors/types.ts';
import type { ConnectionStore } from '../../store/connections.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Connection } from './connection.ts';
import type { ConnectionStates } from './status.ts';

export interface OtherProcessesDeps {
  readonly connections: Pick<ConnectionStore, 'disabled' | 'state'>;
  readonly states: ConnectionStates;
  /** Connections of this process; those of declared servers are its own affair and are left alone. */
  readonly known: () => Iterable<{ readonly connection: Connection; readonly connector: Connector }>;
  readonly disable: (connector: Connector, cause: string) => Promise<void>;
  readonly log: Logger;
}

const LOOK_MS = 2000;
const THROUGH = 'through another process';

/**
 * Follows what people switch off and on through other processes on the same database, within seconds.
 * @returns what ends it, once nothing of it runs
 */
export function followOtherProcesses(deps: OtherProcessesDeps): () => Promise<void> {
  const { connections, states, known, disable, log } = deps;

  async function follow({ connection, connector }: { connection: Connection; connector: Connector }, off: boolean) {
    const { status } = await states.get(connector.id);
    if (off && status !== 'disabled') await disable(connector, `disabled ${THROUGH}`);
    if (off || status !== 'disabled') return;
    await states.stored(connector.id);
    const row = await connections.state(connector.id);
    if (row !== undefined && row.status !== 'disabled') await connection.enable(`enabled ${THROUGH}`);
  }

  async function look(): Promise<void> {
    const off = new Set(await connections.disabled());
    const ours = [...known()].filter(({ connector }) => connector.declared === undefined);
    await Promise.allSettled(ours.map((one) => follow(one, off.has(one.connector.id))));
  }

  let looking: Promise<void> | undefined;
  const timer = setInterval(() => {
    looking ??= look()
      .catch((err: unknown) => log.warn({ err }, 'what other processes disabled could not be read'))
      .finally(() => {
        looking = undefined;
      });
  }, LOOK_MS);
  timer.unref();
  return async () => {
    clearInterval(timer);
    await looking;
  };
}
