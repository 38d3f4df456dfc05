import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { jsonRef, ref, WriteResponse, writeResponse } from '../../schemas/common.ts';
import { Task, TaskId } from '../../schemas/tasks.ts';
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
};
