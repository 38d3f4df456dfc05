import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { Metrics } from '../../telemetry/metrics.ts';

export interface RequestMetricsOptions {
  readonly metrics: Pick<Metrics, 'request'>;
}

/** Counts every answer by the template of its route: what callers write into a path makes no series. */
export const requestMetricsPlugin = fastifyPlugin<RequestMetricsOptions>(async (app: FastifyInstance, { metrics }) => {
  app.addHook('onResponse', async (request, reply) => {
    const route = request.is404 ? 'none' : (request.routeOptions.url ?? 'none');
    metrics.request({ method: request.method, route, status: reply.statusCode, seconds: reply.elapsedTime / 1000 });
  });
});
