import { shownDocument } from '../connectors/blueprint.ts';
import { ownerId, type Viewer } from '../identity/ownership.ts';
import type { Principal } from '../identity/principal.ts';
import { isJsonObject, type JsonObject } from '../json.ts';
import type { DocumentContent, Reference, StoredDocument } from '../store/documents.ts';

/** This process as the API names it where ML Commons names the nodes of a cluster. */
export const NODE_ID = 'tenon';

/** Who put the model on its stored connector, as the document keeps it. Never shown. */
export function registrantOf(principal: Principal): JsonObject {
  return { id: ownerId(principal), backend_roles: [...principal.backendRoles], admin: principal.access.admin };
}

/** Whose right to the connector the model rests on: its registrant, as now if that is the caller; the caller if not known. */
export function connectorUser(caller: Principal, { registrant }: JsonObject): Viewer {
  if (!isJsonObject(registrant) || registrant.id === ownerId(caller)) return caller;
  const { id, backend_roles: backendRoles, admin } = registrant;
  return { id: String(id), backendRoles: backendRoles as string[], access: { admin: admin === true } };
}

/** The document of `GET /models/{id}`: what is stored, its times, and where it is deployed. */
export function shownModel({ body: stored, createdTime, lastUpdatedTime }: StoredDocument): JsonObject {
  const { registrant: _registrant, ...body } = stored;
  const deployment: JsonObject = isDeployed(body)
    ? {
        auto_redeploy_retry_times: 0,
        planning_worker_node_count: 1,
        current_worker_node_count: 1,
        planning_worker_nodes: [NODE_ID],
        deploy_to_all_nodes: true,
      }
    : {};
  return {
    ...body,
    ...(isJsonObject(body.connector) ? { connector: shownDocument(body.connector) } : {}),
    created_time: createdTime,
    last_updated_time: lastUpdatedTime,
    ...deployment,
    is_hidden: false,
  };
}

export function isDeployed(body: JsonObject): boolean {
  return body.model_state === 'DEPLOYED';
}

/** A model's row: the group and, unless it is inline, the connector it points at keep their own from being deleted. */
export function modelContent(body: JsonObject, sealed?: string | null): DocumentContent {
  const references: Reference[] = [{ kind: 'model_group', id: String(body.model_group_id) }];
  if (typeof body.connector_id === 'string') references.push({ kind: 'connector', id: body.connector_id });
  return { name: String(body.name), body, references, ...(sealed === undefined ? {} : { sealed }) };
}

/** Owner of the credential of a model's inline connector. */
export function inlineOwner(modelId: string): string {
  return `model/${modelId}`;
}
