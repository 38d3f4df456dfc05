import { INVALID_ARGUMENT, MCP_DISABLED } from '../errors.ts';
import { isJsonObject, type JsonObject } from '../json.ts';
import type { Settings } from '../settings/types.ts';
import type { Reference } from '../store/documents.ts';
import { connectorIds, toolSources } from '../tools/sources.ts';
import { toolPolicy } from '../tools/tool-policy.ts';
import {
  type AgentType,
  agentType,
  checkInterface,
  checkName,
  optionalObject,
  optionalText,
  readContextManagement,
  readLlm,
  readMemory,
  readTools,
  textMap,
  withDefined,
} from './members.ts';

/** A registration that has been read: the document to store, and the `model` block that is still to be resolved. */
export interface Registration {
  readonly name: string;
  readonly type: AgentType;
  readonly document: JsonObject;
  /** Holds a credential: never stored, never logged. */
  readonly model: JsonObject | undefined;
}

type Flags = Pick<Settings, 'flag'>;

/**
 * Reads the body of a registration. What the agent refers to is not looked up.
 * @throws INVALID_ARGUMENT, WRONG_SHAPE, FORBIDDEN, MCP_DISABLED
 */
export function readRegistration(body: JsonObject, settings: Flags): Registration {
  const name = optionalText(body, 'name');
  if (name === undefined) throw new INVALID_ARGUMENT("Agent name can't be null");
  const typeText = optionalText(body, 'type');
  if (typeText === undefined) throw new INVALID_ARGUMENT("Agent type can't be null");
  const type = agentType(typeText);
  checkName(name);
  const model = optionalObject(body, 'model');
  const unified = 'plugins.ml_commons.unified_agent_api_enabled';
  if (model !== undefined && !settings.flag(unified)) {
    throw new INVALID_ARGUMENT(`Unified agent API is not enabled. To enable, please update the setting ${unified}`);
  }
  const llm = readLlm(body);
  const needsModel = type === 'conversational' || type === 'plan_execute_and_reflect';
  if (needsModel && llm === undefined && model === undefined) {
    throw new INVALID_ARGUMENT(`We need model information for the ${type} agent type`);
  }
  const memory = readMemory(body, settings);
  if (type === 'conversational_v2' && !String(memory?.type).toLowerCase().endsWith('agentic_memory')) {
    throw new INVALID_ARGUMENT(
      'V2 agents (CONVERSATIONAL_V2) require memory configuration. Give memory with type agentic_memory or remote_agentic_memory',
    );
  }
  const document = withDefined({
    name,
    type: typeText,
    description: optionalText(body, 'description'),
    llm,
    tools: readTools(body.tools),
    parameters: textMap(body, 'parameters'),
    memory,
    app_type: optionalText(body, 'app_type'),
    context_management: readContextManagement(body, type),
  });
  checkDocument(document, settings);
  return { name, type, document, model };
}

/** Lays the body of an update over a stored agent: `llm.parameters` are merged, other members replaced. */
export function readAgentUpdate(current: JsonObject, body: JsonObject, settings: Flags): JsonObject {
  const type = optionalText(body, 'type');
  if (type !== undefined && type !== current.type) throw new INVALID_ARGUMENT('Agent type cannot be updated');
  const name = optionalText(body, 'name');
  const changes = withDefined({
    name: name === undefined ? undefined : checkName(name),
    description: optionalText(body, 'description'),
    llm: body.llm === undefined || body.llm === null ? undefined : mergedLlm(current, body),
    memory: readMemory(body, settings),
    app_type: optionalText(body, 'app_type'),
    context_management: readContextManagement(body, agentType(String(current.type))),
  });
  const document = { ...current, ...changes };
  replace(document, 'tools', body.tools, readTools(body.tools));
  replace(document, 'parameters', body.parameters, textMap(body, 'parameters'));
  checkDocument(document, settings);
  return document;
}

/** A member that was given replaces the stored one, also with nothing. */
function replace(
  document: JsonObject,
  name: string,
  given: unknown,
  value: JsonObject | JsonObject[] | undefined,
): void {
  if (given === undefined || given === null) return;
  if (value === undefined) delete document[name];
  else document[name] = value;
}

function mergedLlm(current: JsonObject, body: JsonObject): JsonObject {
  const stored = isJsonObject(current.llm) ? current.llm : {};
  const given = optionalObject(body, 'llm') ?? {};
  const parameters = { ...optionalObject(stored, 'parameters'), ...textMap(given, 'parameters', 'llm.parameters') };
  const llm = readLlm({ llm: { model_id: given.model_id ?? stored.model_id ?? null, parameters } });
  return { ...stored, ...llm };
}

function checkDocument(document: JsonObject, settings: Flags): void {
  checkInterface(optionalObject(document, 'parameters'));
  toolPolicy(document);
  const sources = toolSources(document);
  if (sources.mcp.length > 0 && !settings.flag('plugins.ml_commons.mcp_connector_enabled')) throw new MCP_DISABLED();
}

/** What the agent points at, for those who ask who uses a connector or a model. */
export function referencesOf(document: JsonObject): Reference[] {
  const tools = Array.isArray(document.tools) ? document.tools.filter(isJsonObject) : [];
  const connectors = connectorIds(toolSources(document));
  const named = tools.flatMap(({ type, parameters }): Reference[] => {
    if (!isJsonObject(parameters)) return [];
    const { connector_id, model_id, agent_id } = parameters;
    if (type === 'ConnectorTool' && typeof connector_id === 'string') return [{ kind: 'connector', id: connector_id }];
    if (typeof model_id === 'string') return [{ kind: 'model', id: model_id }];
    return type === 'AgentTool' && typeof agent_id === 'string' ? [{ kind: 'agent', id: agent_id }] : [];
  });
  const modelId = isJsonObject(document.llm) ? document.llm.model_id : undefined;
  const executor = isJsonObject(document.parameters) ? document.parameters.executor_agent_id : undefined;
  return [
    ...connectors.map((id): Reference => ({ kind: 'connector', id })),
    ...(typeof modelId === 'string' ? [{ kind: 'model', id: modelId } as const] : []),
    ...(typeof executor === 'string' ? [{ kind: 'agent', id: executor } as const] : []),
    ...named,
  ];
}

/** Ids of the MCP connectors an agent names, fallbacks included, and of those that join it. */
export function mcpConnectorIds(document: JsonObject, joined: readonly string[] = []): string[] {
  return connectorIds(toolSources(document, joined));
}
