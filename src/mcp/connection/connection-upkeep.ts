import type { Connector } from '../../connectors/types.ts';
import type { UpstreamError } from '../../errors.ts';
import type { ConnectionHealth, OpenedBy, SharedServer } from './connection-health.ts';
import type { ConnectionList } from './connection-list.ts';
import type { ConnectionLife } from './connection-opening.ts';
import { type Probed, probeConnection } from './connection-probe.ts';
import type { OpenSession } from './session-lifetimes.ts';
import type { ConnectionStates } from './status.ts';

export interface UpkeepDeps {
  readonly life: ConnectionLife;
  readonly states: Pick<ConnectionStates, 'get' | 'amend'>;
  readonly health: Pick<ConnectionHealth, 'told'>;
  readonly list: Pick<ConnectionList, 'refresh' | 'isStale' | 'changed'>;
  readonly now: () => number;
  /** @throws UpstreamError */
  ensure(connector: Connector, signal: AbortSignal | undefined, by: OpenedBy): Promise<OpenSession>;
  readonly giveUp: Probed['giveUp'];
  note(open: OpenSession, error: UpstreamError): Promise<void>;
  /** @throws UpstreamError */
  relist(open: OpenSession): Promise<unknown>;
  /** Counts work that may have to be waited for. */
  readonly track: <T>(work: Promise<T>) => Promise<T>;
}

/** What keeps the known truth about a connection true; as `Connection` and `SharedServer` tell. */
export interface Upkeep extends Pick<SharedServer, 'told'> {
  probe(connector: Connector): Promise<void>;
  refresh(): Promise<void>;
}

/** Between round trips because a single caller met a failure of the server. */
const BETWEEN_TOLD_MS = 10_000;

/** Asks and reads although nobody uses the connection. */
export function createUpkeep(connectorId: string, deps: UpkeepDeps): Upkeep {
  const { life, states, health, list, now, ensure, giveUp, note, relist, track } = deps;

  async function probe(connector: Connector): Promise<void> {
    life.times.probed = now();
    await probeConnection(
      {
        current: () => life.current,
        ensure: (connector) => ensure(connector, undefined, 'probe'),
        async answered(open) {
          await states.amend(connectorId, { lastSuccessTime: now() });
          if (list.refresh.allowed() && life.current === open) await refresh();
        },
        giveUp,
        async note(open, error) {
          await note(open, error);
          return (await states.get(connectorId)).status === 'idle';
        },
      },
      connector,
    );
  }

  async function refresh(): Promise<void> {
    const open = life.current;
    if (open === undefined || !list.isStale()) return;
    list.refresh.begin();
    try {
      await relist(open);
    } catch {
      // Only a server that limits its rate leaves the session: it is asked later.
      if (life.current === open) list.changed();
    }
  }

  /** What a single caller met at the server. With a session of its own, a round trip tells. */
  async function told(error: UpstreamError | undefined): Promise<void> {
    const open = life.current;
    if (open === undefined) await health.told(error);
    else if (error !== undefined && now() - life.times.probed >= BETWEEN_TOLD_MS) void track(probe(open.connector));
  }

  return { probe, refresh, told };
}
