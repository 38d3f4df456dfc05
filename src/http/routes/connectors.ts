import type { FastifyPluginAsync } from 'fastify';
import type { Static } from 'typebox';
import type { Connectors } from '../../connectors/types.ts';
import { EMPTY_BODY, PARSE_FAILED } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { ref, WriteResponse, writeResponse } from '../../schemas/common.ts';
import {
  ConnectorCreated,
  ConnectorDocument,
  ConnectorId,
  CreateConnectorRequest,
  UpdateConnectorRequest,
} from '../../schemas/connectors.ts';

export interface ConnectorRoutesOptions {
  readonly connectors: Connectors;
}

type Body = { Body: JsonObject };
type OfConnector = { Params: Static<typeof ConnectorId> };

const INDEX = '.plugins-ml-connector';

/** Connectors, below the prefix of the API. */
export const connectorRoutes: FastifyPluginAsync<ConnectorRoutesOptions> = async (app, { connectors }) => {
  const tags = ['connectors'];

  app.post<Body>(
    '/connectors/_create',
    {
      schema: { tags, body: ref(CreateConnectorRequest), response: { 200: ref(ConnectorCreated) } },
      config: {
        permission: 'connector:create',
        emptyBody: () => new EMPTY_BODY('Create Connector request has empty body'),
      },
    },
    ({ principal, body }) => connectors.create(principal, body),
  );

  app.get<OfConnector>(
    '/connectors/:connector_id',
    {
      schema: { tags, params: ConnectorId, response: { 200: ref(ConnectorDocument) } },
      config: { permission: 'connector:read' },
    },
    ({ principal, params }) => connectors.get(principal, params.connector_id),
  );

  app.put<OfConnector & Body>(
    '/connectors/:connector_id',
    {
      schema: { tags, params: ConnectorId, body: ref(UpdateConnectorRequest), response: { 200: ref(WriteResponse) } },
      config: {
        permission: 'connector:update',
        emptyBody: () => new PARSE_FAILED('Failed to update connector: Request body is empty'),
      },
    },
    async ({ principal, params, body }) =>
      writeResponse(INDEX, await connectors.update(principal, params.connector_id, body)),
  );

  app.delete<OfConnector>(
    '/connectors/:connector_id',
    {
      schema: { tags, params: ConnectorId, response: { 200: ref(WriteResponse) } },
      config: { permission: 'connector:delete' },
    },
    async ({ principal, params }) => writeResponse(INDEX, await connectors.delete(principal, params.connector_id)),
  );
};
