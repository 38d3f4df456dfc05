import { FORBIDDEN, isCatalogueError } from '../errors.ts';
import type { Principal } from '../identity/principal.ts';
import { isJsonObject, type JsonObject } from '../json.ts';
import { deploysItself } from '../models/deployment.ts';
import { isDeployed } from '../models/document.ts';
import type { Models } from '../models/service.ts';
import type { Settings } from '../settings/types.ts';
import type { Documents } from '../store/documents.ts';
import type { ForeseenTools } from '../tools/foreseen-tools.ts';
import type { KnownTools } from '../tools/known-tools.ts';
import { MAX_OFFERED } from '../tools/plan.ts';
import { toolSources } from '../tools/sources.ts';
import { MCP_ENABLED, type Problem, type Reason, reason } from './explain-reasons.ts';
import type { SeenConnector } from './explain-tools.ts';
import { agentType } from './members.ts';
import { turnSettings } from './runners/conversational-settings.ts';

export interface AgentProblemsDeps {
  readonly documents: Pick<Documents, 'get'>;
  readonly models: Pick<Models, 'requireVisible'>;
  readonly settings: Pick<Settings, 'flag' | 'text'>;
}

/** The agent, what is known of its connectors, and what a run would find. */
interface LookedAtAgent {
  readonly principal: Principal;
  readonly agent: JsonObject;
  readonly known: readonly KnownTools[];
  /** Those that the caller may see, or that do not exist. */
  readonly seen: readonly SeenConnector[];
  readonly foreseen: ForeseenTools;
}

const SWITCHES = {
  'plugins.ml_commons.agent_framework_enabled': 'agents',
  'plugins.ml_commons.memory_feature_enabled': 'conversation memory',
} as const;

/** Whatever of the agent's references and settings would make a run fail (`blocking`), or do without tools. */
export async function agentProblems(
  { principal, agent, known, seen, foreseen }: LookedAtAgent,
  deps: AgentProblemsDeps,
): Promise<{ readonly problems: readonly Problem[]; readonly blocking: readonly Problem[] }> {
  const llm = isJsonObject(agent.llm) ? agent.llm : {};
  const mcpOff = known.length > 0 && !deps.settings.flag(MCP_ENABLED);
  const connectors = known.map((connector) => connectorProblems(connector, seen, foreseen));
  const run = [
    ...switchedOff(deps.settings),
    ...(principal.access.allows('agent:execute') ? [] : [MAY_NOT_EXECUTE]),
    ...typeProblems(agent),
    ...(typeof llm.model_id === 'string' ? await modelProblems(principal, llm.model_id, deps) : []),
  ];
  const tooMany = tooManyTools(foreseen);
  const required = known.flatMap(({ connectorId }, at) =>
    foreseen.failing.includes(connectorId) ? (connectors[at] ?? []) : [],
  );
  return {
    problems: [
      ...(mcpOff ? [switchOff(MCP_ENABLED, 'MCP connectors')] : []),
      ...run,
      ...(await executorProblems(agent, deps)),
      ...connectors.flat(),
      ...tooMany,
    ],
    blocking: [...run, ...required, ...tooMany],
  };
}

/** `selected_tools` of the agent itself; `undefined` selects all, or cannot be read. */
export function selectedTools(agent: JsonObject): readonly string[] | undefined {
  const { selected, problem } = ownSettings(agent);
  return problem === undefined ? selected : undefined;
}

function switchedOff(settings: Pick<Settings, 'flag'>): Problem[] {
  return Object.entries(SWITCHES).flatMap(([name, what]) => (settings.flag(name) ? [] : switchOff(name, what)));
}

function switchOff(name: string, what: string): Problem {
  return reason('feature_disabled', `The use of ${what} is switched off.`, `Set ${name} to true.`);
}

const MAY_NOT_EXECUTE = reason(
  'may_not_execute',
  'You need the permission agent:execute to run an agent.',
  'Have an administrator give you a role with agent:execute.',
);

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
  const { problem } = ownSettings(agent);
  return [...unserved, ...(problem === undefined ? [] : [problem])];
}

/** The settings of a run whose request brings none. */
function ownSettings(agent: JsonObject): {
  readonly selected?: readonly string[] | undefined;
  readonly problem?: Problem;
} {
  try {
    return { selected: turnSettings(agent, { question: '', earlier: [], parameters: {} }).selectedTools };
  } catch (error) {
    if (!isCatalogueError(error)) throw error;
    return { problem: reason('settings_invalid', error.message, 'Correct it by PUT /_plugins/_ml/agents/{id}.') };
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
function connectorProblems(
  { connectorId, connector }: KnownTools,
  seen: readonly SeenConnector[],
  { failing }: ForeseenTools,
): Problem[] {
  const required = failing.includes(connectorId) ? ' The agent requires it: a run fails without it.' : '';
  const about = ({ code, message, remedy }: Reason): Problem => ({
    ...reason(code, `${message}${required}`, remedy),
    connector_id: connectorId,
  });
  const visible = seen.find((each) => each.connectorId === connectorId);
  if (visible === undefined) {
    const message = "You don't have permission to access this connector.";
    return [about(reason('connector_not_visible', message, 'Ask its owner or an administrator to share it with you.'))];
  }
  if (visible.obstacles.length > 0) return visible.obstacles.map(about);
  if (visible.tools.length > 0 || (visible.report?.left_out ?? []).length > 0) return [];
  const of = `connector "${connector?.name ?? connectorId}" (${connectorId})`;
  if (!visible.unlisted) {
    const remedy = 'Ask the operator of the server; take it out of the agent if nothing is to come.';
    return [about(reason('no_tools', `The server of ${of} lists no tool.`, remedy))];
  }
  const message = `The tools of ${of} are not known yet: it was never listed, the next use lists it.`;
  return [about(reason('not_listed', message, 'Ask again with ?probe=true.'))];
}

function tooManyTools({ offered }: ForeseenTools): Problem[] {
  if (offered <= MAX_OFFERED) return [];
  const message = `The agent offers more tools than a model takes (${offered} > ${MAX_OFFERED}): its runs are refused.`;
  const remedy = 'Name the ones that are needed with tool_filters, or with selected_tools in the request.';
  return [reason('too_many_tools', message, remedy)];
}
