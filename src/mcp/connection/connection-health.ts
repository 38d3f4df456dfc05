import { isCatalogueError, UpstreamError } from '../../errors.ts';
import { type Breaker, createBreaker } from '../../outbound/resilience.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { COUNTED, SIGN_IN } from '../failure-kinds.ts';
import { amended } from '../failures.ts';
import { createRecoveryPlan, type RecoveryPlan } from './recovery-plan.ts';
import { type ConnectionStates, connectionError } from './status.ts';

const BREAKER_FAILURES = 3;
const BREAKER_BASE_MS = 30_000;
const BREAKER_MAX_MS = 300_000;

/** What failures do to one connection: its status, its breaker, when it is tried again, one log line each. */
export interface ConnectionHealth {
  readonly breaker: Pick<Breaker, 'state' | 'retryAt'>;
  /** Openings that failed in a row and count for the breaker. */
  failures(): number;
  /** When it is tried again by itself, epoch milliseconds; `undefined` while it is not. */
  dueAt(): number | undefined;
  /** @throws UpstreamError `breaker_open`, naming the failure that opened it */
  refuseWhileBroken(): Promise<void>;
  /** An attempt that nobody waits for begins. */
  attempted(): void;
  opened(background: boolean): void;
  /** Takes in why an opening failed and returns what to throw. */
  openingFailed(error: unknown, background: boolean): Promise<unknown>;
  /** The connection is of no use any more: `failed`, or `auth_required`. */
  fail(during: string, error: unknown): Promise<void>;
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
}

type RecoveryPlanWanted = Parameters<typeof createRecoveryPlan>[0]['wanted'];

/** A healthy connection. `destination` names it in messages: `connector "weather"`. */
export function createConnectionHealth(
  connectorId: string,
  destination: string,
  deps: ConnectionHealthDeps,
): ConnectionHealth {
  const { states, log, now, random, metrics } = deps;
  const options = { failures: BREAKER_FAILURES, baseMs: BREAKER_BASE_MS, maxMs: BREAKER_MAX_MS };
  const breaker = createBreaker({ destination, ...options, now, random });
  const plan: RecoveryPlan = createRecoveryPlan(deps);
  let inRow = 0;

  function alive(): void {
    inRow = 0;
    breaker.success();
  }

  async function fail(during: string, error: unknown): Promise<void> {
    const breakerAt = breaker.retryAt();
    const shown = connectionError(error, plan.failed(error, breakerAt) ?? breakerAt);
    log.warn({ connectorId, code: shown.code, during }, `MCP ${during} failed: ${shown.message}`);
    const status = SIGN_IN.has(shown.code) ? 'auth_required' : 'failed';
    await states.move(connectorId, status, during, { error: shown });
  }

  return {
    breaker,
    failures: () => inRow,
    dueAt: plan.dueAt,
    async refuseWhileBroken() {
      try {
        breaker.beforeCall();
      } catch (error) {
        if (!(error instanceof UpstreamError)) throw error;
        log.warn({ connectorId, code: error.code }, `MCP refused: ${error.message}`);
        const last = (await states.get(connectorId)).error;
        throw last === undefined
          ? error
          : amended(error, { message: `${error.message} Last failure: ${last.message}` });
      }
    },
    attempted: plan.attempted,
    opened(background) {
      metrics?.connectAttempt(connectorId, { outcome: 'ok', background });
      plan.opened();
      alive();
    },
    async openingFailed(error, background) {
      if (error instanceof UpstreamError && COUNTED.has(error.code)) {
        inRow += 1;
        breaker.failure();
      } else alive();
      if (!(error instanceof UpstreamError || isCatalogueError(error))) {
        log.error({ err: error, connectorId }, `MCP connect to ${destination} failed inside the platform`);
      }
      await fail('connect', error);
      const { code } = connectionError(error, undefined);
      metrics?.connectAttempt(connectorId, { outcome: 'failed', code, background });
      const next = breaker.retryAt();
      return error instanceof UpstreamError && next !== undefined ? amended(error, { nextRetryTime: next }) : error;
    },
    fail,
    reset() {
      inRow = 0;
      breaker.reset();
      plan.cancel();
    },
  };
}
