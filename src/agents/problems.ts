import { FORBIDDEN, isCatalogueError } from '../errors.ts';
import type { Principal } from '../identity/principal.ts';
import { isJsonObject, type JsonObject } from '../json.ts';
import { deploysItself } from '../models/deployment.ts';
import { isDeployed } from '../models/document.ts';
import type { Models } from '../models/service.ts';
import type { Settings } from '../settings/types.ts';
import type { Documents } from '../store/documents.ts';
import type { KnownTools } from '../tools/known-tools.ts';
import { MAX_OFFERED } from '../tools/registry.ts';
import { toolSources } from '../tools/sources.ts';
import { MCP_ENABLED, type Reason, reason } from './explain-reasons.ts';
import { agentType } from './members.ts';
import { turnSettings } from './runners/conversational-settings.ts';

/** Something that an agent refers to and that does not work, and which it is. */
export interface Problem extends Reason {
  readonly connector_id?: string;
  readonly model_id?: string;
  readonly agent_id?: string;
}

export interface AgentProblemsDeps {
  readonly documents: Pick<Documents, 'get'>;
  readonly models: Pick<Models, 'requireVisible'>;
  readonly settings: Pick<Settings, 'flag' | 'text'>;
}

/** A connector that the caller may see, with what keeps its tools from being called. */
interface SeenConnector extends KnownTools {
  readonly obstacles: readonly Reason[];
}

const SWITCHES = {
  'plugins.ml_commons.agent_framework_enabled': 'agents',
  'plugins.ml_commons.memory_feature_enabled': 'conversation memory',
  'plugins.ml_commons.remote_inference.enabled': 'remote models',
} as const;

/** Whatever of the agent's references and settings would make a run fail, or do without tools. */
export async function agentProblems(
  principal: Principal,
  agent: JsonObject,
  known: readonly KnownTools[],
  seen: readonly SeenConnector[],
  deps: AgentProblemsDeps,
): Promise<Problem[]> {
  const llm = isJsonObject(agent.llm) ? agent.llm : {};
  return [
    ...switchedOff(known, deps.settings),
    ...typeProblems(agent),
    ...(typeof llm.model_id === 'string' ? await modelProblems(principal, llm.model_id, deps) : []),
    ...(await executorProblems(agent, deps)),
    ...known.flatMap((connector) => connectorProblems(connector, seen)),
    ...tooManyTools(seen),
  ];
}

function switchedOff(known: readonly KnownTools[], settings: Pick<Settings, 'flag'>): Problem[] {
  const used = { ...SWITCHES, ...(known.length > 0 && { [MCP_ENABLED]: 'MCP connectors' }) };
  return Object.entries(used).flatMap(([name, what]) =>
    settings.flag(name)
      ? []
      : reason('feature_disabled', `The use of ${what} is switched off.`, `Set ${name} to true.`),
  );
}

function typeProblems(agent: JsonObject): Problem[] {
  const type = agentType(String(agent.type));
  if (type !== 'conversational') {
    const message = `Agents of type ${String(agent.type)} are not served yet: they can be registered, not executed.`;
    return [reason('agent_type_not_served', message, 'Use type conversational.')];
  }
  const unserved = toolSources(agent).otherTypes.map((tool) =>
    reason(
      'tool_type_not_served',
      `Nobody serves tools of type ${tool}; a run of the agent fails because of it.`,
      'Take it out of the tools of the agent; MCP servers are named by entries of type MCPTool.',
    ),
  );
  try {
    turnSettings(agent, { question: '', earlier: [], parameters: {} });
    return unserved;
  } catch (error) {
    if (!isCatalogueError(error)) throw error;
    return [...unserved, reason('settings_invalid', error.message, 'Correct it by PUT /agents/{id}.')];
  }
}

async function modelProblems(
  principal: Principal,
  modelId: string,
  { documents, models, settings }: AgentProblemsDeps,
): Promise<Problem[]> {
  const about = (code: string, message: string, remedy: string): Problem[] => [
    { ...reason(code, message, remedy), model_id: modelId },
  ];
  const stored = await documents.get('model', modelId);
  if (stored === undefined) {
    return about(
      'model_missing',
      'The model of the agent does not exist.',
      'Register it, or give the agent another llm.model_id.',
    );
  }
  try {
    await models.requireVisible(principal, modelId);
  } catch (error) {
    if (error instanceof FORBIDDEN) {
      return about(
        'model_not_visible',
        error.message,
        'Have its owner or an administrator share the model and its connector.',
      );
    }
    if (!isCatalogueError(error)) throw error;
    return about(
      'model_connector_missing',
      error.message,
      'Create the connector of the model again, or use another model.',
    );
  }
  const { body } = stored;
  if (body.is_enabled === false) {
    return about(
      'model_disabled',
      'The model is disabled.',
      `PUT /_plugins/_ml/models/${modelId} with is_enabled true.`,
    );
  }
  if (isDeployed(body) || deploysItself(body, settings)) return [];
  const remedy = `POST /_plugins/_ml/models/${modelId}/_deploy`;
  return about('model_not_deployed', 'The model is not deployed, and its first use may not deploy it.', remedy);
}

async function executorProblems(agent: JsonObject, { documents }: AgentProblemsDeps): Promise<Problem[]> {
  const parameters = isJsonObject(agent.parameters) ? agent.parameters : {};
  const { executor_agent_id: executor } = parameters;
  if (typeof executor !== 'string' || (await documents.get('agent', executor))) return [];
  const remedy = 'Register it under that id, or name another agent in executor_agent_id.';
  return [{ ...reason('executor_agent_missing', 'The executor agent does not exist.', remedy), agent_id: executor }];
}

/** Once for each connector: why none of its tools can be called, or why none is known. */
function connectorProblems({ connectorId, connector, sources }: KnownTools, seen: readonly SeenConnector[]): Problem[] {
  const required = sources.some((source) => source.required) ? ' The agent requires it: a run fails without it.' : '';
  const about = ({ code, message, remedy }: Reason): Problem => ({
    ...reason(code, `${message}${required}`, remedy),
    connector_id: connectorId,
  });
  if (connector === undefined) {
    const remedy = 'Create the connector, or update the agent so that it names another one.';
    return [about(reason('connector_missing', `There is no connector ${connectorId}.`, remedy))];
  }
  const visible = seen.find((each) => each.connectorId === connectorId);
  if (visible === undefined) {
    const message = "You don't have permission to access this connector.";
    return [about(reason('connector_not_visible', message, 'Ask its owner or an administrator to share it with you.'))];
  }
  if (visible.obstacles.length > 0) return visible.obstacles.map(about);
  if (visible.tools.length > 0) return [];
  const message = `The tools of connector "${connector.name}" (${connectorId}) are not known: it was never connected, or it has none.`;
  return [about(reason('tools_unknown', message, 'Ask again with ?probe=true.'))];
}

function tooManyTools(seen: readonly SeenConnector[]): Problem[] {
  const count = seen.reduce((sum, { offered }) => sum + offered.length, 0);
  if (count <= MAX_OFFERED) return [];
  const message = `The agent offers more tools than a model takes (${count} > ${MAX_OFFERED}): its runs are refused.`;
  const remedy = 'Name the ones that are needed with tool_filters, or with selected_tools in the request.';
  return [reason('too_many_tools', message, remedy)];
}
