import { Type } from 'typebox';
import { EpochMillis } from './common.ts';

export const TaskId = Type.Object({ task_id: Type.String() });

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
    response: Type.Optional(Type.Object({}, { additionalProperties: true })),
    error: Type.Optional(Type.String()),
  },
  { $id: 'Task' },
);
