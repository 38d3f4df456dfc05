import { passedHeaders } from '../connectors/passthrough.ts';
import type { Connectors } from '../connectors/types.ts';
import { AGENT_NOT_FOUND, FEATURE_DISABLED, ID_TAKEN, INVALID_ARGUMENT, NOT_FOUND } from '../errors.ts';
import type { Principal } from '../identity/principal.ts';
import { chosenId, newId } from '../ids.ts';
import { isJsonObject, type JsonObject } from '../json.ts';
import type { McpSessions } from '../mcp/types.ts';
import { registerFromAgent } from '../models/agent-model.ts';
import type { Models } from '../models/service.ts';
import type { Settings } from '../settings/types.ts';
import { UniqueViolation } from '../store/database.ts';
import type { Documents, StoredDocument, WriteOutcome } from '../store/documents.ts';
import type { McpToolStore } from '../store/mcp-tools.ts';
import type { Audit } from '../telemetry/audit.ts';
import { createArgumentChecker } from '../tools/arguments.ts';
import type { ToolRegistry } from '../tools/registry.ts';
import { type BackgroundDeps, type BackgroundRuns, createBackgroundRuns } from './background.ts';
import { agentConnections } from './connections.ts';
import { mcpConnectorIds, type Registration, readAgentUpdate, readRegistration, referencesOf } from './document.ts';
import { readInput } from './input.ts';
import { agentType, withDefined } from './members.ts';
import { runConversationalTurn } from './runners/conversational.ts';
import type { TurnResult } from './runners/turn.ts';
import { createStandings } from './standing.ts';

export interface Agents {
  /** @throws INVALID_ARGUMENT, ID_TAKEN, FEATURE_DISABLED, MCP_DISABLED */
  register(principal: Principal, body: JsonObject): Promise<{ agent_id: string }>;
  /** The document, with `mcp_connections` for an agent that names MCP connectors. @throws AGENT_NOT_FOUND */
  get(principal: Principal, id: string, options: { probe: boolean }): Promise<JsonObject>;
  update(principal: Principal, id: string, body: JsonObject): Promise<WriteOutcome>;
  delete(principal: Principal, id: string): Promise<WriteOutcome>;
  /**
   * Answers one question, within the limits of the caller and of the agent. `callerHeaders` are the caller's own header
   * fields, for connectors that name them.
   * @throws AGENT_NOT_FOUND, INVALID_ARGUMENT, LIMIT_EXCEEDED, what the run throws
   */
  execute(
    principal: Principal,
    id: string,
    body: JsonObject,
    signal: AbortSignal,
    callerHeaders?: Readonly<Record<string, string>>,
  ): Promise<TurnResult>;
  /** The same in the background, attended: answers the body of contract 7.3 as soon as the run and its task are stored. */
  executeAsync(
    principal: Principal,
    id: string,
    body: JsonObject,
    callerHeaders?: Readonly<Record<string, string>>,
  ): Promise<JsonObject>;
  readonly background: Pick<BackgroundRuns, 'resume' | 'suspend'>;
}

export interface AgentsDeps extends Omit<BackgroundDeps, 'registry' | 'checker'> {
  readonly documents: Documents;
  readonly models: Pick<Models, 'register' | 'requireVisible'>;
  readonly connectors: Pick<Connectors, 'find' | 'visible' | 'requireVisible' | 'joinedTo'>;
  readonly registry: ToolRegistry;
  readonly sessions: Pick<McpSessions, 'report' | 'reset'>;
  readonly mcpTools: Pick<McpToolStore, 'deleteNames'>;
  readonly settings: Pick<Settings, 'flag'>;
  readonly audit: Audit;
}

const FRAMEWORK = 'plugins.ml_commons.agent_framework_enabled';

/** Agents: their records, how their connectors are doing, and their runs. */
export function createAgents(deps: AgentsDeps): Agents {
  const { documents, settings, sessions, mcpTools, audit, log } = deps;
  const checker = createArgumentChecker();
  const standings = createStandings({ principalOf: deps.principalOf, agentFor });

  function requireFramework(): void {
    if (settings.flag(FRAMEWORK)) return;
    throw new FEATURE_DISABLED(
      `Agent Framework is currently disabled. To enable it, update the setting "${FRAMEWORK}" to true.`,
    );
  }

  async function load(id: string): Promise<StoredDocument> {
    const stored = await documents.get('agent', id);
    if (stored === undefined) throw new AGENT_NOT_FOUND(id);
    return stored;
  }

  async function insert(principal: Principal, id: string, document: JsonObject): Promise<void> {
    const name = String(document.name);
    try {
      await documents.insert('agent', id, { name, body: document, references: referencesOf(document) });
    } catch (error) {
      if (error instanceof UniqueViolation) throw new ID_TAKEN('agent', id);
      throw error;
    }
    await pinTools(id, document);
    await audit.record({ principal: principal.id, action: 'agent.create', outcome: 'ok', agentId: id });
  }

  /** The record is stored whatever becomes of its pins: a run pins what it meets first. */
  async function pinTools(id: string, document: JsonObject, before?: JsonObject): Promise<void> {
    try {
      await deps.registry.pin(id, document, before);
    } catch (error) {
      log.warn({ err: error, agentId: id }, 'MCP tools of the agent were not pinned');
    }
  }

  /** The `model` block becomes a stored model: the agent keeps its id and never the credential. */
  async function withModel(principal: Principal, registration: Registration): Promise<JsonObject> {
    const { name, document, model } = registration;
    if (model === undefined) return document;
    const made = await registerFromAgent(deps.models, { principal, agentName: name, model });
    const llm = isJsonObject(document.llm) ? document.llm : {};
    const own = isJsonObject(llm.parameters) ? llm.parameters : {};
    const shown = withDefined({ model_id: model.model_id, model_provider: model.model_provider });
    const given = isJsonObject(document.parameters) ? document.parameters : {};
    return {
      ...document,
      llm: { model_id: made.modelId, parameters: { ...made.parameters, ...own } },
      model: shown,
      parameters: { _llm_interface: made.llmInterface, ...given },
    };
  }

  /** An agent is there for all; its model may not be. @throws FORBIDDEN */
  async function requireModel(principal: Principal, { llm }: JsonObject): Promise<void> {
    const modelId = isJsonObject(llm) ? llm.model_id : undefined;
    if (typeof modelId === 'string') await deps.models.requireVisible(principal, modelId);
  }

  /** A plan-execute-reflect agent without an executor gets one of its own. */
  async function withExecutor(principal: Principal, type: string, document: JsonObject): Promise<JsonObject> {
    const parameters = isJsonObject(document.parameters) ? document.parameters : {};
    if (type !== 'plan_execute_and_reflect' || parameters.executor_agent_id !== undefined) return document;
    const id = newId();
    const name = `${String(document.name).slice(0, 120)} (ReAct)`;
    await insert(principal, id, { ...document, name, type: 'conversational' });
    return { ...document, parameters: { ...parameters, executor_agent_id: id } };
  }

  /** Sessions that served this agent only are closed, but of connectors that are not the caller's to see, or declared. */
  async function releaseSessions(
    principal: Principal,
    agentId: string,
    connectorIds: readonly string[],
    cause: string,
  ): Promise<void> {
    for (const connectorId of connectorIds) {
      try {
        const connector = await deps.connectors.find(connectorId);
        if (connector !== undefined && !deps.connectors.visible(principal, connector)) continue;
        if (connector?.declared !== undefined) continue;
        const users = await documents.referencing('agent', { kind: 'connector', id: connectorId });
        if (users.length === 0) await sessions.reset(connectorId, cause);
      } catch (error) {
        log.warn({ err: error, agentId, connectorId }, 'MCP session was not closed');
      }
    }
  }

  /** The document of an agent that can be run. */
  async function agentFor(principal: Principal, id: string): Promise<JsonObject> {
    const { body: agent } = await load(id);
    const type = agentType(String(agent.type));
    if (type !== 'conversational') {
      throw new INVALID_ARGUMENT(
        `Agents of type ${String(agent.type)} are not served yet: they can be registered, not executed. Use type conversational`,
      );
    }
    await requireModel(principal, agent);
    return agent;
  }

  async function turnOf(
    principal: Principal,
    agentId: string,
    body: JsonObject,
    callerHeaders: Readonly<Record<string, string>> | undefined,
  ) {
    const agent = await agentFor(principal, agentId);
    const input = readInput(body, settings);
    const renewed = () => standings.renewed(principal, agentId);
    return { principal, agentId, agent, input, renewed, ...(callerHeaders && { callerHeaders }) };
  }

  /** Whether a connector of the agent is given header fields of this caller. */
  async function passesHeaders(id: string, agent: JsonObject, sent: Readonly<Record<string, string>> = {}) {
    const ids = mcpConnectorIds(agent, deps.connectors.joinedTo({ id, name: String(agent.name) }));
    const connectors = await Promise.all(ids.map((connectorId) => deps.connectors.find(connectorId)));
    return connectors.some((found) => found !== undefined && Object.keys(passedHeaders(found, sent)).length > 0);
  }

  const background = createBackgroundRuns({ ...deps, checker }, standings);

  return {
    async register(principal, body) {
      requireFramework();
      const id = chosenId('agent', body.agent_id);
      const registration = readRegistration(body, settings);
      if (body.agent_id !== undefined && (await documents.get('agent', id))) throw new ID_TAKEN('agent', id);
      const complete = await withModel(principal, registration);
      await insert(principal, id, await withExecutor(principal, registration.type, complete));
      return { agent_id: id };
    },

    async get(principal, id, { probe }) {
      requireFramework();
      const { body, createdTime, lastUpdatedTime } = await load(id);
      const document: JsonObject = {
        ...body,
        created_time: createdTime,
        last_updated_time: lastUpdatedTime,
        is_hidden: false,
      };
      const connectorIds = mcpConnectorIds(body, deps.connectors.joinedTo({ id, name: String(body.name) }));
      if (connectorIds.length === 0) return document;
      const connections = await agentConnections(principal, id, body, probe, deps, connectorIds);
      return { ...document, mcp_connections: connections as unknown as JsonObject[] };
    },

    async update(principal, id, body) {
      requireFramework();
      let released: string[] = [];
      let documentOf: { readonly now: JsonObject; readonly before: JsonObject } | undefined;
      const outcome = await documents.update('agent', id, (current) => {
        const document = readAgentUpdate(current.body, body, settings);
        documentOf = { now: document, before: current.body };
        const named = new Set(mcpConnectorIds(document));
        released = mcpConnectorIds(current.body).filter((connectorId) => !named.has(connectorId));
        return { name: String(document.name), body: document, references: referencesOf(document) };
      });
      if (outcome.result === 'not_found') throw new NOT_FOUND(`Failed to get agent with ID ${id}`);
      // The names of their tools stay taken: another tool under one of them would be meant by rules that were not written for it.
      await releaseSessions(principal, id, released, `agent ${id} no longer names this connector`);
      if (documentOf !== undefined) await pinTools(id, documentOf.now, documentOf.before);
      await audit.record({ principal: principal.id, action: 'agent.update', outcome: 'ok', agentId: id });
      return outcome;
    },

    async delete(principal, id) {
      requireFramework();
      const stored = await documents.get('agent', id);
      const outcome = stored && (await documents.delete('agent', id));
      if (outcome === undefined || outcome.result === 'not_found') throw new NOT_FOUND('Fail to find ml agent');
      await mcpTools.deleteNames(id);
      await deps.registry.unpin(id);
      await releaseSessions(principal, id, mcpConnectorIds(stored?.body ?? {}), `agent ${id} was deleted`);
      await audit.record({ principal: principal.id, action: 'agent.delete', outcome: 'ok', agentId: id });
      return outcome;
    },

    async execute(principal, id, body, signal, callerHeaders) {
      requireFramework();
      const turn = await turnOf(principal, id, body, callerHeaders);
      const work = () => runConversationalTurn({ ...turn, signal }, { ...deps, checker });
      return deps.limits.execution(principal, id, work);
    },

    async executeAsync(principal, id, body, callerHeaders) {
      requireFramework();
      const turn = await turnOf(principal, id, body, callerHeaders);
      return background.start(turn, { passesHeaders: await passesHeaders(id, turn.agent, callerHeaders) });
    },

    background,
  };
}
