import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { McpSessions } from '../../mcp/types.ts';
import type { Metrics } from '../../telemetry/metrics.ts';

export interface MetricsRoutesOptions {
  readonly metrics: Metrics;
  readonly sessions: Pick<McpSessions, 'reports'>;
}

/** What a Prometheus server scrapes: the connections in it are those of `connectors/_status`, at that moment. */
export const metricsRoutes: FastifyPluginAsyncTypebox<MetricsRoutesOptions> = async (app, { metrics, sessions }) => {
  app.get(
    '/metrics',
    { schema: { tags: ['operations'], produces: ['text/plain'] }, config: { permission: 'metrics:read' } },
    async (_request, reply) => reply.type(metrics.contentType).send(await metrics.text(await sessions.reports())),
  );
};
