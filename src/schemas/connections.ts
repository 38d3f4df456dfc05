import { Type } from 'typebox';
import { EpochMillis } from './common.ts';

export const ToolPath = Type.Object({
  connector_id: Type.String(),
  tool_name: Type.String({ description: "The server's own name, percent-encoded, or the name it is offered under" }),
});

export const ConnectionStatusReport = Type.Object(
  {
    connector_id: Type.String(),
    name: Type.String(),
    origin: Type.Enum(['api', 'config']),
    transport: Type.Enum(['remote', 'local']),
    status: Type.Enum(['idle', 'connecting', 'connected', 'failed', 'auth_required', 'disabled']),
    since: EpochMillis,
    tool_count: Type.Integer(),
    tools: Type.Array(
      Type.Object({
        name: Type.String(),
        offered_as: Type.String({ description: 'Empty for a tool that is left out' }),
        state: Type.Enum(['available', 'known', 'left_out']),
        reason: Type.Optional(
          Type.String({ description: 'Why it is left out, or offered under another name than its own' }),
        ),
      }),
    ),
    protocol_version: Type.Optional(Type.String()),
    last_success_time: Type.Optional(EpochMillis),
    error: Type.Optional(
      Type.Object({
        code: Type.String(),
        message: Type.String(),
        remedy: Type.String(),
        attempts: Type.Optional(Type.Integer()),
        next_retry_time: Type.Optional(EpochMillis),
      }),
    ),
    breaker: Type.Object({
      state: Type.Enum(['closed', 'open', 'half_open']),
      failures: Type.Integer(),
      retry_time: Type.Optional(EpochMillis),
    }),
    warnings: Type.Optional(Type.Array(Type.String())),
    left_out: Type.Optional(Type.Array(Type.Object({ name: Type.String(), reason: Type.String() }))),
    caller_sessions: Type.Optional(
      Type.Integer({ description: 'Open sessions of callers whose own headers are passed on to this server' }),
    ),
    stderr: Type.Optional(
      Type.Array(Type.String(), { description: 'The last lines a local process wrote to its standard error' }),
    ),
    agents: Type.Array(Type.Object({ agent_id: Type.String(), name: Type.String() }), {
      description: 'Agents that get its tools; at most 100',
    }),
    actions: Type.Array(Type.String()),
  },
  { $id: 'ConnectionStatus' },
);

export const ConnectionStatusList = Type.Object(
  { connectors: Type.Array(Type.Unsafe<object>({ $ref: 'ConnectionStatus' })) },
  { $id: 'ConnectionStatusList' },
);

export const HistoryQuery = Type.Object({
  size: Type.Optional(Type.Unknown({ description: 'Whole number from 1 to 1000; default 100' })),
});

export const ConnectionHistory = Type.Object(
  {
    connector_id: Type.String(),
    transitions: Type.Array(
      Type.Object({
        from: Type.String(),
        to: Type.String(),
        cause: Type.String(),
        code: Type.Optional(Type.String()),
        message: Type.Optional(Type.String()),
        time: EpochMillis,
      }),
      { description: 'Newest first; the newest 1,000 are kept' },
    ),
  },
  { $id: 'ConnectionHistory' },
);

export const ConnectorTools = Type.Object(
  {
    tools: Type.Array(
      Type.Object({
        name: Type.String(),
        type: Type.String(),
        description: Type.Optional(Type.String()),
        input_schema: Type.String({ description: 'JSON text of the input schema' }),
      }),
    ),
  },
  { $id: 'ConnectorTools' },
);

export const ExecuteConnectorToolRequest = Type.Unsafe<unknown>({
  $id: 'ExecuteConnectorToolRequest',
  type: ['object', 'null'],
  properties: { arguments: Type.Unknown({ description: 'Object; absent means no arguments' }) },
});

export const ConnectorToolResult = Type.Object(
  {
    content: Type.Array(Type.Object({}, { additionalProperties: true })),
    structuredContent: Type.Optional(Type.Unknown()),
    isError: Type.Boolean(),
  },
  { $id: 'ConnectorToolResult' },
);
