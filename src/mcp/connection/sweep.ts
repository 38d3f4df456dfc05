import type { Connector } from '../../connectors/types.ts';
import type { Connection } from './connection.ts';

/** A connection, and the newest version of its connector that is known here. */
export interface SweptConnection {
  readonly connection: Connection;
  readonly connector: Connector;
}

export interface SweepDeps {
  /** Connections that everybody shares. */
  readonly shared: () => Iterable<SweptConnection>;
  readonly ofCallers: () => Iterable<SweptConnection>;
  /** Whether servers are contacted at all, now. */
  readonly enabled: () => boolean;
  /** Whether a connector still exists; ends its connection when another process has deleted it. */
  readonly stillThere: (connector: Connector) => Promise<boolean>;
  readonly now: () => number;
  readonly limits: { readonly idleMs: number; readonly probeMs: number; readonly sweepMs: number };
}

/** Attempts under way in the background, of all connections together. */
const MAX_RECOVERING = 20;

/**
 * Looks at all connections now and then: closes those that are idle, asks servers that said nothing for long, and tries
 * failed ones again when their time has come. @returns what ends it
 */
export function startSweep({ shared, ofCallers, enabled, stillThere, now, limits }: SweepDeps): () => void {
  const recovering = new Set<Connection>();
  const asked = new Set<Connection>();

  function keepHealthy({ connection, connector }: SweptConnection, time: number): void {
    const open = connection.current();
    if (open === undefined) return;
    if (open.inFlight === 0 && time - connection.idleSince() >= limits.idleMs) {
      void connection.retire('idle', { keepList: true });
    } else if (time - Math.max(connection.lastHeard(), connection.lastProbe()) >= limits.probeMs) {
      void probe(connection, connector);
    }
  }

  async function probe(connection: Connection, connector: Connector): Promise<void> {
    if (asked.has(connection)) return;
    asked.add(connection);
    try {
      if (await stillThere(connector)) await connection.probe(connector);
    } catch {
      // The store did not answer: the next look asks again.
    } finally {
      asked.delete(connection);
    }
  }

  function relist({ connection }: SweptConnection, time: number): void {
    const due = connection.relistAt();
    if (due !== undefined && due <= time && enabled()) void connection.refresh();
  }

  /** Those whose time came first: none waits for others that fail again and again. */
  function dueNow(time: number): SweptConnection[] {
    return [...shared()]
      .flatMap((swept) => {
        const due = swept.connection.health.dueAt();
        return due !== undefined && due <= time && !recovering.has(swept.connection) ? [{ swept, due }] : [];
      })
      .sort((a, b) => a.due - b.due)
      .slice(0, MAX_RECOVERING - recovering.size)
      .map(({ swept }) => swept);
  }

  /** What fails is in the status, and has its next time. */
  function recover({ connection }: SweptConnection): void {
    recovering.add(connection);
    const over = (): void => void recovering.delete(connection);
    connection.recover('tried again').then(over, over);
  }

  const timer = setInterval(() => {
    const time = now();
    for (const swept of shared()) {
      keepHealthy(swept, time);
      relist(swept, time);
    }
    if (enabled()) for (const swept of dueNow(time)) recover(swept);
    for (const swept of ofCallers()) keepHealthy(swept, time);
  }, limits.sweepMs);
  timer.unref();
  return () => clearInterval(timer);
}
