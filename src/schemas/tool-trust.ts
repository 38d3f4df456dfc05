import { Type } from 'typebox';
import { EpochMillis } from './common.ts';

const Pin = Type.Object({
  connector_id: Type.String(),
  connector_name: Type.String(),
  tool: Type.String({ description: "The server's own name." }),
  offered_as: Type.Optional(Type.String()),
  state: Type.Enum(['unchanged', 'changed', 'new', 'absent']),
  hash: Type.Optional(Type.String({ description: 'SHA-256 of the pinned definition; absent for a new tool.' })),
  current_hash: Type.Optional(Type.String({ description: 'Of the definition there is now, where it is another one.' })),
  pinned_time: Type.Optional(EpochMillis),
  approved_by: Type.Optional(Type.String()),
  approved_time: Type.Optional(EpochMillis),
  differences: Type.Optional(
    Type.Array(
      Type.Object({
        member: Type.Enum(['description', 'inputSchema', 'outputSchema', 'annotations']),
        path: Type.String({ description: 'JSON pointer inside the member; empty is the whole of it.' }),
        before: Type.Optional(Type.Unknown()),
        after: Type.Optional(Type.Unknown()),
      }),
      { description: 'Long texts are cut around their first difference; hidden characters are written as \\u{200b}.' },
    ),
  ),
  more_differences: Type.Optional(Type.Integer({ description: 'Differences beyond those shown.' })),
});

export const ToolPins = Type.Object({ pins: Type.Array(Pin) }, { $id: 'ToolPins' });

export const ApproveToolsRequest = Type.Object(
  {
    tools: Type.Optional(
      Type.Unknown({
        description:
          'Array of tool names (own or offered), of {"tool","hash","connector_id"}, or ["*"] for all that changed or are new.',
      }),
    ),
  },
  { $id: 'ApproveToolsRequest', additionalProperties: true },
);

const reasonMembers = { code: Type.String(), message: Type.String(), remedy: Type.String() };

export const AgentExplanation = Type.Object(
  {
    agent_id: Type.String(),
    tools: Type.Array(
      Type.Object({
        tool: Type.String({ description: "The server's own name." }),
        offered_as: Type.Optional(Type.String()),
        connector_id: Type.Optional(Type.String()),
        connector_name: Type.Optional(Type.String()),
        callable: Type.Boolean({ description: 'Whether a call by this caller would work now.' }),
        permission: Type.Optional(Type.Enum(['allow', 'ask', 'deny'])),
        reasons: Type.Array(Type.Object(reasonMembers)),
      }),
    ),
    problems: Type.Array(
      Type.Object({
        ...reasonMembers,
        connector_id: Type.Optional(Type.String()),
        model_id: Type.Optional(Type.String()),
        agent_id: Type.Optional(Type.String()),
      }),
    ),
  },
  { $id: 'AgentExplanation' },
);

export const ExplainQuery = Type.Object({
  tool: Type.Optional(Type.String({ description: 'Only the tool of this name, its own or an offered one.' })),
  probe: Type.Optional(Type.String({ description: 'Opens the connections first, for an answer about now.' })),
});
