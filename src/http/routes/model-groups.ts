import type { FastifyPluginAsync } from 'fastify';
import type { Static } from 'typebox';
import { EMPTY_BODY } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import type { ModelGroups } from '../../models/groups.ts';
import { ref, WriteResponse, writeResponse } from '../../schemas/common.ts';
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

type OfGroup = { Params: Static<typeof ModelGroupId> };
type WithBody = { Body: JsonObject };

const emptyBody = () => new EMPTY_BODY('Model group request has empty body');

/** Model groups, below the prefix of the API. */
export const modelGroupRoutes: FastifyPluginAsync<ModelGroupRoutesOptions> = async (app, { modelGroups }) => {
  const tags = ['model groups'];
  const body = ref(ModelGroupRequest);

  app.post<WithBody>(
    '/model_groups/_register',
    {
      schema: { tags, body, response: { 200: ref(ModelGroupRegistered) } },
      config: { permission: 'model_group:register', emptyBody },
    },
    ({ principal, body }) => modelGroups.register(principal, body),
  );

  app.get<OfGroup>(
    '/model_groups/:model_group_id',
    {
      schema: { tags, params: ModelGroupId, response: { 200: ref(ModelGroup) } },
      config: { permission: 'model_group:read' },
    },
    ({ principal, params }) => modelGroups.get(principal, params.model_group_id),
  );

  app.put<OfGroup & WithBody>(
    '/model_groups/:model_group_id',
    {
      schema: { tags, params: ModelGroupId, body, response: { 200: ref(ModelGroupUpdated) } },
      config: { permission: 'model_group:update', emptyBody },
    },
    ({ principal, params, body }) => modelGroups.update(principal, params.model_group_id, body),
  );

  app.delete<OfGroup>(
    '/model_groups/:model_group_id',
    {
      schema: { tags, params: ModelGroupId, response: { 200: ref(WriteResponse) } },
      config: { permission: 'model_group:delete' },
    },
    async ({ principal, params }) =>
      writeResponse('.plugins-ml-model-group', await modelGroups.delete(principal, params.model_group_id)),
  );
};
