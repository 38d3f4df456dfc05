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
  readonly now: () => number;
  readonly limits: { readonly idleMs: number; readonly probeMs: number; readonly sweepMs: number };
}

/** Attempts under way in the background, of all connections together. */
const MAX_RECOVERING = 20;

/**
 * Looks at all connections now and then: closes those that are idle, asks servers that said nothing for long, and tries
 * failed ones again when their time has come. @returns what ends it
 */
export function startSweep({ shared, ofCallers, enabled, now, limits }: SweepDeps): () => void {
  let recovering = 0;

  function keepHealthy({ connection, connector }: SweptConnection, time: number): void {
    const open = connection.current();
    if (open === undefined) return;
    if (open.inFlight === 0 && time - connection.idleSince() >= limits.idleMs) {
      void connection.retire('idle', { keepList: true });
    } else if (time - Math.max(connection.lastHeard(), connection.lastProbe()) >= limits.probeMs) {
      void connection.probe(connector);
    }
  }

  /** What fails is in the status, and has its next time. */
  function recover({ connection }: SweptConnection): void {
    recovering += 1;
    const over = (): void => {
      recovering -= 1;
    };
    connection.recover('tried again').then(over, over);
  }

  const timer = setInterval(() => {
    const time = now();
    for (const swept of shared()) {
      keepHealthy(swept, time);
      const due = swept.connection.health.dueAt();
      if (due !== undefined && due <= time && recovering < MAX_RECOVERING && enabled()) recover(swept);
    }
    for (const swept of ofCallers()) keepHealthy(swept, time);
  }, limits.sweepMs);
  timer.unref();
  return () => clearInterval(timer);
}
