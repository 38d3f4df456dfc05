import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { EMPTY_BODY } from '../../errors.ts';
import type { ModelGroups } from '../../models/groups.ts';
import { jsonRef, ref, WriteResponse, writeResponse } from '../../schemas/common.ts';
import {
  ModelGroup,
  ModelGroupId,
  ModelGroupRegistered,
  ModelGroupRequest,
  ModelGroupUpdated,
} from '../../schemas/model-groups.ts';

export interface ModelGroupRoutesOptions {
  readonly modelGroups: ModelGroups;
}

const emptyBody = () => new EMPTY_BODY('Model group request has empty body');

/** Model groups, below the prefix of the API. */
export const modelGroupRoutes: FastifyPluginAsyncTypebox<ModelGroupRoutesOptions> = async (app, { modelGroups }) => {
  const tags = ['model groups'];
  const body = jsonRef(ModelGroupRequest);

  app.post(
    '/model_groups/_register',
    {
      schema: { tags, body, response: { 200: jsonRef(ModelGroupRegistered) } },
      config: { permission: 'model_group:register', emptyBody },
    },
    ({ principal, body }) => modelGroups.register(principal, body),
  );

  app.get(
    '/model_groups/:model_group_id',
    {
      schema: { tags, params: ModelGroupId, response: { 200: jsonRef(ModelGroup) } },
      config: { permission: 'model_group:read' },
    },
    ({ principal, params }) => modelGroups.get(principal, params.model_group_id),
  );

  app.put(
    '/model_groups/:model_group_id',
    {
      schema: { tags, params: ModelGroupId, body, response: { 200: jsonRef(ModelGroupUpdated) } },
      config: { permission: 'model_group:update', emptyBody },
    },
    ({ principal, params, body }) => modelGroups.update(principal, params.model_group_id, body),
  );

  app.delete(
    '/model_groups/:model_group_id',
    {
      schema: { tags, params: ModelGroupId, response: { 200: ref(WriteResponse) } },
      config: { permission: 'model_group:delete' },
    },
    async ({ principal, params }) =>
      writeResponse('.plugins-ml-model-group', await modelGroups.delete(principal, params.model_group_id)),
  );
};
