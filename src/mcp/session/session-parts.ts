import type { Side } from '../failures.ts';
import { asFailure, type Connected } from './connect.ts';
import type { QuestionRules } from './elicitation.ts';
import type { Exchange } from './exchange.ts';

/** What the requests of one session are made with. */
export interface SessionParts extends Connected {
  readonly side: Side;
  readonly stateless: boolean;
  readonly rules: Omit<QuestionRules, 'canAsk'>;
  readonly onListChanged: () => void;
}

const SSE_IDLE_MS = 60_000;

/** Whether a request failed in such a way that the server may be at work on it still. */
export function isUnanswered({ side }: SessionParts, exchange: Exchange, error: unknown): boolean {
  if (exchange.result !== undefined || exchange.errorCode !== undefined) return false;
  return asFailure(side, 'a request', error, 0).delivered !== 'no';
}

/** The exchange of one request that may take `timeoutMs`. */
export function exchangeOf(timeoutMs: number, argumentsText?: string): Exchange {
  return {
    responseTimeoutMs: timeoutMs + 1000,
    idleMs: Math.max(SSE_IDLE_MS, timeoutMs),
    bytes: 0,
    ...(argumentsText !== undefined && { argumentsText }),
  };
}
