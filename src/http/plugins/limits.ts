import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { Limits } from '../../identity/limits.ts';

export interface LimitsOptions {
  readonly limits: Pick<Limits, 'keyOf' | 'of' | 'tooManyRequests'>;
}

const WINDOW_MS = 60_000;
const CALLERS = 10_000;

/**
 * Requests per minute and caller, counted in this process once the caller is known and before its permissions are asked:
 * refused requests and unknown paths count. Public routes (probes) are exempt,
 * and so is everything while no limit is set. Registered after authentication and before any route.
 */
export const limitsPlugin = fastifyPlugin<LimitsOptions>(async (app: FastifyInstance, { limits }) => {
  const limitOf = ({ principal }: FastifyRequest) => limits.of(principal, 'requests_per_minute');
  const quiet = { 'x-ratelimit-limit': false, 'x-ratelimit-remaining': false, 'x-ratelimit-reset': false };
  await app.register(rateLimit, {
    global: false,
    timeWindow: WINDOW_MS,
    cache: CALLERS,
    // Asked for public routes as well, whose callers nobody knows.
    keyGenerator: ({ principal }) => (principal === null ? 'anybody' : limits.keyOf(principal)),
    allowList: (request) => request.routeOptions.config.public === true || limitOf(request) === undefined,
    max: (request) => limitOf(request)?.value ?? Number.MAX_SAFE_INTEGER,
    errorResponseBuilder: (request, { max, ttl }) =>
      limits.tooManyRequests(limitOf(request) ?? { value: max, setting: 'requests_per_minute' }, ttl),
    addHeadersOnExceeding: quiet,
    addHeaders: { ...quiet, 'retry-after': false },
  });
  // For every request, unknown paths too: the hooks that the plugin adds by itself are those of routes.
  app.addHook('onRequest', app.rateLimit());
});
