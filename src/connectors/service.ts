import { CONFLICT, CONNECTOR_NOT_FOUND, FORBIDDEN, ID_TAKEN, INVALID_ARGUMENT } from '../errors.ts';
import { ownershipOf, withOwnership } from '../identity/ownership.ts';
import { createOwnershipRules } from '../identity/ownership-rules.ts';
import type { Principal } from '../identity/principal.ts';
import { chosenId } from '../ids.ts';
import { isJsonObject, type JsonObject } from '../json.ts';
import type { EndpointPolicy, Outbound } from '../outbound/types.ts';
import type { Vault } from '../secrets/types.ts';
import type { Settings } from '../settings/types.ts';
import { UniqueViolation } from '../store/database.ts';
import type { Documents, StoredDocument } from '../store/documents.ts';
import type { Audit } from '../telemetry/audit.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Redactor } from '../telemetry/redactor.ts';
import { checkBlueprint, connectorOf, originsOf, shownDocument } from './blueprint.ts';
import { createCredentials } from './credentials.ts';
import { withDeclared } from './declared/declared-connectors.ts';
import { type DeclaredServers, declaredServers } from './declared/declared-servers.ts';
import { endpointPolicy } from './endpoint-policy.ts';
import { createExecutor } from './executor.ts';
import { ignoredHeaders } from './headers.ts';
import type { Connector, ConnectorChange, Connectors } from './types.ts';
import { type Draft, readCreate, readUpdate, refuseInlineAccess } from './validation.ts';

const REMOTE_INFERENCE = 'plugins.ml_commons.remote_inference.enabled';
const ACCESS_CONTROL = 'plugins.ml_commons.connector_access_control_enabled';
const MODEL_ACCESS_CONTROL = 'plugins.ml_commons.model_access_control_enabled';
/** An update of these alone changes nothing that a deployed model is served by. */
const SHARING = ['access_mode', 'backend_roles', 'add_all_backend_roles', 'name', 'description'];
const INVISIBLE = "You don't have permission to access this connector";
const DRY_RUN_ID = 'dryRunConnector';
const DEPLOYED = ['DEPLOYED', 'PARTIALLY_DEPLOYED', 'DEPLOYING'];
const UPDATE_ATTEMPTS = 5;
/** Of the connector inside another document, whose revision is not told: no stored one equals it. */
const UNKNOWN_REVISION = 0;

export interface ConnectorsDeps {
  readonly documents: Documents;
  readonly vault: Vault;
  readonly settings: Settings;
  readonly outbound: Outbound;
  readonly redactor: Redactor;
  readonly audit: Audit;
  /** Whether the server runs without authentication now; loopback may be reached then. */
  readonly openMode: () => boolean;
  readonly log: Logger;
  /** Of the operator's configuration files; none by default. */
  readonly declared?: DeclaredServers;
  /** Epoch milliseconds. */
  readonly now?: () => number;
}

/** Connectors: stored blueprints of requests, their credentials sealed to id and origin, and their execution. */
export function createConnectors(deps: ConnectorsDeps): Connectors {
  const { documents, settings, outbound, audit, log, now = Date.now } = deps;
  const declared = deps.declared ?? declaredServers([], deps.redactor);
  const credentials = createCredentials(deps);
  let inForce: { readonly openMode: boolean; readonly policy: EndpointPolicy } | undefined;
  const policy = (): EndpointPolicy => {
    const openMode = deps.openMode();
    if (inForce?.openMode !== openMode) inForce = { openMode, policy: endpointPolicy(settings, { openMode }) };
    return inForce.policy;
  };
  settings.onChange(() => {
    inForce = undefined;
  });
  const executor = createExecutor({ credentials, outbound, policy, log, now });
  const accessControl = () => settings.flag(ACCESS_CONTROL);
  const ownership = createOwnershipRules({ enabled: accessControl, noun: 'connector' });
  const groupOwnership = createOwnershipRules({
    enabled: () => settings.flag(MODEL_ACCESS_CONTROL),
    noun: 'model_group',
  });
  const listeners: ((id: string, change: ConnectorChange) => void | Promise<void>)[] = [];

  function taintGiven({ credential }: JsonObject): void {
    if (!isJsonObject(credential)) return;
    const scalars = Object.entries(credential).filter(([, value]) => typeof value !== 'object');
    credentials.taint(Object.fromEntries(scalars.map(([key, value]) => [key, String(value)])));
  }

  function readNew(body: JsonObject): Draft {
    taintGiven(body);
    if (!settings.flag(REMOTE_INFERENCE)) {
      throw new INVALID_ARGUMENT(
        'Remote Inference is currently disabled. To enable it, update the setting "plugins.ml_commons.remote_inference_enabled" to true.',
      );
    }
    const draft = readCreate(body);
    checkBlueprint(draft.document, draft.credential ?? {}, policy());
    return draft;
  }

  function sealedOf(connector: Connector, { credential }: Draft): { sealed?: string } {
    return credential === undefined ? {} : { sealed: credentials.seal(connector, credential) };
  }

  async function stored(id: string): Promise<StoredDocument> {
    const document = await documents.get('connector', id);
    if (document === undefined) throw new CONNECTOR_NOT_FOUND(id);
    return document;
  }

  function requireOwned(principal: Principal, verb: 'update' | 'delete', { id, body }: StoredDocument): void {
    if (ownership.owned(principal, ownershipOf(body))) return;
    throw new FORBIDDEN(`You don't have permission to ${verb} the connector, connector id: ${id}`);
  }

  async function announce(id: string, change: ConnectorChange): Promise<void> {
    const outcomes = await Promise.allSettled(listeners.map(async (listener) => listener(id, change)));
    for (const outcome of outcomes) {
      if (outcome.status === 'rejected')
        log.error({ err: outcome.reason, connectorId: id }, `after a connector was ${change}`);
    }
  }

  function warnOfIgnoredHeaders({ id, name, headers, actions }: Connector): void {
    const ignored =
      actions?.flatMap((action) => ignoredHeaders(action.headers ?? {}, 'http')) ??
      ignoredHeaders(headers ?? {}, 'mcp');
    if (ignored.length === 0) return;
    log.warn({ connectorId: id, ignored }, `connector ${name}: headers that the transport sets itself are not sent`);
  }

  /** What an update makes of a stored connector; `sealed` only when it gives a credential. */
  async function changed(before: Connector, document: JsonObject, body: JsonObject) {
    taintGiven(body);
    const draft = readUpdate(document, body);
    const after = connectorOf(before.id, draft.document, before.revision);
    const kept = draft.credential === undefined ? await credentials.open(before) : {};
    checkBlueprint(draft.document, draft.credential ?? kept, policy());
    const [from, to] = [originsOf(before).join(', '), originsOf(after).join(', ')];
    if (from !== to && Object.keys(kept).length > 0) {
      throw new INVALID_ARGUMENT(
        `This update moves the connector from ${from} to ${to} without giving credential. A credential never follows an address: give credential in the same update.`,
      );
    }
    return { name: after.name, document: draft.document, ...sealedOf(after, draft) };
  }

  /** Those of the models that the principal may see, as text; a model is shared as its group is. */
  async function namesFor(principal: Principal, models: readonly StoredDocument[]): Promise<string> {
    const groups = await Promise.all(
      models.map(({ body }) => documents.get('model_group', String(body.model_group_id))),
    );
    const seen = models.filter((_model, at) => groupOwnership.visible(principal, ownershipOf(groups[at]?.body ?? {})));
    return seen.map(({ id }) => id).join(', ');
  }

  async function modelsOf(id: string): Promise<StoredDocument[]> {
    const ids = await documents.referencing('model', { kind: 'connector', id });
    const models = await Promise.all(ids.map((model) => documents.get('model', model)));
    return models.filter((model) => model !== undefined);
  }

  async function refuseDeployed(principal: Principal, id: string): Promise<void> {
    const deployed = (await modelsOf(id)).filter(({ body }) => DEPLOYED.includes(String(body.model_state)));
    if (deployed.length === 0) return;
    throw new INVALID_ARGUMENT(
      `${deployed.length} models are still using this connector, please undeploy the models first: [${await namesFor(principal, deployed)}]`,
    );
  }

  async function record(principal: Principal, action: string, connectorId: string): Promise<void> {
    await audit.record({ principal: principal.id, action, outcome: 'ok', connectorId });
  }

  async function create(principal: Principal, body: JsonObject): Promise<{ connector_id: string }> {
    const read = readNew(body);
    const draft = { ...read, document: withOwnership(read.document, ownership.forNew(principal, body)) };
    const id = chosenId('connector', body.connector_id);
    const isTaken = declared.find(id) !== undefined || (await documents.get('connector', id)) !== undefined;
    if (isTaken) throw new ID_TAKEN('connector', id);
    if (body.dry_run === true || body.dry_run === 'true') return { connector_id: DRY_RUN_ID };
    const connector = connectorOf(id, draft.document, 1);
    try {
      await documents.insert('connector', id, {
        name: connector.name,
        body: draft.document,
        ...sealedOf(connector, draft),
      });
    } catch (error) {
      if (error instanceof UniqueViolation) throw new ID_TAKEN('connector', id);
      throw error;
    }
    warnOfIgnoredHeaders(connector);
    await announce(id, 'created');
    await record(principal, 'connector.create', id);
    return { connector_id: id };
  }

  const connectors: Omit<Connectors, 'localServer' | 'joinedTo' | 'joinsAgents'> = {
    ...executor,
    create,
    get: async (principal, id) => {
      const { body, createdTime, lastUpdatedTime } = await stored(id);
      const kept = ownershipOf(body);
      if (!ownership.visible(principal, kept)) throw new FORBIDDEN(INVISIBLE);
      const document = withOwnership(shownDocument(body), {});
      return { ...document, ...ownership.shown(kept), created_time: createdTime, last_updated_time: lastUpdatedTime };
    },
    visible: (principal, connector) => ownership.visible(principal, connector.ownership ?? {}),
    requireVisible: (principal, connector) => {
      if (!ownership.visible(principal, connector.ownership ?? {})) throw new FORBIDDEN(INVISIBLE);
    },
    requireOwned: (principal, verb, { id, ownership: kept = {} }) => {
      if (ownership.owned(principal, kept)) return;
      throw new FORBIDDEN(`You don't have permission to ${verb} the connector, connector id: ${id}`);
    },
    update: async (principal, id, body) => {
      for (let attempt = 0; attempt < UPDATE_ATTEMPTS; attempt += 1) {
        const current = await stored(id);
        requireOwned(principal, 'update', current);
        const before = connectorOf(id, current.body, current.seqNo);
        const { document: read, ...content } = await changed(before, current.body, body);
        const document = withOwnership(read, ownership.forUpdate(principal, ownershipOf(current.body), body));
        if (!Object.keys(body).every((name) => SHARING.includes(name))) await refuseDeployed(principal, id);
        let isCurrent = true;
        const outcome = await documents.update('connector', id, ({ seqNo }) => {
          isCurrent = seqNo === current.seqNo;
          return isCurrent ? { ...content, body: document } : undefined;
        });
        if (outcome.result === 'not_found') throw new CONNECTOR_NOT_FOUND(id);
        if (!isCurrent) continue;
        warnOfIgnoredHeaders(connectorOf(id, document, outcome.seqNo));
        await announce(id, 'updated');
        await record(principal, 'connector.update', id);
        return outcome;
      }
      throw new CONFLICT(`Connector ${id} is being changed by others. Send the update again.`);
    },
    delete: async (principal, id) => {
      if (accessControl()) requireOwned(principal, 'delete', await stored(id));
      const models = await modelsOf(id);
      if (models.length > 0) {
        throw new CONFLICT(
          `${models.length} models are still using this connector, please delete or update the models first: [${await namesFor(principal, models)}]`,
        );
      }
      const outcome = await documents.delete('connector', id);
      if (outcome.result === 'not_found') return outcome;
      await announce(id, 'deleted');
      await record(principal, 'connector.delete', id);
      return outcome;
    },
    load: async (id) => {
      const { body, seqNo } = await stored(id);
      return connectorOf(id, body, seqNo);
    },
    find: async (id) => {
      const document = await documents.get('connector', id);
      return document && connectorOf(id, document.body, document.seqNo);
    },
    list: async () => {
      const all = await documents.list('connector');
      return all.map(({ id, body, seqNo }) => connectorOf(id, body, seqNo));
    },
    prepareInline: async (owner, body, current) => {
      refuseInlineAccess(body, accessControl());
      if (current !== undefined) {
        const { document, sealed } = await changed(connectorOf(owner, current, UNKNOWN_REVISION), current, body);
        return { document, sealed };
      }
      const draft = readNew(body);
      const { sealed } = sealedOf(connectorOf(owner, draft.document, 1), draft);
      return { document: draft.document, sealed };
    },
    inline: (owner, document, revision) => connectorOf(owner, document, revision),
    onChange: (listener) => {
      listeners.push(listener);
    },
  };
  return withDeclared(connectors, { declared, policy, audit });
}
