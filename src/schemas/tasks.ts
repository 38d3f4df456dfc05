import { Type } from 'typebox';
import { EpochMillis, ref } from './common.ts';

export const TaskId = Type.Object({ task_id: Type.String() });
export const TaskRequestId = Type.Object({ task_id: Type.String(), request_id: Type.String() });

export const Task = Type.Object(
  {
    model_id: Type.Optional(Type.String()),
    task_type: Type.String(),
    function_name: Type.Optional(Type.String()),
    state: Type.String({ description: 'CREATED, RUNNING, COMPLETED, FAILED, CANCELLED, …' }),
    worker_node: Type.Optional(Type.Array(Type.String())),
    create_time: EpochMillis,
    last_update_time: EpochMillis,
    is_async: Type.Boolean(),
    response: Type.Optional(
      Type.Object(
        {},
        {
          additionalProperties: true,
          description:
            'Of an agent that runs in the background: memory_id and parent_interaction_id, and pending_requests while it waits for a person; then memory_id, inference_results and, where there are any, warnings; or error_message.',
        },
      ),
    ),
    error: Type.Optional(Type.String()),
  },
  { $id: 'Task' },
);

export const TaskRequest = Type.Object(
  {
    request_id: Type.String(),
    task_id: Type.String(),
    agent_id: Type.String(),
    kind: Type.Enum(['approval', 'elicitation']),
    state: Type.Enum(['open', 'answered', 'expired']),
    offered_name: Type.String({ description: 'The tool, under the name the model knows.' }),
    tool: Type.Optional(Type.String({ description: 'Its name at the server.' })),
    connector_id: Type.Optional(Type.String()),
    arguments: Type.String({ description: 'JSON text of the arguments, as the model wrote them.' }),
    question: Type.Optional(
      Type.Object(
        {
          mode: Type.Enum(['form', 'url']),
          message: Type.String(),
          schema: Type.Optional(Type.Object({}, { additionalProperties: true, description: 'Of the form.' })),
          url: Type.Optional(Type.String({ description: 'To be opened by the person; never fetched.' })),
        },
        { description: 'Of an elicitation: what the server wants to know. All of it is the server’s own text.' },
      ),
    ),
    actions: Type.Optional(Type.Array(Type.String(), { description: 'Answers that fit, while it is open.' })),
    create_time: EpochMillis,
    expires_time: EpochMillis,
    reason: Type.Optional(Type.String({ description: 'Why it expired before its time: its server stopped.' })),
    answer: Type.Optional(Type.Object({ action: Type.String(), answered_by: Type.String(), answer_time: EpochMillis })),
  },
  { $id: 'TaskRequest', description: 'Something a run wants to know from a person before it goes on.' },
);

export const TaskRequests = Type.Object({ requests: Type.Array(ref(TaskRequest)) }, { $id: 'TaskRequests' });

export const AnswerTaskRequest = Type.Object(
  {
    action: Type.Optional(
      Type.Unknown({
        description: '`approve` or `refuse` an approval; `accept`, `decline` or `cancel` an elicitation.',
      }),
    ),
    content: Type.Optional(Type.Unknown({ description: 'The fields of an accepted form.' })),
  },
  { $id: 'AnswerTaskRequest', additionalProperties: true },
);
