import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { jsonRef, ref, WriteResponse, writeResponse } from '../../schemas/common.ts';
import { AnswerTaskRequest, Task, TaskId, TaskRequest, TaskRequestId, TaskRequests } from '../../schemas/tasks.ts';
import type { Tasks } from '../../tasks/service.ts';

export interface TaskRoutesOptions {
  readonly tasks: Tasks;
}

/** Task records, below the prefix of the API. */
export const taskRoutes: FastifyPluginAsyncTypebox<TaskRoutesOptions> = async (app, { tasks }) => {
  const tags = ['tasks'];

  app.get(
    '/tasks/:task_id',
    { schema: { tags, params: TaskId, response: { 200: jsonRef(Task) } }, config: { permission: 'task:read' } },
    ({ principal, params }) => tasks.get(principal, params.task_id),
  );

  app.delete(
    '/tasks/:task_id',
    { schema: { tags, params: TaskId, response: { 200: ref(WriteResponse) } }, config: { permission: 'task:delete' } },
    async ({ principal, params }) => writeResponse('.plugins-ml-task', await tasks.delete(principal, params.task_id)),
  );

  app.get(
    '/tasks/:task_id/_requests',
    {
      schema: { tags, params: TaskId, response: { 200: jsonRef(TaskRequests) } },
      config: { permission: 'task:read' },
    },
    async ({ principal, params }) => ({ requests: await tasks.requests(principal, params.task_id) }),
  );

  app.post(
    '/tasks/:task_id/_requests/:request_id',
    {
      schema: {
        tags,
        params: TaskRequestId,
        body: jsonRef(AnswerTaskRequest),
        response: { 200: jsonRef(TaskRequest) },
      },
      config: { permission: 'task:answer' },
    },
    ({ principal, params, body }) => tasks.answer(principal, params.task_id, params.request_id, body),
  );
};
