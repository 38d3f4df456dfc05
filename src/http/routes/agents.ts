import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { Agents } from '../../agents/service.ts';
import {
  Agent,
  ExecuteAgentRequest,
  ExecuteAgentResponse,
  ProbeQuery,
  RegisterAgentRequest,
  RegisterAgentResponse,
  UpdateAgentRequest,
} from '../../schemas/agents.ts';
import { jsonRef, ref, WriteResponse, writeResponse } from '../../schemas/common.ts';
import { callerGone } from '../caller-gone.ts';
import { truthy } from '../query.ts';
import { warningHeader } from '../warning.ts';

export interface AgentRoutesOptions {
  readonly agents: Agents;
}

const INDEX = '.plugins-ml-agent';
const AgentId = Type.Object({ agent_id: Type.String() });

/** Agents, below either prefix of the API. */
export const agentRoutes: FastifyPluginAsyncTypebox<AgentRoutesOptions> = async (app, { agents }) => {
  const tags = ['agents'];

  app.post(
    '/agents/_register',
    {
      schema: { tags, body: jsonRef(RegisterAgentRequest), response: { 200: jsonRef(RegisterAgentResponse) } },
      config: { permission: 'agent:create' },
    },
    ({ principal, body }) => agents.register(principal, body),
  );

  app.get(
    '/agents/:agent_id',
    {
      schema: { tags, params: AgentId, querystring: ProbeQuery, response: { 200: jsonRef(Agent) } },
      config: { permission: 'agent:read' },
    },
    ({ principal, params, query }) => agents.get(principal, params.agent_id, { probe: truthy(query.probe) }),
  );

  app.put(
    '/agents/:agent_id',
    {
      schema: { tags, params: AgentId, body: jsonRef(UpdateAgentRequest), response: { 200: ref(WriteResponse) } },
      config: { permission: 'agent:update' },
    },
    async ({ principal, params, body }) => writeResponse(INDEX, await agents.update(principal, params.agent_id, body)),
  );

  app.delete(
    '/agents/:agent_id',
    {
      schema: { tags, params: AgentId, response: { 200: ref(WriteResponse) } },
      config: { permission: 'agent:delete' },
    },
    async ({ principal, params }) => writeResponse(INDEX, await agents.delete(principal, params.agent_id)),
  );

  app.post(
    '/agents/:agent_id/_execute',
    {
      schema: {
        tags,
        params: AgentId,
        body: jsonRef(ExecuteAgentRequest),
        response: { 200: jsonRef(ExecuteAgentResponse) },
      },
      config: { permission: 'agent:execute', executeEnvelope: true, passesHeaders: true },
    },
    async ({ principal, params, body, callerHeaders }, reply) => {
      const result = await agents.execute(principal, params.agent_id, body, callerGone(reply), callerHeaders);
      if (result.warnings.length > 0) reply.header('warning', result.warnings.map(warningHeader));
      return result.body;
    },
  );
};
