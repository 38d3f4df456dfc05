import type { Connectors } from '../connectors/types.ts';
import { CONFLICT, INVALID_ARGUMENT, NOT_FOUND } from '../errors.ts';
import { ownerId } from '../identity/ownership.ts';
import type { Principal } from '../identity/principal.ts';
import { isJsonObject, type JsonObject } from '../json.ts';
import type { ModelSource } from '../llm/client.ts';
import { countModelCall } from '../llm/counted-client.ts';
import type { Settings } from '../settings/types.ts';
import type { Documents, StoredDocument, WriteOutcome } from '../store/documents.ts';
import type { Audit } from '../telemetry/audit.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Redactor } from '../telemetry/redactor.ts';
import { createDeployment } from './deployment.ts';
import { isDeployed, modelContent, NODE_ID, shownModel } from './document.ts';
import { modelSettings, optionalText } from './fields.ts';
import type { GroupUse, GroupVersions } from './groups.ts';
import { createPredict } from './predict.ts';
import { type ConnectorPart, connectorPart, createRegistration } from './registration.ts';

/** Where finished registrations and deployments are recorded: the tasks room. */
interface TaskRecords {
  create(task: {
    type: 'REGISTER_MODEL' | 'DEPLOY_MODEL';
    state: 'COMPLETED';
    functionName: string;
    modelId: string;
    workerNodes: readonly string[];
    owner: string;
  }): Promise<string>;
}

export interface ModelsDeps {
  readonly documents: Documents;
  readonly connectors: Pick<Connectors, 'load' | 'visible' | 'requireVisible' | 'inline' | 'prepareInline' | 'execute'>;
  readonly groups: GroupVersions;
  readonly tasks: TaskRecords;
  readonly settings: Settings;
  readonly audit: Audit;
  readonly redactor: Redactor;
  readonly log: Logger;
  readonly metrics?: Pick<Metrics, 'modelCall'>;
  readonly now: () => number;
}

export interface Models extends ModelSource {
  /** `deploy`: the query parameter, deploys in the same write. */
  register(
    principal: Principal,
    body: JsonObject,
    options?: { deploy?: boolean },
  ): Promise<{ task_id: string; status: 'CREATED'; model_id: string }>;
  /** The document of `GET /models/{id}`. @throws MODEL_NOT_FOUND, FORBIDDEN (its group is not shared with the caller) */
  get(principal: Principal, id: string): Promise<JsonObject>;
  update(principal: Principal, id: string, body: JsonObject): Promise<WriteOutcome>;
  /** @throws NOT_FOUND, INVALID_ARGUMENT while deployed, CONFLICT while agents use it and `safe_delete_model` is on */
  delete(principal: Principal, id: string): Promise<WriteOutcome>;
  deploy(
    principal: Principal,
    id: string,
    body?: JsonObject,
  ): Promise<{ task_id: string; task_type: 'DEPLOY_MODEL'; status: 'COMPLETED' }>;
  /** What happened to each id, under the name of this node. */
  undeploy(principal: Principal, ids: readonly string[]): Promise<JsonObject>;
  /** @throws MODEL_NOT_FOUND, FORBIDDEN, INVALID_ARGUMENT, UpstreamError */
  predict(principal: Principal, id: string, body: JsonObject, signal?: AbortSignal): Promise<JsonObject>;
  /** @throws FORBIDDEN when the model is there and its group is not shared with the caller, or its connector not with its registrant */
  requireVisible(principal: Principal, id: string): Promise<void>;
}

const CONNECTOR_ACCESS_CONTROL = 'plugins.ml_commons.connector_access_control_enabled';
const FORBIDDEN_MODEL = "User doesn't have privilege to perform this operation on this model";

/** Remote models: a connector with a name and a state. */
export function createModels(deps: ModelsDeps): Models {
  const { documents, connectors, groups, tasks, settings, audit } = deps;
  const deployment = createDeployment(deps);
  const registration = createRegistration(deps);
  const predict = createPredict(deps);

  function recordTask(principal: Principal, type: 'REGISTER_MODEL' | 'DEPLOY_MODEL', modelId: string): Promise<string> {
    const owner = ownerId(principal);
    return tasks.create({ type, state: 'COMPLETED', functionName: 'REMOTE', modelId, workerNodes: [NODE_ID], owner });
  }

  /** A model is shared as its group is. @throws FORBIDDEN */
  async function requireGroup(principal: Principal, stored: StoredDocument | undefined, use: GroupUse): Promise<void> {
    if (stored === undefined || !groups.controls(principal)) return;
    await groups.require(principal, String(stored.body.model_group_id), use, FORBIDDEN_MODEL);
  }

  async function requireVisible(principal: Principal, id: string): Promise<void> {
    const controlled = settings.flag(CONNECTOR_ACCESS_CONTROL);
    if (!controlled && !groups.controls(principal)) return;
    const stored = await documents.get('model', id);
    await requireGroup(principal, stored, 'read');
    if (controlled && stored !== undefined) await deployment.requireConnector(principal, stored);
  }

  function changed(principal: Principal, verb: string, id: string, outcome = 'ok'): Promise<void> {
    return audit.record({ principal: principal.id, action: `model.${verb}`, outcome, detail: id });
  }

  async function changedConnector(
    principal: Principal,
    { id, body: current }: StoredDocument,
    body: JsonObject,
  ): Promise<ConnectorPart> {
    const { connector_id: connectorId, connector } = body;
    if ((connectorId ?? connector ?? null) === null) return { members: {} };
    const inline = isJsonObject(current.connector) ? current.connector : undefined;
    return connectorPart(connectors, principal, id, body, inline);
  }

  return {
    open: deployment.open,

    async register(principal, body, options = {}) {
      const id = await registration(principal, body, options.deploy === true);
      const taskId = await recordTask(principal, 'REGISTER_MODEL', id);
      await changed(principal, 'register', id);
      return { task_id: taskId, status: 'CREATED', model_id: id };
    },

    async get(principal, id) {
      const stored = await deployment.load(id);
      await requireGroup(principal, stored, 'read');
      return shownModel(stored);
    },

    async update(principal, id, body) {
      const stored = await documents.get('model', id);
      if (stored === undefined) throw updatedNotFound(id);
      await requireGroup(principal, stored, 'write');
      const name = optionalText(body, 'name');
      if (name?.trim() === '') throw new INVALID_ARGUMENT('model name is null');
      const groupId = optionalText(body, 'model_group_id');
      if (groupId !== undefined) await groups.require(principal, groupId, 'write', FORBIDDEN_MODEL);
      const { members, sealed } = await changedConnector(principal, stored, body);
      const changes = {
        ...modelSettings(body),
        ...(name === undefined ? {} : { name }),
        ...(groupId === undefined ? {} : { model_group_id: groupId }),
      };
      const outcome = await documents.update('model', id, (current) => {
        const { connector, connector_id, registrant, ...rest } = current.body;
        const moves = Object.keys(members).length > 0;
        if (moves && current.version !== stored.version) throw changedByOthers(id);
        const kept: JsonObject = moves ? members : pick({ connector, connector_id, registrant });
        return modelContent({ ...rest, ...changes, ...kept }, 'connector_id' in members ? null : sealed);
      });
      if (outcome.result === 'not_found') throw updatedNotFound(id);
      await changed(principal, 'update', id);
      return outcome;
    },

    async delete(principal, id) {
      const stored = await documents.get('model', id);
      if (stored === undefined) throw new NOT_FOUND('Failed to find model');
      await requireGroup(principal, stored, 'write');
      if (isDeployed(stored.body)) {
        throw new INVALID_ARGUMENT(
          'Model cannot be deleted in deploying or deployed state. Try undeploy model first then delete',
        );
      }
      if (settings.text('plugins.ml_commons.safe_delete_model') === 'true') {
        const agents = await documents.referencing('agent', { kind: 'model', id });
        if (agents.length > 0) throw stillUsed(agents);
      }
      const outcome = await documents.delete('model', id);
      await changed(principal, 'delete', id, outcome.result);
      return outcome;
    },

    async deploy(principal, id, body = {}) {
      if (body.node_ids !== undefined && body.node_ids !== null) {
        throw new INVALID_ARGUMENT("Don't allow custom deployment plan");
      }
      await requireVisible(principal, id);
      await deployment.deploy(id);
      const taskId = await recordTask(principal, 'DEPLOY_MODEL', id);
      await changed(principal, 'deploy', id);
      return { task_id: taskId, task_type: 'DEPLOY_MODEL', status: 'COMPLETED' };
    },

    async undeploy(principal, ids) {
      if (ids.length === 0) throw new INVALID_ARGUMENT('Must set specific model ids to undeploy');
      const models = await Promise.all([...new Set(ids)].map((id) => documents.get('model', id)));
      await Promise.all(models.map((stored) => requireGroup(principal, stored, 'write')));
      const stats: JsonObject = {};
      for (const id of new Set(ids)) {
        stats[id] = await deployment.undeploy(id);
        await changed(principal, 'undeploy', id, stats[id]);
      }
      return { [NODE_ID]: { stats } };
    },

    requireVisible,

    async predict(principal, id, body, signal) {
      await requireVisible(principal, id);
      return countModelCall(async () => predict(await deployment.open(id), body, signal), deps.metrics, signal);
    },
  };
}

function pick(members: Readonly<Record<string, JsonObject[string] | undefined>>): JsonObject {
  const present: JsonObject = {};
  for (const [name, value] of Object.entries(members)) if (value !== undefined) present[name] = value;
  return present;
}

function updatedNotFound(id: string): Error {
  return new NOT_FOUND(`Failed to find model to update with the provided model id: ${id}`);
}

function changedByOthers(id: string): Error {
  return new CONFLICT(`Model ${id} is being changed by others. Send the update again.`);
}

function stillUsed(agents: readonly string[]): Error {
  return new CONFLICT(
    `${agents.length} agents are still using this model, please delete or update the agents first, all visible agents are: [${agents.join(', ')}]`,
  );
}
