import type { Socket } from 'node:net';
import type { Server as SecureServer } from 'node:tls';
import {
  type FastifyInstance,
  type FastifyPluginAsync,
  type FastifyReply,
  type FastifyRequest,
  fastify,
  LogController,
} from 'fastify';
import type { Limits } from '../identity/limits.ts';
import type { Authenticator, Authorization } from '../identity/types.ts';
import * as agents from '../schemas/agents.ts';
import * as audit from '../schemas/audit.ts';
import * as common from '../schemas/common.ts';
import * as connections from '../schemas/connections.ts';
import * as connectors from '../schemas/connectors.ts';
import * as identity from '../schemas/identity.ts';
import * as memory from '../schemas/memory.ts';
import * as modelGroups from '../schemas/model-groups.ts';
import * as models from '../schemas/models.ts';
import * as operations from '../schemas/operations.ts';
import * as serverContent from '../schemas/server-content.ts';
import * as settings from '../schemas/settings.ts';
import * as tasks from '../schemas/tasks.ts';
import * as toolTrust from '../schemas/tool-trust.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Redactor } from '../telemetry/redactor.ts';
import { reportError, wireType } from './error-report.ts';
import { authPlugin } from './plugins/auth.ts';
import { callerHeadersPlugin } from './plugins/caller-headers.ts';
import { closingPlugin } from './plugins/closing.ts';
import { errorsPlugin } from './plugins/errors.ts';
import { answerAtLast } from './plugins/last-resort.ts';
import { limitsPlugin } from './plugins/limits.ts';
import { describeRoutes } from './plugins/openapi.ts';
import { requestMetricsPlugin } from './plugins/request-metrics.ts';
import { requestsPlugin } from './plugins/requests.ts';
import { responsesPlugin } from './plugins/responses.ts';
import { rawAnswer } from './raw-answer.ts';
import { createRouteTable, type RouteTable } from './route-table.ts';
import type { Tls } from './tls.ts';

export interface ServerDeps {
  readonly log: Logger;
  readonly redactor: Redactor;
  readonly authenticator: Authenticator;
  readonly authorization: Authorization;
  /** Absent: no limits. */
  readonly limits?: Limits;
  /** Absent: nothing is counted. */
  readonly metrics?: Pick<Metrics, 'request'>;
  /** Whether headers of callers may go on to MCP servers, now. Absent: never. */
  readonly passthroughEnabled?: () => boolean;
  /** Absent: plain HTTP. */
  readonly tls?: Tls | undefined;
  /** Registers the routes of the rooms. */
  readonly routes: FastifyPluginAsync;
  /** Collect the API description under this version; `app.swagger()` gives it. */
  readonly describeAs?: string;
}

const REQUEST_TIMEOUT_MS = 60_000;
const MAXIMUM_ID_LENGTH = 512;

/** The HTTP edge, ready to listen: reading, authentication, envelopes, answers; then the routes of the rooms. */
export async function createServer(deps: ServerDeps): Promise<FastifyInstance> {
  const app = fastify({
    loggerInstance: deps.log,
    logController: new LogController({ disableRequestLogging: true }),
    exposeHeadRoutes: false,
    https: deps.tls?.options ?? null,
    requestTimeout: REQUEST_TIMEOUT_MS,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: MAXIMUM_ID_LENGTH * 3 },
    ajv: { customOptions: { removeAdditional: false, coerceTypes: false, useDefaults: true, allErrors: false } },
    clientErrorHandler: answerBrokenRequest,
    frameworkErrors: answerUnroutable,
  }) as unknown as FastifyInstance;
  const routes = createRouteTable();
  const unfollow = deps.tls?.follow(app.server as unknown as SecureServer);
  if (unfollow !== undefined) app.addHook('onClose', async () => unfollow());

  app.addHttpMethod('GET', { hasBody: true, overrideExisting: true });
  app.addHook('onRoute', ({ method, url }) => routes.add(method, url));
  if (deps.describeAs !== undefined) await describeRoutes(app, deps.describeAs);
  await app.register(closingPlugin);
  for (const schema of namedSchemas()) app.addSchema(schema);
  app.setErrorHandler(answerAtLast);
  await app.register(edgeOf(deps, routes));
  return app;
}

/** In a scope below the server's own, so that an error handler that fails has one above it that is ours too. */
function edgeOf(deps: ServerDeps, routes: RouteTable): FastifyPluginAsync {
  return async (edge) => {
    await edge.register(errorsPlugin, { redactor: deps.redactor, routes });
    await edge.register(authPlugin, { authenticator: deps.authenticator, authorization: deps.authorization });
    if (deps.limits) await edge.register(limitsPlugin, { limits: deps.limits });
    await edge.register(requestsPlugin);
    if (deps.metrics) await edge.register(requestMetricsPlugin, { metrics: deps.metrics });
    await edge.register(callerHeadersPlugin, { enabled: deps.passthroughEnabled ?? (() => false) });
    await edge.register(responsesPlugin);
    edge.addHook('onResponse', async (request, reply) => {
      const path = request.url.split('?', 1)[0];
      const duration = Math.round(reply.elapsedTime);
      request.log.debug({ method: request.method, path, status: reply.statusCode, duration }, 'request answered');
    });
    await edge.register(deps.routes);
  };
}

function namedSchemas(): { readonly $id: string }[] {
  const rooms = [
    agents,
    audit,
    common,
    connections,
    connectors,
    identity,
    memory,
    modelGroups,
    models,
    operations,
    serverContent,
    settings,
    tasks,
    toolTrust,
  ];
  const named = rooms.flatMap((room) => Object.values(room)).filter(isNamed);
  return named.sort((a, b) => a.$id.localeCompare(b.$id, 'en'));
}

function isNamed(value: unknown): value is { readonly $id: string } {
  return typeof value === 'object' && value !== null && '$id' in value && typeof value.$id === 'string';
}

/** A request line whose path cannot be decoded: no route, no hooks, the same envelope. */
function answerUnroutable(error: Error, _request: FastifyRequest, reply: FastifyReply): void {
  const { status, exception, reason } = reportError(error);
  const top = { type: wireType(exception), reason };
  reply.code(status).type('application/json; charset=UTF-8');
  reply.serializer(JSON.stringify).send({ error: { root_cause: [top], ...top }, status });
}

/** Octets that are not HTTP: the parser has no request to answer to, so the answer is written by hand. */
function answerBrokenRequest(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return;
  if (/^ERR_(SSL|TLS)/.test(error.code ?? '')) return void socket.destroy();
  const [status, phrase, text] = BROKEN_REQUESTS[error.code ?? ''] ?? [400, 'Bad Request', 'Request is not valid HTTP'];
  if (socket.writable) socket.end(rawAnswer(status, phrase, { type: 'illegal_argument_exception', reason: text }));
}

const BROKEN_REQUESTS: Readonly<Record<string, readonly [status: number, phrase: string, text: string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'Request Header Fields Too Large', 'Request header fields are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout', 'Request was not received in time'],
};
