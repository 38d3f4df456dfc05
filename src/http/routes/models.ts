import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { type TSchema, Type } from 'typebox';
import { INVALID_ARGUMENT, PARSE_FAILED } from '../../errors.ts';
import type { JsonObject, JsonValue } from '../../json.ts';
import type { Models } from '../../models/service.ts';
import { jsonRef, ref, WriteResponse, writeResponse } from '../../schemas/common.ts';
import {
  DeployModelRequest,
  GetModelQuery,
  Model,
  ModelDeployed,
  ModelId,
  ModelRegistered,
  ModelsUndeployed,
  ModelVersionPath,
  Prediction,
  PredictPath,
  PredictRequest,
  RegisterModelQuery,
  RegisterModelRequest,
  UndeployModelsRequest,
  UpdateModelRequest,
} from '../../schemas/models.ts';
import { callerGone } from '../caller-gone.ts';
import { truthy } from '../query.ts';

export interface ModelRoutesOptions {
  readonly models: Models;
}

const INDEX = '.plugins-ml-model';
const emptyUpdate = () => new PARSE_FAILED('Update model request has empty body');

/** Models, below the prefix of the API. */
export const modelRoutes: FastifyPluginAsyncTypebox<ModelRoutesOptions> = async (app, { models }) => {
  const tags = ['models'];

  const registration = {
    schema: {
      tags,
      querystring: RegisterModelQuery,
      body: jsonRef(RegisterModelRequest),
      response: { 200: jsonRef(ModelRegistered) },
    },
    config: { permission: 'model:register' },
  };
  for (const path of ['/models/_register', '/models/_upload']) {
    app.post(path, registration, ({ principal, body, query }) =>
      models.register(principal, body, { deploy: truthy(query.deploy) }),
    );
  }
  app.post(
    '/models/:model_id/:version/_register',
    { ...registration, schema: { ...registration.schema, params: ModelVersionPath } },
    ({ principal, body, query, params }) =>
      models.register(principal, { ...body, ...params }, { deploy: truthy(query.deploy) }),
  );

  app.get(
    '/models/:model_id',
    {
      schema: { tags, params: ModelId, querystring: GetModelQuery, response: { 200: jsonRef(Model) } },
      config: { permission: 'model:read' },
    },
    ({ principal, params }) => models.get(principal, params.model_id),
  );

  app.put(
    '/models/:model_id',
    {
      schema: { tags, params: ModelId, body: jsonRef(UpdateModelRequest), response: { 200: ref(WriteResponse) } },
      config: { permission: 'model:update', emptyBody: emptyUpdate },
    },
    async ({ principal, params, body }) => writeResponse(INDEX, await models.update(principal, params.model_id, body)),
  );

  app.delete(
    '/models/:model_id',
    {
      schema: { tags, params: ModelId, response: { 200: ref(WriteResponse) } },
      config: { permission: 'model:delete' },
    },
    async ({ principal, params }) => writeResponse(INDEX, await models.delete(principal, params.model_id)),
  );

  for (const path of ['/models/:model_id/_deploy', '/models/:model_id/_load']) {
    app.post(
      path,
      {
        schema: { tags, params: ModelId, body: orNone(DeployModelRequest), response: { 200: jsonRef(ModelDeployed) } },
        config: { permission: 'model:deploy', emptyBody: 'allowed' },
      },
      ({ principal, params, body }) => models.deploy(principal, params.model_id, body),
    );
  }

  const undeployment = { tags, body: orNone(UndeployModelsRequest), response: { 200: jsonRef(ModelsUndeployed) } };
  for (const path of ['/models/:model_id/_undeploy', '/models/:model_id/_unload']) {
    app.post(
      path,
      { schema: { ...undeployment, params: ModelId }, config: { permission: 'model:undeploy', emptyBody: 'allowed' } },
      ({ principal, params }) => models.undeploy(principal, [params.model_id]),
    );
  }
  for (const path of ['/models/_undeploy', '/models/_unload']) {
    app.post(
      path,
      { schema: undeployment, config: { permission: 'model:undeploy', emptyBody: 'allowed' } },
      ({ principal, body }) => models.undeploy(principal, modelIds(body?.model_ids)),
    );
  }

  const prediction = { tags, body: jsonRef(PredictRequest), response: { 200: jsonRef(Prediction) } };
  app.post(
    '/models/:model_id/_predict',
    { schema: { ...prediction, params: ModelId }, config: { permission: 'model:predict' } },
    ({ principal, params, body }, reply) => models.predict(principal, params.model_id, body, callerGone(reply)),
  );
  app.post(
    '/_predict/:algorithm/:model_id',
    { schema: { ...prediction, params: PredictPath }, config: { permission: 'model:predict' } },
    ({ principal, params, body }, reply) => {
      requireRemoteAlgorithm(params.algorithm);
      return models.predict(principal, params.model_id, body, callerGone(reply));
    },
  );
};

/** A body that may be absent, which the validator is shown as null. */
function orNone(schema: TSchema & { $id?: string }): ReturnType<typeof Type.Unsafe<JsonObject | undefined>> {
  return Type.Unsafe<JsonObject | undefined>(Type.Union([jsonRef(schema), Type.Null()]));
}

function modelIds(value: JsonValue | undefined): string[] {
  if (value === undefined || value === null) return [];
  if (typeof value === 'string') return [value];
  if (Array.isArray(value) && value.every((id) => typeof id === 'string')) return value;
  throw new INVALID_ARGUMENT('model_ids must be a list of model ids');
}

function requireRemoteAlgorithm(algorithm: string): void {
  if (algorithm.toUpperCase() === 'REMOTE') return;
  throw new INVALID_ARGUMENT(
    `Algorithm ${algorithm} does not run here. Use POST /_plugins/_ml/_predict/remote/{model_id}.`,
  );
}
