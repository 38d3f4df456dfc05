import { Readable } from 'node:stream';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { RouteOptions } from 'fastify';
import { AuditExportQuery, AuditSearchRequest, AuditSearchResponse } from '../../schemas/audit.ts';
import { jsonRef } from '../../schemas/common.ts';
import type { Audit } from '../../telemetry/audit.ts';
import type { AuditTrail } from '../../telemetry/audit-trail.ts';

export interface AuditRoutesOptions {
  readonly trail: AuditTrail;
  readonly audit: Audit;
}

/** The audit trail, below the prefix of the API. Reading all of it leaves a row of its own. */
export const auditRoutes: FastifyPluginAsyncTypebox<AuditRoutesOptions> = async (app, { trail, audit }) => {
  const tags = ['audit'];

  for (const method of ['GET', 'POST'] as const satisfies RouteOptions['method'][]) {
    app.route({
      method,
      url: '/audit/_search',
      schema: {
        tags,
        body: jsonRef(AuditSearchRequest),
        response: { 200: jsonRef(AuditSearchResponse) },
      },
      config: { permission: 'audit:read', emptyBody: 'allowed', bodyOnGet: true },
      handler: ({ body }) => trail.search(body ?? {}),
    });
  }

  app.get(
    '/audit/_export',
    {
      schema: { tags, querystring: AuditExportQuery, produces: ['application/x-ndjson'] },
      config: { permission: 'audit:export' },
    },
    async ({ principal, query }, reply) => {
      const lines = trail.lines(query);
      await audit.record({ principal: principal.id, action: 'audit.export', outcome: 'ok' });
      return reply.type('application/x-ndjson').send(Readable.from(lines, { objectMode: false }));
    },
  );
};
