import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { Connectors } from '../../connectors/types.ts';
import { FORBIDDEN, INVALID_ARGUMENT, NOT_FOUND } from '../../errors.ts';
import type { Principal } from '../../identity/principal.ts';
import { isJsonObject } from '../../json.ts';
import type { ConnectionChange, ConnectionReport, McpSessions } from '../../mcp/types.ts';
import { ProbeQuery } from '../../schemas/agents.ts';
import { jsonRef } from '../../schemas/common.ts';
import {
  ConnectionHistory,
  ConnectionStatusList,
  ConnectionStatusReport,
  ConnectorToolResult,
  ConnectorTools,
  ExecuteConnectorToolRequest,
  HistoryQuery,
  ToolPath,
} from '../../schemas/connections.ts';
import { ConnectorId } from '../../schemas/connectors.ts';
import { callerGone } from '../caller-gone.ts';
import { mcpConnectors } from '../mcp-connector.ts';
import { truthy, wholeNumber } from '../query.ts';

export interface ConnectionRoutesOptions {
  readonly sessions: McpSessions;
  readonly connectors: Pick<Connectors, 'find' | 'visible' | 'requireVisible' | 'requireOwned'>;
}

const Report = Type.Unsafe<ConnectionReport>(jsonRef(ConnectionStatusReport));
const History = Type.Unsafe<{ connector_id: string; transitions: ConnectionChange[] }>(jsonRef(ConnectionHistory));
const HISTORY_SIZE = { least: 1, most: 1000, default: 100 };

/** Connections to MCP servers: status, history, tools, one call; below the prefix of the API. */
export const connectionRoutes: FastifyPluginAsyncTypebox<ConnectionRoutesOptions> = async (
  app,
  { sessions, connectors },
) => {
  const tags = ['connections'];
  const requireMcp = mcpConnectors(connectors);

  const visibleReports = (principal: Principal): Promise<ConnectionReport[]> =>
    sessions.reports(principal.access.admin ? undefined : (connector) => connectors.visible(principal, connector));

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
      await requireMcp(principal, id);
      return sessions.report(id, { probe: truthy(query.probe) });
    },
  );

  app.get(
    '/connectors/:connector_id/_history',
    {
      schema: {
        tags,
        params: ConnectorId,
        querystring: HistoryQuery,
        response: { 200: History },
      },
      config: { permission: 'connection:read' },
    },
    async ({ principal, params: { connector_id: id }, query }) => {
      await requireMcp(principal, id);
      const size = wholeNumber(query.size, 'size', HISTORY_SIZE);
      return { connector_id: id, transitions: await sessions.history(id, size) };
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
        const connector = await requireMcp(principal, id);
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
      await requireMcp(principal, id);
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
