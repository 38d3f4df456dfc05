import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { Explain, Explanation } from '../../agents/explain.ts';
import type { AgentPins, PinList } from '../../agents/pins.ts';
import type { Agents } from '../../agents/service.ts';
import {
  Agent,
  ExecuteAgentRequest,
  ExecuteAgentResponse,
  ExecuteQuery,
  ProbeQuery,
  RegisterAgentRequest,
  RegisterAgentResponse,
  UpdateAgentRequest,
} from '../../schemas/agents.ts';
import { jsonRef, ref, WriteResponse, writeResponse } from '../../schemas/common.ts';
import { AgentExplanation, ApproveToolsRequest, ExplainQuery, ToolPins } from '../../schemas/tool-trust.ts';
import { callerGone } from '../caller-gone.ts';
import { truthy } from '../query.ts';
import { warningHeader } from '../warning.ts';

export interface AgentRoutesOptions {
  readonly agents: Agents;
  readonly pins: AgentPins;
  readonly explain: Explain;
}

const INDEX = '.plugins-ml-agent';
const AgentId = Type.Object({ agent_id: Type.String() });
const Pins = Type.Unsafe<PinList>(jsonRef(ToolPins));

/** Agents, below either prefix of the API. */
export const agentRoutes: FastifyPluginAsyncTypebox<AgentRoutesOptions> = async (app, { agents, pins, explain }) => {
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

  app.get(
    '/agents/:agent_id/_explain',
    {
      schema: {
        tags,
        params: AgentId,
        querystring: ExplainQuery,
        response: { 200: Type.Unsafe<Explanation>(jsonRef(AgentExplanation)) },
      },
      config: { permission: 'agent:read' },
    },
    ({ principal, params, query: { tool, probe } }) =>
      explain(principal, params.agent_id, { ...(tool !== undefined && { tool }), probe: truthy(probe) }),
  );

  app.get(
    '/agents/:agent_id/_pins',
    {
      schema: { tags, params: AgentId, response: { 200: Pins } },
      config: { permission: 'agent:read' },
    },
    ({ principal, params }) => pins.list(principal, params.agent_id),
  );

  app.post(
    '/agents/:agent_id/_pins/_approve',
    {
      schema: { tags, params: AgentId, body: jsonRef(ApproveToolsRequest), response: { 200: Pins } },
      config: { permission: 'agent:approve_tools' },
    },
    ({ principal, params, body }) => pins.approve(principal, params.agent_id, body),
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
        querystring: ExecuteQuery,
        body: jsonRef(ExecuteAgentRequest),
        response: { 200: jsonRef(ExecuteAgentResponse) },
      },
      config: { permission: 'agent:execute', executeEnvelope: true, passesHeaders: true },
    },
    async ({ principal, params, query, body, callerHeaders }, reply) => {
      if (truthy(query.async)) return agents.executeAsync(principal, params.agent_id, body, callerHeaders);
      const result = await agents.execute(principal, params.agent_id, body, callerGone(reply), callerHeaders);
      if (result.warnings.length > 0) reply.header('warning', result.warnings.map(warningHeader));
      return result.body;
    },
  );
};
