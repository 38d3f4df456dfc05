import { isCatalogueError, UpstreamError } from '../../errors.ts';
import type { Breaker } from '../../outbound/resilience.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { COUNTED, SIGN_IN } from '../failure-kinds.ts';
import { amended } from '../failures.ts';
import { createHoldOff } from './hold-off.ts';
import { createRecoveryPlan, type RecoveryPlan } from './recovery-plan.ts';
import { createServerHealth, type ServerHealth } from './server-health.ts';
import { type ConnectionStates, connectionError } from './status.ts';

/** Who wants it opened: somebody who waits for its tools, a monitor, or nobody. */
export type OpenedBy = 'use' | 'probe' | 'background';

/** The server of a connection as all its connections know it. */
export interface SharedServer {
  readonly health: ServerHealth;
  /** A single caller's connection met that failure of the server, or reached it. */
  told(error: UpstreamError | undefined): Promise<void>;
}

/** What failures do to one connection: its status, its breaker, when it is tried again, one log line each. */
export interface ConnectionHealth {
  readonly server: ServerHealth;
  readonly breaker: Pick<Breaker, 'state' | 'retryAt'>;
  /** Openings that failed in a row and count for the breaker. */
  failures(): number;
  /** When it is tried again by itself, epoch milliseconds; `undefined` while it is not. */
  dueAt(): number | undefined;
  /**
   * Lets an opening through, or not: the breaker, and after refusals in a row a wait. A probe passes both every 5 s.
   * @throws UpstreamError `breaker_open`, naming the failure that opened it; the last failure, with its wait
   */
  admit(by: OpenedBy): void;
  /** An attempt that nobody waits for begins. */
  attempted(): void;
  opened(by: OpenedBy): void;
  /** The server did what it was asked for in a session. */
  proved(): void;
  /**
   * A session is of no use any more. `proved`: it was of some before. @returns whether that happens again and again, which
   * counts as openings that fail
   */
  ended(reason: UpstreamError, proved: boolean): boolean;
  /** Takes in why an opening failed and returns what to throw. */
  openingFailed(error: unknown, by: OpenedBy): Promise<unknown>;
  /** The connection is of no use any more: `failed`, or `auth_required`. */
  fail(during: string, error: unknown): Promise<void>;
  /** As `SharedServer.told`, while this connection has no session. */
  told(error: UpstreamError | undefined): Promise<void>;
  reset(): void;
}

export interface ConnectionHealthDeps {
  readonly states: ConnectionStates;
  readonly log: Logger;
  readonly now: () => number;
  readonly random: () => number;
  readonly metrics?: Pick<Metrics, 'connectAttempt'>;
  /** Whether it is to be tried by itself at that time. */
  readonly wanted: RecoveryPlanWanted;
  readonly local: boolean;
  /** Of a single caller's connection. Default: it knows its server alone. */
  readonly server?: SharedServer;
}

type RecoveryPlanWanted = Parameters<typeof createRecoveryPlan>[0]['wanted'];

/** Between probes that pass a breaker: monitors that ask every second are no storm. */
const BETWEEN_PROBES_MS = 5000;

/** A healthy connection. `destination` names it in messages: `connector "weather"`. */
export function createConnectionHealth(
  connectorId: string,
  destination: string,
  deps: ConnectionHealthDeps,
): ConnectionHealth {
  const { states, log, now, metrics, server: shared } = deps;
  const server = shared?.health ?? createServerHealth(destination, deps);
  const { breaker } = server;
  const holdOff = createHoldOff(now);
  const plan: RecoveryPlan = createRecoveryPlan(deps);
  let probedAt = Number.NEGATIVE_INFINITY;
  /** Sessions in a row that ended before they were of any use. */
  let useless = 0;
  let resets = server.resets();
  /** The status is what callers met. */
  let isTold = false;

  function begin(): void {
    holdOff.end();
    useless = 0;
    resets = server.resets();
  }

  function refused(error: unknown): unknown {
    if (!(error instanceof UpstreamError)) return error;
    const last = error.code === 'breaker_open' ? server.lastFailure() : undefined;
    const told = last === undefined ? error : amended(error, { message: `${error.message} Last failure: ${last}` });
    if (server.isNews(error.nextRetryTime ?? 0)) {
      const more = 'more refusals until then are not logged';
      log.warn({ connectorId, code: error.code }, `MCP refused, ${more}: ${told.message}`);
    }
    return told;
  }

  /** A failure of the server itself counts for all who use it, any other for this connection alone. */
  function count(error: unknown, counts: boolean): void {
    const upstream = error instanceof UpstreamError ? error : undefined;
    if (upstream !== undefined && counts) server.failed(upstream);
    else if (upstream !== undefined) server.answered();
    if (!counts || shared !== undefined) holdOff.failed(error);
  }

  async function fail(during: string, error: unknown): Promise<void> {
    const breakerAt = breaker.retryAt();
    const shown = connectionError(error, plan.failed(error, breakerAt) ?? breakerAt);
    isTold = false;
    log.warn({ connectorId, code: shown.code, during }, `MCP ${during} failed: ${shown.message}`);
    const status = SIGN_IN.has(shown.code) ? 'auth_required' : 'failed';
    await states.move(connectorId, status, during, { error: shown });
    if (error instanceof UpstreamError && COUNTED.has(error.code)) await shared?.told(error);
  }

  return {
    server,
    breaker,
    failures: server.failures,
    dueAt: plan.dueAt,
    admit(by) {
      if (resets !== server.resets()) begin();
      try {
        if (by !== 'background' && breaker.state() !== 'open') holdOff.refuse();
        breaker.beforeCall();
      } catch (error) {
        const isLate = now() - probedAt >= BETWEEN_PROBES_MS;
        if (by !== 'probe' || holdOff.isAsked() || !isLate) throw refused(error);
        probedAt = now();
      }
    },
    attempted: plan.attempted,
    opened(by) {
      metrics?.connectAttempt(connectorId, { outcome: 'ok', background: by === 'background' });
      plan.opened();
      isTold = false;
      if (useless > 0) return;
      holdOff.end();
      server.answered();
    },
    proved() {
      begin();
      server.answered();
    },
    ended(reason, proved) {
      useless = proved ? 0 : useless + 1;
      if (useless < 2) return false;
      count(reason, COUNTED.has(reason.code) || (reason.code === 'session_lost' && shared === undefined));
      return true;
    },
    async openingFailed(error, by) {
      count(error, error instanceof UpstreamError && COUNTED.has(error.code));
      if (!(error instanceof UpstreamError || isCatalogueError(error))) {
        log.error({ err: error, connectorId }, `MCP connect to ${destination} failed inside the platform`);
      }
      await fail('connect', error);
      const { code } = connectionError(error, undefined);
      metrics?.connectAttempt(connectorId, { outcome: 'failed', code, background: by === 'background' });
      const next = breaker.retryAt() ?? holdOff.until();
      return error instanceof UpstreamError && next !== undefined ? amended(error, { nextRetryTime: next }) : error;
    },
    fail,
    async told(error) {
      const { status } = await states.get(connectorId);
      if (error === undefined) {
        const isOver = isTold && status === 'failed';
        isTold = false;
        if (isOver) await states.move(connectorId, 'idle', 'reached for a caller');
        return;
      }
      if (status !== 'idle' && !(status === 'failed' && isTold)) return;
      isTold = true;
      await states.move(connectorId, 'failed', 'use by a caller', { error: connectionError(error, breaker.retryAt()) });
    },
    reset() {
      if (shared === undefined) server.reset();
      begin();
      isTold = false;
      plan.cancel();
    },
  };
}
