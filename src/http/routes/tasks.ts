import type { FastifyPluginAsync } from 'fastify';
import type { Static } from 'typebox';
import { ref, WriteResponse, writeResponse } from '../../schemas/common.ts';
import { Task, TaskId } from '../../schemas/tasks.ts';
import type { Tasks } from '../../tasks/service.ts';

export interface TaskRoutesOptions {
  readonly tasks: Tasks;
}

type OfTask = { Params: Static<typeof TaskId> };

/** Task records, below the prefix of the API. */
export const taskRoutes: FastifyPluginAsync<TaskRoutesOptions> = async (app, { tasks }) => {
  const tags = ['tasks'];

  app.get<OfTask>(
    '/tasks/:task_id',
    { schema: { tags, params: TaskId, response: { 200: ref(Task) } }, config: { permission: 'task:read' } },
    ({ principal, params }) => tasks.get(principal, params.task_id),
  );

  app.delete<OfTask>(
    '/tasks/:task_id',
    { schema: { tags, params: TaskId, response: { 200: ref(WriteResponse) } }, config: { permission: 'task:delete' } },
    async ({ principal, params }) => writeResponse('.plugins-ml-task', await tasks.delete(principal, params.task_id)),
  );
};
