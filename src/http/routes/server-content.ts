import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Connectors } from '../../connectors/types.ts';
import { INVALID_ARGUMENT } from '../../errors.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../json.ts';
import type { ServerContent, UseOptions } from '../../mcp/types.ts';
import { jsonRef } from '../../schemas/common.ts';
import { ConnectorId } from '../../schemas/connectors.ts';
import {
  GetServerPromptRequest,
  PromptPath,
  ReadServerResourceRequest,
  ServerPromptMessages,
  ServerPrompts,
  ServerResourceContents,
  ServerResources,
} from '../../schemas/server-content.ts';
import { callerGone } from '../caller-gone.ts';
import { mcpConnectors } from '../mcp-connector.ts';

export interface ServerContentRoutesOptions {
  readonly content: ServerContent;
  readonly connectors: Pick<Connectors, 'find' | 'requireVisible'>;
}

/** Prompts and resources of MCP servers; below the prefix of the API. */
export const serverContentRoutes: FastifyPluginAsyncTypebox<ServerContentRoutesOptions> = async (
  app,
  { content, connectors },
) => {
  const tags = ['connections'];
  const requireMcp = mcpConnectors(connectors);

  app.get(
    '/connectors/:connector_id/resources',
    {
      schema: { tags, params: ConnectorId, response: { 200: jsonRef(ServerResources) } },
      config: { permission: 'connection:list_resources', passesHeaders: true },
    },
    async (request, reply) => {
      const id = request.params.connector_id;
      await requireMcp(request.principal, id);
      return { resources: await content.resources(id, useOf(request, reply)) };
    },
  );

  app.post(
    '/connectors/:connector_id/resources/_read',
    {
      schema: {
        tags,
        params: ConnectorId,
        body: jsonRef(ReadServerResourceRequest),
        response: { 200: jsonRef(ServerResourceContents) },
      },
      config: { permission: 'connection:read_resource', passesHeaders: true },
    },
    async (request, reply) => {
      const id = request.params.connector_id;
      await requireMcp(request.principal, id);
      const uri = request.body?.uri;
      if (typeof uri !== 'string' || uri === '') {
        throw new INVALID_ARGUMENT('uri must be a text: the address of the resource, as it is listed');
      }
      return { contents: await content.readResource(id, uri, useOf(request, reply)) };
    },
  );

  app.get(
    '/connectors/:connector_id/prompts',
    {
      schema: { tags, params: ConnectorId, response: { 200: jsonRef(ServerPrompts) } },
      config: { permission: 'connection:list_prompts', passesHeaders: true },
    },
    async (request, reply) => {
      const id = request.params.connector_id;
      await requireMcp(request.principal, id);
      return { prompts: await content.prompts(id, useOf(request, reply)) };
    },
  );

  app.post(
    '/connectors/:connector_id/prompts/:prompt_name/_get',
    {
      schema: {
        tags,
        params: PromptPath,
        body: jsonRef(GetServerPromptRequest),
        response: { 200: jsonRef(ServerPromptMessages) },
      },
      config: { permission: 'connection:get_prompt', emptyBody: 'allowed', passesHeaders: true },
    },
    async (request, reply) => {
      const { connector_id: id, prompt_name: name } = request.params;
      await requireMcp(request.principal, id);
      const values = textsOf(request.body?.arguments ?? {});
      return { ...(await content.prompt(id, name, values, useOf(request, reply))) } as JsonObject;
    },
  );
};

function useOf({ principal, callerHeaders }: FastifyRequest, reply: FastifyReply): UseOptions {
  const caller = { principal, ...(callerHeaders && { headers: callerHeaders }) };
  return { signal: callerGone(reply), caller };
}

/** Arguments of a prompt are texts (MCP, Prompts). */
function textsOf(values: JsonValue): Record<string, string> {
  if (!isJsonObject(values)) throw new INVALID_ARGUMENT('arguments must be an object');
  for (const [name, value] of Object.entries(values)) {
    if (typeof value !== 'string') throw new INVALID_ARGUMENT(`arguments.${name} must be a text`);
  }
  return values as Record<string, string>;
}
