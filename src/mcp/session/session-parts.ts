import type { Side } from '../failures.ts';
import type { Connected } from './connect.ts';
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

/** The exchange of one request that may take `timeoutMs`. */
export function exchangeOf(timeoutMs: number, argumentsText?: string): Exchange {
  return {
    responseTimeoutMs: timeoutMs + 1000,
    idleMs: Math.max(SSE_IDLE_MS, timeoutMs),
    bytes: 0,
    ...(argumentsText !== undefined && { argumentsText }),
  };
}
