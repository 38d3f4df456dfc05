import { LRUCache } from 'lru-cache';
import { MODEL_THROTTLED } from '../errors.ts';
import { isJsonObject, type JsonValue } from '../json.ts';

const UNITS: ReadonlyMap<string, number> = new Map([
  ['MILLISECONDS', 1],
  ['SECONDS', 1000],
  ['MINUTES', 60_000],
  ['HOURS', 3_600_000],
  ['DAYS', 86_400_000],
]);
const KEPT = 10_000;

export interface ModelRateLimiter {
  /** Takes one call of the model's own limit. @throws MODEL_THROTTLED carrying `retryAfterMs` */
  take(modelId: string, rateLimiter: JsonValue | undefined): void;
}

/**
 * The `rate_limiter` of models: `limit` calls in a `unit`, all of which may come at once and which come back evenly.
 * Counted in this process; a limiter that lacks one of the two, or has a unit that is not known, does not limit.
 */
export function createModelRateLimiter({ now }: { now: () => number }): ModelRateLimiter {
  /** When the last of the calls taken so far will have come back, in epoch milliseconds. */
  const returns = new LRUCache<string, number>({ max: KEPT });
  return {
    take(modelId, rateLimiter) {
      const rate = readRate(rateLimiter);
      if (rate === undefined) return;
      const key = `${modelId} ${rate.limit} ${rate.unitMs}`;
      const time = now();
      const next = Math.max(returns.get(key) ?? 0, time) + rate.unitMs / rate.limit;
      const retryAfterMs = Math.ceil(next - rate.unitMs - time);
      if (retryAfterMs > 0) throw Object.assign(new MODEL_THROTTLED(), { retryAfterMs });
      returns.set(key, next);
    },
  };
}

function readRate(value: JsonValue | undefined): { limit: number; unitMs: number } | undefined {
  if (!isJsonObject(value)) return undefined;
  const limit = Number(value.limit);
  const unitMs = UNITS.get(String(value.unit).toUpperCase());
  return unitMs === undefined || !(limit >= 1 && limit < Number.POSITIVE_INFINITY) ? undefined : { limit, unitMs };
}
