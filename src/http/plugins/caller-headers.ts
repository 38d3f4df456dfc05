import type { FastifyInstance, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { INVALID_ARGUMENT } from '../../errors.ts';
import { CALLER_CREDENTIAL_HEADERS } from '../../schemas/connectors.ts';

export interface CallerHeadersOptions {
  /** The setting `mcp_header_passthrough_enabled`, now. */
  readonly enabled: () => boolean;
}

/** What clients of ML Commons send for MCP servers (contract 2.10). */
const ML_COMMONS_HEADERS = [
  'aws-access-key-id',
  'aws-secret-access-key',
  'aws-session-token',
  'aws-region',
  'aws-service-name',
  'opensearch-url',
];

/**
 * On routes with `passesHeaders`, the header fields of the caller that an MCP connector may be given: all but those that
 * say who the caller is here. While passing on is switched off there are none, and a request with one of ML Commons'
 * names is a 400 (contract 7.1).
 */
export const callerHeadersPlugin = fastifyPlugin<CallerHeadersOptions>(async (app: FastifyInstance, { enabled }) => {
  app.decorateRequest('callerHeaders', undefined);
  app.addHook('preValidation', async (request) => {
    if (!request.routeOptions.config.passesHeaders) return;
    if (enabled()) request.callerHeaders = passable(request);
    else if (ML_COMMONS_HEADERS.some((name) => name in request.headers)) {
      throw new INVALID_ARGUMENT(
        'MCP header passthrough is not enabled. To enable, please update the setting: plugins.ml_commons.mcp_header_passthrough_enabled',
      );
    }
  });
});

function passable({ headers }: FastifyRequest): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(headers).filter(
      (field): field is [string, string] =>
        typeof field[1] === 'string' && !CALLER_CREDENTIAL_HEADERS.includes(field[0]),
    ),
  );
}
