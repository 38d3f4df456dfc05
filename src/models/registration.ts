import type { Connectors } from '../connectors/types.ts';
import { FORBIDDEN, ID_TAKEN, INVALID_ARGUMENT } from '../errors.ts';
import type { Principal } from '../identity/principal.ts';
import { chosenId } from '../ids.ts';
import { isJsonObject, type JsonObject, parameterText } from '../json.ts';
import { UniqueViolation } from '../store/database.ts';
import type { Documents } from '../store/documents.ts';
import { inlineOwner, modelContent, registrantOf } from './document.ts';
import { modelSettings, optionalObject, optionalText } from './fields.ts';
import { requireRemote } from './function-name.ts';
import type { GroupVersions } from './groups.ts';

export interface RegistrationDeps {
  readonly documents: Documents;
  readonly connectors: ModelConnectors;
  readonly groups: GroupVersions;
  readonly now: () => number;
}

/** Checks and stores a new model; answers its id. */
export type Registration = (principal: Principal, body: JsonObject, deploy: boolean) => Promise<string>;

/** What a model needs of connectors when it is told where it is reached. */
type ModelConnectors = Pick<Connectors, 'load' | 'visible' | 'prepareInline'>;

/** Members of a model that say where it is reached, and the sealed credential of an inline connector. */
export interface ConnectorPart {
  readonly members: JsonObject;
  readonly sealed?: string | null;
}

export function createRegistration({ documents, connectors, groups, now }: RegistrationDeps): Registration {
  return async (principal, body, deploy) => {
    const name = optionalText(body, 'name');
    if (name === undefined || name.trim() === '') throw new INVALID_ARGUMENT('model name is null');
    requireRemote(body);
    const settings = modelSettings(body);
    const id = chosenId('model', body.model_id);
    const version = givenVersion(body);
    const { members, sealed } = await connectorPart(connectors, principal, id, body);
    if ((await documents.get('model', id)) !== undefined) throw new ID_TAKEN('model', id);
    const groupId = await groupOf(principal, name, body);
    const counted = await groups.nextVersion(groupId);
    const time = now();
    const model: JsonObject = {
      name,
      model_group_id: groupId,
      algorithm: 'REMOTE',
      model_version: version ?? String(counted),
      ...settings,
      model_state: deploy ? 'DEPLOYED' : 'REGISTERED',
      last_registered_time: time,
      ...(deploy ? { last_deployed_time: time } : {}),
      ...members,
    };
    try {
      await documents.insert('model', id, modelContent(model, sealed));
    } catch (error) {
      throw error instanceof UniqueViolation ? new ID_TAKEN('model', id) : error;
    }
    return id;
  };

  async function groupOf(principal: Principal, name: string, body: JsonObject): Promise<string> {
    const given = optionalText(body, 'model_group_id');
    if (given === undefined) return groups.named(principal, name, body);
    await groups.join(principal, given, body);
    return given;
  }
}

/**
 * The connector a body names or holds; `current` is the inline one that the body's updates.
 * @throws CONNECTOR_NOT_FOUND, FORBIDDEN (a connector it may not use), INVALID_ARGUMENT when there is none, both, an MCP server, or no address to predict with
 */
export async function connectorPart(
  connectors: ModelConnectors,
  principal: Principal,
  modelId: string,
  body: JsonObject,
  current?: JsonObject,
): Promise<ConnectorPart> {
  const connectorId = optionalText(body, 'connector_id');
  const inline = optionalObject(body, 'connector');
  if (connectorId !== undefined && inline !== undefined) {
    throw new INVALID_ARGUMENT('Give connector_id or connector, not both.');
  }
  if (connectorId !== undefined) {
    const connector = await connectors.load(connectorId);
    if (!connectors.visible(principal, connector)) {
      throw new FORBIDDEN(`You don't have permission to use the connector provided, connector id: ${connectorId}`);
    }
    const { protocol } = connector;
    if (protocol !== 'http') throw new INVALID_ARGUMENT(`Cannot Create a Model from MCP Connector: ${connectorId}`);
    return { members: { connector_id: connectorId, registrant: registrantOf(principal) } };
  }
  if (inline === undefined) {
    throw new INVALID_ARGUMENT('You must provide connector content when creating a remote model without connector id!');
  }
  if (typeof inline.protocol === 'string' && inline.protocol.startsWith('mcp_')) {
    throw new INVALID_ARGUMENT('Cannot Create a Model from MCP Connector: the inline connector');
  }
  const { document, sealed } = await connectors.prepareInline(inlineOwner(modelId), inline, current);
  if (!hasPredictAction(document)) {
    throw new INVALID_ARGUMENT('Connector endpoint is required when creating a remote model without connector id!');
  }
  return { members: { connector: document }, ...(sealed === undefined ? {} : { sealed }) };
}

function hasPredictAction({ actions }: JsonObject): boolean {
  return Array.isArray(actions) && actions.some((action) => isJsonObject(action) && action.action_type === 'PREDICT');
}

function givenVersion({ version }: JsonObject): string | undefined {
  if (version === undefined || version === null) return undefined;
  if (typeof version !== 'string' && typeof version !== 'number') {
    throw new INVALID_ARGUMENT('version must be a string or a number');
  }
  return parameterText(version);
}
