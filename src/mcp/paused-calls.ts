import type { Connector, Connectors } from '../connectors/types.ts';
import { CONFLICT, isCatalogueError, UpstreamError } from '../errors.ts';
import type { Logger } from '../telemetry/logger.ts';
import { serverKey } from './connection/server-address.ts';
import type { McpCall, PausedCall, PauseWatch } from './types.ts';

/** Holds paused calls to the server that asked: what a person answered and its state are for no other. */
export interface PausedCalls {
  /** As `PausedCall.server`. @throws UpstreamError (`declared.problem`) */
  keyOf(connector: Connector): Promise<string>;
  /** @throws CONFLICT when the server of this connector is not the one that asked */
  requireSame(connector: Connector, call: McpCall, asked: string | undefined): Promise<void>;
  /** As `McpSessions.watchPause`. */
  watch(connectorId: string, paused: PausedCall): Promise<PauseWatch>;
}

export interface PausedCallsDeps {
  readonly connectors: Pick<Connectors, 'load' | 'localServer' | 'onChange'>;
  readonly log: Logger;
}

const MOVED = 'The connector was changed while the call waited';

export function createPausedCalls({ connectors, log }: PausedCallsDeps): PausedCalls {
  const watches = new Map<string, Set<() => Promise<void>>>();
  const keyOf = (connector: Connector): Promise<string> => serverKey(connector, connectors);

  /** Whether the server that asked is still there; one that cannot be told now is asked for again when the call goes on. */
  async function isSame(connectorId: string, asked: string | undefined): Promise<boolean> {
    try {
      return (await keyOf(await connectors.load(connectorId))) === asked;
    } catch (error) {
      if (error instanceof UpstreamError) return true;
      if (isCatalogueError(error)) return false;
      log.warn({ err: error, connectorId }, 'whether a paused call can go on could not be found out');
      return true;
    }
  }

  connectors.onChange(async (id) => {
    await Promise.all([...(watches.get(id) ?? [])].map((look) => look()));
  });

  return {
    keyOf,
    async requireSame(connector, { tool }, asked) {
      if ((await keyOf(connector)) === asked) return;
      throw new CONFLICT(
        `${MOVED}, so the call of tool "${tool}" of connector "${connector.name}" did not go on: another server would get the answers. It can be made anew.`,
      );
    },
    async watch(connectorId, { server }) {
      const moved = new AbortController();
      const look = async (): Promise<void> => {
        if (!(await isSame(connectorId, server))) moved.abort(MOVED);
      };
      const looks = watches.get(connectorId) ?? new Set();
      watches.set(connectorId, looks.add(look));
      await look();
      return {
        signal: moved.signal,
        end() {
          looks.delete(look);
          if (looks.size === 0 && watches.get(connectorId) === looks) watches.delete(connectorId);
        },
      };
    },
  };
}
