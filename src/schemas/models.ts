import { Type } from 'typebox';
import { AccessMembers, EpochMillis } from './common.ts';

const Open = Type.Object({}, { additionalProperties: true });
const text = (description: string) => Type.Optional(Type.Unknown({ description }));

export const ModelId = Type.Object({ model_id: Type.String() });
export const ModelVersionPath = Type.Object({ model_id: Type.String(), version: Type.String() });
export const PredictPath = Type.Object({ algorithm: Type.String(), model_id: Type.String() });
export const RegisterModelQuery = Type.Object({
  deploy: Type.Optional(Type.String({ description: '`true` deploys right after registering' })),
});
/** Accepted as the clients send it; a remote model has no content to return. */
export const GetModelQuery = Type.Object({ return_content: Type.Optional(Type.String()) });

const members = {
  name: text('String'),
  description: text('String'),
  model_group_id: text('Group to put the model in; absent: the group named after the model'),
  connector_id: text('Id of a connector of protocol http'),
  connector: text('Connector stored inside the model, in place of connector_id'),
  is_enabled: text('Boolean; false refuses predictions'),
  rate_limiter: text('{limit, unit}'),
  deploy_setting: text('{is_auto_deploy_enabled, …}'),
  guardrails: text('Object'),
  interface: text('{input, output}: JSON Schemas, each an object or its text'),
  model_config: text('Object'),
};

/** Open: the service answers with the documented texts. */
export const RegisterModelRequest = Type.Object(
  {
    ...members,
    function_name: text('`remote`'),
    version: text('String or number; absent: counted in the group'),
    ...AccessMembers,
    model_id: text('Id to use in place of a generated one'),
  },
  { $id: 'RegisterModelRequest' },
);

export const UpdateModelRequest = Type.Object(members, { $id: 'UpdateModelRequest' });

export const ModelRegistered = Type.Object(
  { task_id: Type.String(), status: Type.Enum(['CREATED']), model_id: Type.String() },
  { $id: 'ModelRegistered' },
);

export const ModelDeployed = Type.Object(
  { task_id: Type.String(), task_type: Type.Enum(['DEPLOY_MODEL']), status: Type.Enum(['COMPLETED']) },
  { $id: 'ModelDeployed' },
);

export const Model = Type.Object(
  {
    name: Type.String(),
    model_group_id: Type.String(),
    algorithm: Type.String(),
    model_version: Type.String(),
    description: Type.Optional(Type.String()),
    model_state: Type.Enum(['REGISTERED', 'DEPLOYED', 'UNDEPLOYED']),
    created_time: EpochMillis,
    last_updated_time: EpochMillis,
    last_registered_time: Type.Optional(EpochMillis),
    last_deployed_time: Type.Optional(EpochMillis),
    last_undeployed_time: Type.Optional(EpochMillis),
    auto_redeploy_retry_times: Type.Optional(Type.Integer()),
    planning_worker_node_count: Type.Optional(Type.Integer()),
    current_worker_node_count: Type.Optional(Type.Integer()),
    planning_worker_nodes: Type.Optional(Type.Array(Type.String())),
    deploy_to_all_nodes: Type.Optional(Type.Boolean()),
    is_hidden: Type.Boolean(),
    is_enabled: Type.Optional(Type.Boolean()),
    rate_limiter: Type.Optional(Open),
    deploy_setting: Type.Optional(Open),
    guardrails: Type.Optional(Open),
    interface: Type.Optional(Open),
    model_config: Type.Optional(Open),
    connector_id: Type.Optional(Type.String()),
    connector: Type.Optional(Open),
  },
  { $id: 'Model' },
);

export const DeployModelRequest = Type.Object(
  { node_ids: text('Refused: remote models have no deployment plan') },
  { $id: 'DeployModelRequest' },
);

export const UndeployModelsRequest = Type.Object(
  { model_ids: text('List of model ids'), node_ids: text('Accepted and not used') },
  { $id: 'UndeployModelsRequest' },
);

export const ModelsUndeployed = Type.Record(
  Type.String(),
  Type.Object({ stats: Type.Record(Type.String(), Type.String()) }),
  { $id: 'ModelsUndeployed' },
);

export const PredictRequest = Type.Object(
  {
    parameters: text('Values for the template of the action; those that are not strings count as their JSON text'),
    action_type: text('`predict` unless another action of the connector is meant'),
  },
  { $id: 'PredictRequest' },
);

export const Prediction = Type.Object(
  {
    inference_results: Type.Array(
      Type.Object({
        output: Type.Array(Type.Object({ name: Type.String(), dataAsMap: Open })),
        status_code: Type.Integer(),
      }),
    ),
  },
  { $id: 'Prediction' },
);
