import { isCatalogueError, UpstreamError } from '../errors.ts';
import { type Breaker, createBreaker } from '../outbound/resilience.ts';
import type { Logger } from '../telemetry/logger.ts';
import { COUNTED } from './failure-kinds.ts';
import { amended } from './failures.ts';
import { type ConnectionStates, connectionError } from './status.ts';

const BREAKER_FAILURES = 3;
const BREAKER_BASE_MS = 30_000;
const BREAKER_MAX_MS = 300_000;

/** What failures do to one connection: its status, its breaker, one log line each. */
export interface ConnectionHealth {
  readonly breaker: Pick<Breaker, 'state' | 'retryAt'>;
  /** Openings that failed in a row and count for the breaker. */
  failures(): number;
  /** @throws UpstreamError `breaker_open`, naming the failure that opened it */
  refuseWhileBroken(): Promise<void>;
  opened(): void;
  /** Takes in why an opening failed and returns what to throw. */
  openingFailed(error: unknown): Promise<unknown>;
  /** The connection is of no use any more: `failed`, or `auth_required`. */
  fail(during: string, error: unknown): Promise<void>;
  reset(): void;
}

export interface ConnectionHealthDeps {
  readonly states: ConnectionStates;
  readonly log: Logger;
  readonly now: () => number;
  readonly random: () => number;
}

/** A healthy connection. `destination` names it in messages: `connector "weather"`. */
export function createConnectionHealth(
  connectorId: string,
  destination: string,
  { states, log, now, random }: ConnectionHealthDeps,
): ConnectionHealth {
  const options = { failures: BREAKER_FAILURES, baseMs: BREAKER_BASE_MS, maxMs: BREAKER_MAX_MS };
  const breaker = createBreaker({ destination, ...options, now, random });
  let inRow = 0;

  function alive(): void {
    inRow = 0;
    breaker.success();
  }

  async function fail(during: string, error: unknown): Promise<void> {
    const shown = connectionError(error, breaker.retryAt());
    const signIn = shown.code === 'auth_required';
    log.warn({ connectorId, code: shown.code, during }, `MCP ${during} failed: ${shown.message}`);
    await states.move(connectorId, signIn ? 'auth_required' : 'failed', during, { error: shown });
  }

  return {
    breaker,
    failures: () => inRow,
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
    opened: alive,
    async openingFailed(error) {
      if (error instanceof UpstreamError && COUNTED.has(error.code)) {
        inRow += 1;
        breaker.failure();
      } else alive();
      if (!(error instanceof UpstreamError || isCatalogueError(error))) {
        log.error({ err: error, connectorId }, `MCP connect to ${destination} failed inside the platform`);
      }
      await fail('connect', error);
      const next = breaker.retryAt();
      return error instanceof UpstreamError && next !== undefined ? amended(error, { nextRetryTime: next }) : error;
    },
    fail,
    reset() {
      inRow = 0;
      breaker.reset();
    },
  };
}
