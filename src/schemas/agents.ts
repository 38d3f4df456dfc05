import { Type } from 'typebox';
import { EpochMillis, ParametersIn, ParametersOut } from './common.ts';

const nullable = (type: 'string' | 'object' | 'array', description: string) =>
  Type.Optional(Type.Unsafe<unknown>({ type: [type, 'null'], description }));

/** Members are checked by the agents room, whose texts the API documents; the shapes here are for readers. */
const agentMembers = {
  name: nullable('string', 'At most 128 characters.'),
  type: nullable(
    'string',
    'flow, conversational_flow, conversational, plan_execute_and_reflect, ag_ui or conversational_v2, in any case. Type conversational can be executed.',
  ),
  description: nullable('string', 'What the agent is for.'),
  llm: nullable('object', '{"model_id": "…", "parameters": {…}}: the model the agent asks.'),
  model: nullable(
    'object',
    '{"model_id", "model_provider", "credential", "model_parameters"}: makes the connector and the model in one call.',
  ),
  tools: nullable(
    'array',
    'Tools by type. {"type":"MCPTool","parameters":{"connector_id":"…","tool_filters":["regex"],"required":"true","fallback_connector_id":"…"}} takes the tools of an MCP connector.',
  ),
  parameters: nullable(
    'object',
    'For the runtime: _llm_interface, mcp_connectors, tool_permissions, tool_trust, max_iteration, system_prompt, …',
  ),
  memory: nullable('object', '{"type": "conversation_index"}'),
  app_type: nullable('string', 'Free text.'),
  context_management_name: nullable('string', 'Name of a stored template.'),
  context_management: nullable('object', 'The same inline.'),
};

export const RegisterAgentRequest = Type.Object(
  { ...agentMembers, agent_id: Type.Optional(Type.Unknown({ description: 'An id of the caller’s own choice.' })) },
  { $id: 'RegisterAgentRequest', additionalProperties: true },
);

export const UpdateAgentRequest = Type.Object(agentMembers, { $id: 'UpdateAgentRequest', additionalProperties: true });

export const RegisterAgentResponse = Type.Object({ agent_id: Type.String() }, { $id: 'RegisterAgentResponse' });

const AgentTool = Type.Object({
  type: Type.String(),
  name: Type.Optional(Type.String()),
  description: Type.Optional(Type.String()),
  parameters: Type.Optional(ParametersOut),
  attributes: Type.Optional(ParametersOut),
  include_output_in_agent_response: Type.Boolean(),
  config: Type.Optional(ParametersOut),
});

const AgentConnection = Type.Object(
  {
    connector_id: Type.String(),
    name: Type.Optional(Type.String({ description: 'Absent for a connector the caller may not see.' })),
    status: Type.Enum(['idle', 'connecting', 'connected', 'failed', 'auth_required', 'disabled']),
    since: Type.Optional(EpochMillis),
    tool_count: Type.Integer(),
    tools: Type.Array(Type.String(), { description: 'Names the tools are offered to the model under.' }),
    protocol_version: Type.Optional(Type.String()),
    last_success_time: Type.Optional(EpochMillis),
    left_out: Type.Optional(Type.Array(Type.Object({ name: Type.String(), reason: Type.String() }))),
    warnings: Type.Optional(Type.Array(Type.String())),
    error: Type.Optional(
      Type.Object({
        code: Type.String(),
        message: Type.String(),
        remedy: Type.String(),
        next_retry_time: Type.Optional(EpochMillis),
      }),
    ),
  },
  { description: 'How one MCP connector of the agent is doing, the last known truth.' },
);

export const Agent = Type.Object(
  {
    name: Type.String(),
    type: Type.String(),
    description: Type.Optional(Type.String()),
    llm: Type.Optional(Type.Object({ model_id: Type.String(), parameters: Type.Optional(ParametersOut) })),
    model: Type.Optional(
      Type.Object({ model_id: Type.Optional(Type.String()), model_provider: Type.Optional(Type.String()) }),
    ),
    tools: Type.Optional(Type.Array(AgentTool)),
    parameters: Type.Optional(ParametersOut),
    memory: Type.Optional(
      Type.Object({
        type: Type.String(),
        window_size: Type.Optional(Type.Integer()),
        session_id: Type.Optional(Type.String()),
        memory_container_id: Type.Optional(Type.String()),
      }),
    ),
    app_type: Type.Optional(Type.String()),
    context_management: Type.Optional(Type.Object({}, { additionalProperties: true })),
    created_time: EpochMillis,
    last_updated_time: EpochMillis,
    is_hidden: Type.Boolean(),
    mcp_connections: Type.Optional(Type.Array(AgentConnection)),
  },
  { $id: 'Agent', description: 'An agent; `mcp_connections` is there for agents that name MCP connectors.' },
);

export const ExecuteAgentRequest = Type.Object(
  {
    parameters: Type.Optional(
      Type.Unsafe<unknown>({
        ...ParametersIn,
        type: ['object', 'null'],
        description: 'question, memory_id, parent_interaction_id, regenerate_interaction_id, max_iteration, …',
      }),
    ),
    input: Type.Optional(Type.Unknown({ description: 'A text, content blocks of text, or messages; the last asks.' })),
  },
  { $id: 'ExecuteAgentRequest', additionalProperties: true },
);

export const ExecuteAgentResponse = Type.Object(
  {
    inference_results: Type.Optional(
      Type.Array(
        Type.Object({
          output: Type.Array(
            Type.Object({
              name: Type.String(),
              result: Type.Optional(Type.String()),
              dataAsMap: Type.Optional(Type.Object({}, { additionalProperties: true })),
            }),
          ),
        }),
      ),
    ),
    task_id: Type.Optional(Type.String()),
    status: Type.Optional(Type.String()),
    response: Type.Optional(Type.Object({ memory_id: Type.String(), parent_interaction_id: Type.String() })),
  },
  {
    $id: 'ExecuteAgentResponse',
    description: '`inference_results`; with `async=true` the other members, and the task has the rest.',
  },
);

export const ExecuteQuery = Type.Object({
  async: Type.Optional(
    Type.String({ description: 'Runs in the background: the answer names a task, where people can be asked.' }),
  ),
});

export const ProbeQuery = Type.Object({
  probe: Type.Optional(Type.String({ description: 'Opens the connections first, for an answer about now.' })),
});
