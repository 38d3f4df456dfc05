import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { Connector, Connectors } from '../../connectors/types.ts';
import { CONNECTOR_NOT_FOUND, FORBIDDEN, INVALID_ARGUMENT, NOT_FOUND } from '../../errors.ts';
import type { Principal } from '../../identity/principal.ts';
import { isJsonObject } from '../../json.ts';
import type { ConnectionReport, McpSessions } from '../../mcp/types.ts';
import { ProbeQuery } from '../../schemas/agents.ts';
import { jsonRef } from '../../schemas/common.ts';
import {
  ConnectionStatusList,
  ConnectionStatusReport,
  ConnectorToolResult,
  ConnectorTools,
  ExecuteConnectorToolRequest,
  ToolPath,
} from '../../schemas/connections.ts';
import { ConnectorId } from '../../schemas/connectors.ts';
import { callerGone } from '../caller-gone.ts';
import { truthy } from '../query.ts';

export interface ConnectionRoutesOptions {
  readonly sessions: McpSessions;
  readonly connectors: Pick<Connectors, 'find' | 'visible' | 'requireVisible' | 'requireOwned'>;
}

const Report = Type.Unsafe<ConnectionReport>(jsonRef(ConnectionStatusReport));

/** Connections to MCP servers: status, tools, one call; below the prefix of the API. */
export const connectionRoutes: FastifyPluginAsyncTypebox<ConnectionRoutesOptions> = async (
  app,
  { sessions, connectors },
) => {
  const tags = ['connections'];

  async function requireMcp(principal: Principal, id: string, missing: () => Error): Promise<Connector> {
    const connector = await connectors.find(id);
    if (connector === undefined) throw missing();
    connectors.requireVisible(principal, connector);
    if (connector.protocol === 'mcp_streamable_http') return connector;
    throw new INVALID_ARGUMENT(`Connector with ID ${id} is not of type McpConnector or McpStreamableHttpConnector`);
  }

  async function visibleReports(principal: Principal): Promise<ConnectionReport[]> {
    const reports = await sessions.reports();
    if (principal.access.admin) return reports;
    const found = await Promise.all(reports.map(({ connector_id: id }) => connectors.find(id)));
    const visible = found.flatMap((connector) =>
      connector && connectors.visible(principal, connector) ? connector.id : [],
    );
    return reports.filter((report) => visible.includes(report.connector_id));
  }

  app.get(
    '/connectors/_status',
    {
      schema: {
        tags,
        response: { 200: Type.Unsafe<{ connectors: readonly ConnectionReport[] }>(jsonRef(ConnectionStatusList)) },
      },
      config: { permission: 'connection:read' },
    },
    async ({ principal }) => ({ connectors: await visibleReports(principal) }),
  );

  app.get(
    '/connectors/:connector_id/_status',
    {
      schema: {
        tags,
        params: ConnectorId,
        querystring: ProbeQuery,
        response: { 200: Report },
      },
      config: { permission: 'connection:read' },
    },
    async ({ principal, params: { connector_id: id }, query }) => {
      await requireMcp(principal, id, () => new CONNECTOR_NOT_FOUND(id));
      return sessions.report(id, { probe: truthy(query.probe) });
    },
  );

  for (const action of ['reconnect', 'disable', 'enable'] as const) {
    app.post(
      `/connectors/:connector_id/_${action}`,
      {
        schema: { tags, params: ConnectorId, response: { 200: Report } },
        config: { permission: `connection:${action}`, emptyBody: 'allowed' },
      },
      async ({ params: { connector_id: id }, principal }) => {
        const connector = await requireMcp(principal, id, () => new CONNECTOR_NOT_FOUND(id));
        if (action !== 'reconnect') connectors.requireOwned(principal, action, connector);
        return sessions.act(id, action, principal);
      },
    );
  }

  app.get(
    '/connectors/:connector_id/tools',
    {
      schema: { tags, params: ConnectorId, response: { 200: jsonRef(ConnectorTools) } },
      config: { permission: 'connection:list_tools' },
    },
    async ({ principal, params: { connector_id: id } }, reply) => {
      await requireMcp(principal, id, () => new NOT_FOUND(`Failed to find connector:${id}`));
      const { tools } = await sessions.tools(id, { signal: callerGone(reply) });
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

  app.post(
    '/connectors/:connector_id/tools/:tool_name/_execute',
    {
      schema: {
        tags,
        params: ToolPath,
        body: jsonRef(ExecuteConnectorToolRequest),
        response: { 200: jsonRef(ConnectorToolResult) },
      },
      config: { permission: 'connection:call_tool', emptyBody: 'allowed', passesHeaders: true },
    },
    async ({ params: { connector_id: id, tool_name: given }, body, principal, callerHeaders }, reply) => {
      await requireMcp(principal, id, () => new CONNECTOR_NOT_FOUND(id));
      const values = body?.arguments ?? {};
      if (!isJsonObject(values)) throw new INVALID_ARGUMENT('arguments must be an object');
      const signal = callerGone(reply);
      const own = callerHeaders === undefined ? {} : { callerHeaders };
      const caller = { principal, ...(callerHeaders && { headers: callerHeaders }) };
      const tool = await sessions.toolNamed(id, given, { signal, caller });
      if (tool === undefined) {
        throw new NOT_FOUND(
          `Connector ${id} has no tool named ${given}; GET /_plugins/_ml/connectors/${id}/tools lists them`,
        );
      }
      if (principal.access.deniesTool(id, tool)) {
        throw new FORBIDDEN(`You don't have permission to call the tool ${tool} of connector ${id}.`);
      }
      const result = await sessions.call(id, {
        tool,
        argumentsText: JSON.stringify(values),
        principal,
        signal,
        ...own,
      });
      const { content, structuredContent, isError } = result;
      return { content: [...content], ...(structuredContent !== undefined && { structuredContent }), isError };
    },
  );
};
