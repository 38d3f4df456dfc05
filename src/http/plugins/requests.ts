import type { FastifyInstance, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { INVALID_ARGUMENT, PARSE_FAILED } from '../../errors.ts';
import type { JsonValue } from '../../json.ts';
import { BODY_LIMIT, expectObject, parseJsonBody } from '../json-body.ts';
import { queryText, SERVER_WIDE_PARAMETERS } from '../query.ts';

const JSON_TYPE = /^application\/json\s*(;|$)/i;
const CHARSET = /;\s*charset\s*=\s*"?([^";\s]+)/i;

/**
 * How requests are read: JSON bodies on any method, media types (E2), unknown query parameters, empty bodies by
 * `config.emptyBody`, bodies of the wrong shape. Contract 0.2, 0.4 and 0.5.
 */
export const requestsPlugin = fastifyPlugin(async (app: FastifyInstance) => {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    '*',
    { parseAs: 'buffer', bodyLimit: BODY_LIMIT },
    async (request: FastifyRequest, octets: Buffer) => {
      if (octets.length === 0 || request.is404) return undefined;
      if (!isJson(request.headers['content-type'])) throw unsupportedMediaType();
      return parseJsonBody(octets);
    },
  );

  app.addHook('preValidation', async (request) => {
    if (request.is404) return;
    refuseUnknownParameters(request);
    const body = request.body === undefined ? bodyOfQuery(request) : (request.body as JsonValue);
    if (body === undefined) refuseEmptyBody(request);
    else {
      refuseBodyOnGet(request);
      request.body = expectObject(body);
    }
  });
});

function isJson(type: string | undefined): boolean {
  if (type === undefined || !JSON_TYPE.test(type)) return false;
  const charset = CHARSET.exec(type)?.[1]?.toLowerCase();
  return charset === undefined || charset === 'utf-8' || charset === 'utf8';
}

function unsupportedMediaType(): Error {
  return Object.assign(new Error('unsupported media type'), { code: 'FST_ERR_CTP_INVALID_MEDIA_TYPE' });
}

function pathOf(request: FastifyRequest): string {
  return request.url.split('?', 1)[0] ?? '';
}

function refuseUnknownParameters(request: FastifyRequest): void {
  const { config, schema } = request.routeOptions;
  const declared = (schema?.querystring as { properties?: Record<string, unknown> } | undefined)?.properties ?? {};
  const known = new Set([...SERVER_WIDE_PARAMETERS, ...(config.queryParameters ?? []), ...Object.keys(declared)]);
  const unknown = Object.keys(request.query as Record<string, unknown>).filter((name) => !known.has(name));
  if (unknown.length === 0) return;
  const plural = unknown.length === 1 ? '' : 's';
  const names = unknown.map((name) => `[${name}]`).join(', ');
  throw new INVALID_ARGUMENT(`request [${pathOf(request)}] contains unrecognized parameter${plural}: ${names}`);
}

/** Clients that cannot send a body give its text as `source`. */
function bodyOfQuery(request: FastifyRequest): JsonValue | undefined {
  const query = request.query as Record<string, unknown>;
  const source = queryText(query['source']);
  if (source === undefined) return undefined;
  if (!isJson(queryText(query['source_content_type']))) throw unsupportedMediaType();
  return parseJsonBody(Buffer.from(source, 'utf8'));
}

function refuseEmptyBody(request: FastifyRequest): void {
  if (request.method !== 'POST' && request.method !== 'PUT') return;
  const { emptyBody } = request.routeOptions.config;
  if (emptyBody === 'allowed') return;
  throw emptyBody?.() ?? new PARSE_FAILED('request body is required');
}

function refuseBodyOnGet(request: FastifyRequest): void {
  if (request.method !== 'GET' || request.routeOptions.config.bodyOnGet) return;
  throw new INVALID_ARGUMENT(`request [GET ${pathOf(request)}] does not support having a body`);
}
