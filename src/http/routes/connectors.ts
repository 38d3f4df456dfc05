import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply } from 'fastify';
import type { Connectors } from '../../connectors/types.ts';
import { EMPTY_BODY, PARSE_FAILED } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { jsonRef, ref, WriteResponse, writeResponse } from '../../schemas/common.ts';
import {
  ConnectorCreated,
  ConnectorDocument,
  ConnectorId,
  CreateConnectorRequest,
  UpdateConnectorRequest,
} from '../../schemas/connectors.ts';
import { warningHeader } from '../warning.ts';

export interface ConnectorRoutesOptions {
  readonly connectors: Connectors;
}

const INDEX = '.plugins-ml-connector';

/** Connectors, below the prefix of the API. */
export const connectorRoutes: FastifyPluginAsyncTypebox<ConnectorRoutesOptions> = async (app, { connectors }) => {
  const tags = ['connectors'];

  app.post(
    '/connectors/_create',
    {
      schema: { tags, body: jsonRef(CreateConnectorRequest), response: { 200: jsonRef(ConnectorCreated) } },
      config: {
        permission: 'connector:create',
        emptyBody: () => new EMPTY_BODY('Create Connector request has empty body'),
      },
    },
    async ({ principal, body }, reply) => {
      const created = await connectors.create(principal, body);
      warnOfUnknown(body, CreateConnectorRequest.properties, reply);
      return created;
    },
  );

  app.get(
    '/connectors/:connector_id',
    {
      schema: { tags, params: ConnectorId, response: { 200: jsonRef(ConnectorDocument) } },
      config: { permission: 'connector:read' },
    },
    ({ principal, params }) => connectors.get(principal, params.connector_id),
  );

  app.put(
    '/connectors/:connector_id',
    {
      schema: {
        tags,
        params: ConnectorId,
        body: jsonRef(UpdateConnectorRequest),
        response: { 200: ref(WriteResponse) },
      },
      config: {
        permission: 'connector:update',
        emptyBody: () => new PARSE_FAILED('Failed to update connector: Request body is empty'),
      },
    },
    async ({ principal, params, body }, reply) => {
      const outcome = await connectors.update(principal, params.connector_id, body);
      warnOfUnknown(body, UpdateConnectorRequest.properties, reply);
      return writeResponse(INDEX, outcome);
    },
  );

  app.delete(
    '/connectors/:connector_id',
    {
      schema: { tags, params: ConnectorId, response: { 200: ref(WriteResponse) } },
      config: { permission: 'connector:delete' },
    },
    async ({ principal, params }) => writeResponse(INDEX, await connectors.delete(principal, params.connector_id)),
  );
};

/** Members nobody reads are accepted, as the API has it, but a misspelt `credential` must not go unnoticed. */
function warnOfUnknown(body: JsonObject, known: object, reply: FastifyReply): void {
  const unknown = Object.keys(body).filter((name) => !Object.hasOwn(known, name));
  if (unknown.length === 0) return;
  const names = unknown.map((name) => name.slice(0, 50)).join(', ');
  reply.header('warning', warningHeader(`Not a member of a connector, so ignored: ${names}`));
}
