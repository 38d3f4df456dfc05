import type { Connectors } from '../connectors/types.ts';
import { INVALID_ARGUMENT, MODEL_NOT_FOUND, SWITCHED_OFF } from '../errors.ts';
import type { Principal } from '../identity/principal.ts';
import { isJsonObject, type JsonObject } from '../json.ts';
import type { ModelSource, OpenModel } from '../llm/client.ts';
import type { Settings } from '../settings/types.ts';
import type { Documents, StoredDocument } from '../store/documents.ts';
import { connectorUser, inlineOwner, isDeployed, modelContent } from './document.ts';
import { createModelRateLimiter } from './rate-limiter.ts';

export interface DeploymentDeps {
  readonly documents: Documents;
  readonly connectors: Pick<Connectors, 'load' | 'inline' | 'requireVisible'>;
  readonly settings: Settings;
  readonly now: () => number;
}

export interface Deployment extends ModelSource {
  /** @throws MODEL_NOT_FOUND */
  load(id: string): Promise<StoredDocument>;
  /**
   * Checks that who put the model on its stored connector may still see that; every use of a model passes here.
   * @throws FORBIDDEN, CONNECTOR_NOT_FOUND
   */
  requireConnector(caller: Principal, stored: StoredDocument): Promise<void>;
  /** @throws MODEL_NOT_FOUND */
  deploy(id: string): Promise<void>;
  /** `not_found` for an unknown id. */
  undeploy(id: string): Promise<'undeployed' | 'not_found'>;
}

const AUTO_DEPLOY = 'plugins.ml_commons.model_auto_deploy.enable';

/** Whether the first use of a model deploys it. */
export function deploysItself({ deploy_setting: own }: JsonObject, settings: Pick<Settings, 'text'>): boolean {
  const allowed = isJsonObject(own) ? own.is_auto_deploy_enabled : undefined;
  return allowed !== false && settings.text(AUTO_DEPLOY) !== 'false';
}

/** The deploy state of remote models: a mark in the document, set at once, since there is nothing to load. */
export function createDeployment({ documents, connectors, settings, now }: DeploymentDeps): Deployment {
  const limiter = createModelRateLimiter({ now });

  async function load(id: string): Promise<StoredDocument> {
    const stored = await documents.get('model', id);
    if (stored === undefined) throw new MODEL_NOT_FOUND(id);
    return stored;
  }

  async function deploy(id: string): Promise<void> {
    const marks = { model_state: 'DEPLOYED', last_deployed_time: now() };
    const { result } = await documents.update('model', id, ({ body }) => modelContent({ ...body, ...marks }));
    if (result === 'not_found') throw new MODEL_NOT_FOUND(id);
  }

  async function open(id: string): Promise<OpenModel> {
    const { body, version } = await load(id);
    if (body.is_enabled === false) throw new SWITCHED_OFF('Model is disabled.');
    if (!isDeployed(body)) {
      if (!deploysItself(body, settings)) {
        throw new INVALID_ARGUMENT(
          `Model not ready yet. Please run this first: POST /_plugins/_ml/models/${id}/_deploy`,
        );
      }
      await deploy(id);
    }
    limiter.take(id, body.rate_limiter);
    const connector = isJsonObject(body.connector)
      ? connectors.inline(inlineOwner(id), body.connector, version)
      : await connectors.load(String(body.connector_id));
    return { id, name: String(body.name), connector };
  }

  return {
    load,
    open,
    async requireConnector(caller, { body }) {
      if (typeof body.connector_id !== 'string') return;
      connectors.requireVisible(connectorUser(caller, body), await connectors.load(body.connector_id));
    },
    deploy,
    async undeploy(id) {
      const { result } = await documents.update('model', id, ({ body }) =>
        isDeployed(body)
          ? modelContent({ ...body, model_state: 'UNDEPLOYED', last_undeployed_time: now() })
          : undefined,
      );
      return result === 'not_found' ? 'not_found' : 'undeployed';
    },
  };
}
