import type { Connector } from '../../connectors/types.ts';
import type { Session } from '../session/session.ts';
import type { ToolList } from '../types.ts';

/** A session in use, and the connector as it was when it was opened. */
export interface OpenSession {
  readonly session: Session;
  readonly connector: Connector;
  list: ToolList;
  /** Calls under way; a session that is let go is closed when the last one ends. */
  inFlight: number;
  /** A call or another request in it had its answer. */
  proved: boolean;
}

/** Keeps every session open for the calls that run on it, and no longer. */
export interface SessionLifetimes {
  opened(session: Session, connector: Connector): OpenSession;
  use<T>(open: OpenSession, work: (session: Session) => Promise<T>): Promise<T>;
  /** Closes at once, or when the last call has ended. */
  close(open: OpenSession, how?: { terminate: boolean }): Promise<void>;
  /** Closes all at once, those that are let go too; calls under way fail. */
  cutAll(): Promise<void>;
  /** Closes all and waits for those that are being closed; calls that still run after `deadlineMs` are cut. */
  closeAll(deadlineMs: number): Promise<void>;
}

/** Sessions of one connector: the one in use and those that are let go. */
export function createSessionLifetimes(): SessionLifetimes {
  const sessions = new Set<OpenSession>();
  const closings = new Map<OpenSession, Promise<void>>();
  const lastCallEnded = new Map<OpenSession, () => void>();

  async function closeWhenFree(open: OpenSession, how?: { terminate: boolean }): Promise<void> {
    if (open.inFlight > 0) await new Promise<void>((resolve) => lastCallEnded.set(open, resolve));
    lastCallEnded.delete(open);
    await open.session.close(how);
    sessions.delete(open);
    closings.delete(open);
  }

  /** Whoever asks later waits for the same end. */
  function close(open: OpenSession, how?: { terminate: boolean }): Promise<void> {
    if (!sessions.has(open)) return Promise.resolve();
    const known = closings.get(open);
    if (known !== undefined) return known;
    const closing = closeWhenFree(open, how);
    closings.set(open, closing);
    return closing;
  }

  return {
    opened(session, connector) {
      const list: ToolList = { tools: [], leftOut: [], warnings: [] };
      const open: OpenSession = { session, connector, list, inFlight: 0, proved: false };
      sessions.add(open);
      return open;
    },
    async use(open, work) {
      open.inFlight += 1;
      try {
        const result = await work(open.session);
        open.proved = true;
        return result;
      } finally {
        open.inFlight -= 1;
        if (open.inFlight === 0) lastCallEnded.get(open)?.();
      }
    },
    close,
    async cutAll() {
      const closed = [...sessions].map((open) => close(open));
      for (const wake of lastCallEnded.values()) wake();
      await Promise.all(closed);
    },
    async closeAll(deadlineMs) {
      const cut = setTimeout(() => {
        for (const wake of lastCallEnded.values()) wake();
      }, deadlineMs);
      await Promise.all([...sessions].map((open) => close(open)));
      clearTimeout(cut);
    },
  };
}
