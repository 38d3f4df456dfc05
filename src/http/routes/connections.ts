import type { FastifyPluginAsync, FastifyReply } from 'fastify';
import type { Static } from 'typebox';
import type { Connectors } from '../../connectors/types.ts';
import { CONNECTOR_NOT_FOUND, INVALID_ARGUMENT, NOT_FOUND } from '../../errors.ts';
import { isJsonObject, type JsonObject } from '../../json.ts';
import type { McpSessions } from '../../mcp/types.ts';
import { ProbeQuery } from '../../schemas/agents.ts';
import { ref } from '../../schemas/common.ts';
import {
  ConnectionStatusList,
  ConnectionStatusReport,
  ConnectorToolResult,
  ConnectorTools,
  ExecuteConnectorToolRequest,
  ToolPath,
} from '../../schemas/connections.ts';
import { ConnectorId } from '../../schemas/connectors.ts';
import { truthy } from '../query.ts';

export interface ConnectionRoutesOptions {
  readonly sessions: McpSessions;
  readonly connectors: Pick<Connectors, 'find'>;
}

type OfConnector = { Params: Static<typeof ConnectorId> };
type Probe = { Querystring: Static<typeof ProbeQuery> };

/** Connections to MCP servers: status, tools, one call; below the prefix of the API. */
export const connectionRoutes: FastifyPluginAsync<ConnectionRoutesOptions> = async (app, { sessions, connectors }) => {
  const tags = ['connections'];

  async function requireMcp(id: string, missing: () => Error): Promise<void> {
    const connector = await connectors.find(id);
    if (connector === undefined) throw missing();
    if (connector.protocol === 'mcp_streamable_http') return;
    throw new INVALID_ARGUMENT(`Connector with ID ${id} is not of type McpConnector or McpStreamableHttpConnector`);
  }

  app.get(
    '/connectors/_status',
    {
      schema: { tags, response: { 200: ref(ConnectionStatusList) } },
      config: { permission: 'connection:read' },
    },
    async () => ({ connectors: await sessions.reports() }),
  );

  app.get<OfConnector & Probe>(
    '/connectors/:connector_id/_status',
    {
      schema: {
        tags,
        params: ConnectorId,
        querystring: ProbeQuery,
        response: { 200: ref(ConnectionStatusReport) },
      },
      config: { permission: 'connection:read' },
    },
    async ({ params: { connector_id: id }, query }) => {
      await requireMcp(id, () => new CONNECTOR_NOT_FOUND(id));
      return sessions.report(id, { probe: truthy(query.probe) });
    },
  );

  for (const action of ['reconnect', 'disable', 'enable'] as const) {
    app.post<OfConnector>(
      `/connectors/:connector_id/_${action}`,
      {
        schema: { tags, params: ConnectorId, response: { 200: ref(ConnectionStatusReport) } },
        config: { permission: `connection:${action}`, emptyBody: 'allowed' },
      },
      async ({ params: { connector_id: id }, principal }) => {
        await requireMcp(id, () => new CONNECTOR_NOT_FOUND(id));
        return sessions.act(id, action, principal);
      },
    );
  }

  app.get<OfConnector>(
    '/connectors/:connector_id/tools',
    {
      schema: { tags, params: ConnectorId, response: { 200: ref(ConnectorTools) } },
      config: { permission: 'connection:list_tools' },
    },
    async ({ params: { connector_id: id } }, reply) => {
      await requireMcp(id, () => new NOT_FOUND(`Failed to find connector:${id}`));
      const { tools } = await sessions.tools(id, { signal: untilClosed(reply) });
      return {
        tools: tools.map(({ name, description, inputSchema }) => ({
          name,
          type: 'McpStreamableHttpTool',
          ...(description !== undefined && { description }),
          input_schema: JSON.stringify(inputSchema),
        })),
      };
    },
  );

  app.post<{ Params: Static<typeof ToolPath>; Body: JsonObject | undefined }>(
    '/connectors/:connector_id/tools/:tool_name/_execute',
    {
      schema: {
        tags,
        params: ToolPath,
        body: ref(ExecuteConnectorToolRequest),
        response: { 200: ref(ConnectorToolResult) },
      },
      config: { permission: 'connection:call_tool', emptyBody: 'allowed' },
    },
    async ({ params: { connector_id: id, tool_name: given }, body, principal }, reply) => {
      await requireMcp(id, () => new CONNECTOR_NOT_FOUND(id));
      const values = body?.arguments ?? {};
      if (!isJsonObject(values)) throw new INVALID_ARGUMENT('arguments must be an object');
      const signal = untilClosed(reply);
      const tool = await sessions.toolNamed(id, given, { signal });
      if (tool === undefined) {
        throw new NOT_FOUND(
          `Connector ${id} has no tool named ${given}; GET /_plugins/_ml/connectors/${id}/tools lists them`,
        );
      }
      const result = await sessions.call(id, { tool, argumentsText: JSON.stringify(values), principal, signal });
      const { content, structuredContent, isError } = result;
      return { content: [...content], ...(structuredContent !== undefined && { structuredContent }), isError };
    },
  );
};

/** Aborts when the caller goes away before it has its answer. */
function untilClosed(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) gone.abort();
  });
  return gone.signal;
}
