import { STATUS_CODES } from 'node:http';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import type { Redactor } from '../../telemetry/redactor.ts';
import { type ErrorReport, reportError, wireType } from '../error-report.ts';
import { truthy } from '../query.ts';
import type { RouteTable } from '../route-table.ts';

export interface ErrorsOptions {
  readonly redactor: Redactor;
  readonly routes: RouteTable;
}

/**
 * Every failure becomes one of the envelopes E1 to E4 of the contract (0.4). Its texts are the platform's own, with what
 * a remote side said already cleaned: secrets are cut from them once more, ordinary words that are a credential are not.
 */
export const errorsPlugin = fastifyPlugin<ErrorsOptions>(async (app: FastifyInstance, { redactor, routes }) => {
  app.decorateRequest('running', false);
  app.addHook('preHandler', async (request) => {
    request.running = true;
  });

  app.setErrorHandler<FastifyError>(async (error, request, reply) => {
    if (error.code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') return refuseMediaType(request, reply);
    const report = reportError(error);
    if (isGone(request, reply)) {
      const { name, message } = error;
      request.log.info({ req: request, error: `${name}: ${message}` }, 'the caller went away before the answer');
    } else if (report.bug) {
      request.log.error({ err: error, req: request }, `${request.method} request failed: ${error.name}`);
    } else request.log.debug({ err: error, req: request }, `answered ${report.status}`);
    // A client that is still sending would lose the answer with the connection: the rest is read and dropped.
    if (report.status === 413) reply.removeHeader('connection');
    if (report.retryAfterSeconds !== undefined) reply.header('retry-after', report.retryAfterSeconds);
    reply.code(report.status).type('application/json');
    return reply.serializer(JSON.stringify).send(envelope(error, report, request));
  });

  app.setNotFoundHandler(async (request, reply) => {
    const allowed = routes.methodsOf(request.url);
    const uri = redactor.cleanContent(request.url);
    if (allowed.length === 0) {
      return reply.code(400).send({ error: `no handler found for uri [${uri}] and method [${request.method}]` });
    }
    const error = `Incorrect HTTP method for uri [${uri}] and method [${request.method}], allowed: [${allowed.join(', ')}]`;
    return reply.code(405).header('allow', allowed.join(', ')).send({ error, status: 405 });
  });

  function envelope(error: Error, report: ErrorReport, request: FastifyRequest): unknown {
    const config = request.routeOptions.config;
    const reason = redactor.cleanContent(report.reason);
    if (config.profileEnvelope) return { error: reason, exception: reason };
    if (config.securityEnvelope && report.exception !== 'OpenSearchSecurityException') {
      return securityAnswer(error, report.status, reason);
    }
    if (config.executeEnvelope && request.running && !report.parsing) {
      const details = { type: report.exception, reason: report.status === 400 ? 'Invalid Request' : 'System Error' };
      return { status: report.status, error: { ...details, details: reason, ...actionOf(report) } };
    }
    const top = { type: wireType(report.exception), reason };
    const traced = truthy((request.query as Record<string, unknown>)['error_trace']) && !report.bug;
    const trace = traced && error.stack !== undefined ? { stack_trace: redactor.cleanContent(error.stack) } : {};
    const causes = report.cause === undefined ? {} : { caused_by: cause(report.cause) };
    return {
      error: { root_cause: [{ ...top, ...trace }], ...top, ...causes, ...actionOf(report), ...trace },
      status: report.status,
    };
  }

  function cause(report: ErrorReport): unknown {
    const inner = report.cause === undefined ? {} : { caused_by: cause(report.cause) };
    return { type: wireType(report.exception), reason: redactor.cleanContent(report.reason), ...inner };
  }
});

/** `{"status":"NOT_FOUND","message":…}`; of a body that cannot be used `{"status":"error","reason":…}` with details. */
function securityAnswer(error: Error, status: number, reason: string): unknown {
  if (status !== 400) return { status: phraseOf(status), message: reason };
  const { details } = error as { details?: Readonly<Record<string, unknown>> };
  return { status: 'error', reason, ...details };
}

function phraseOf(status: number): string {
  return (STATUS_CODES[status] ?? String(status)).toUpperCase().replaceAll(/[^A-Z]+/g, '_');
}

/** Nobody can be answered any more: the caller closed the connection, or the server did when it had to end. */
function isGone({ raw, socket }: FastifyRequest, reply: FastifyReply): boolean {
  return socket.destroyed || reply.raw.destroyed || (raw.destroyed && !raw.complete);
}

function actionOf(report: ErrorReport): { action?: 'authenticate' } {
  return report.action === undefined ? {} : { action: report.action };
}

/** E2 for a body whose media type is missing or not JSON. */
function refuseMediaType(request: FastifyRequest, reply: FastifyReply): unknown {
  const type = request.headers['content-type'];
  const error =
    type === undefined ? 'Content-Type header is missing' : `Content-Type header [${type}] is not supported`;
  return reply.code(406).type('application/json').serializer(JSON.stringify).send({ error, status: 406 });
}
