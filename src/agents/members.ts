import { INVALID_ARGUMENT, SWITCHED_OFF, WRONG_SHAPE } from '../errors.ts';
import { isJsonObject, type JsonObject, type JsonValue, parameterText } from '../json.ts';
import type { Settings } from '../settings/types.ts';

/** Documented agent types, in the spelling the rooms compare with. */
const AGENT_TYPES = [
  'flow',
  'conversational_flow',
  'conversational',
  'plan_execute_and_reflect',
  'ag_ui',
  'conversational_v2',
] as const;
export type AgentType = (typeof AGENT_TYPES)[number];

const MEMORY_TYPES = ['conversation_index', 'agentic_memory', 'remote_agentic_memory'];
const INTERFACES = [
  'openai/v1/chat/completions',
  'bedrock/converse/claude',
  'bedrock/converse/deepseek_r1',
  'gemini/v1beta/generatecontent',
];
const LONGEST_NAME = 128;

/** Absent and null are the same. @throws WRONG_SHAPE */
export function optionalText(body: JsonObject, name: string): string | undefined {
  const value = body[name] ?? undefined;
  if (value === undefined || typeof value === 'string') return value;
  throw new WRONG_SHAPE(`[${name}] must be a string`);
}

/** Absent and null are the same. @throws WRONG_SHAPE */
export function optionalObject(body: JsonObject, name: string, shownAs = name): JsonObject | undefined {
  const value = body[name] ?? undefined;
  if (value === undefined || isJsonObject(value)) return value;
  throw new WRONG_SHAPE(`[${shownAs}] must be an object`);
}

/** A parameters map as it is kept: texts, without members that are null; `undefined` when nothing is in it. */
export function textMap(body: JsonObject, name: string, shownAs = name): JsonObject | undefined {
  const entries = Object.entries(optionalObject(body, name, shownAs) ?? {}).filter(([, value]) => value !== null);
  if (entries.length === 0) return undefined;
  return Object.fromEntries(entries.map(([key, value]) => [key, parameterText(value)]));
}

/** @throws INVALID_ARGUMENT */
export function checkName(name: string): string {
  if (name.trim() !== '' && name.length <= LONGEST_NAME) return name;
  throw new INVALID_ARGUMENT(`Agent name cannot be empty or exceed max length of ${LONGEST_NAME} characters`);
}

/** The agent type a text names, in any case. @throws INVALID_ARGUMENT */
export function agentType(text: string): AgentType {
  const type = AGENT_TYPES.find((known) => known === text.toLowerCase());
  if (type === undefined) throw new INVALID_ARGUMENT('Invalid Agent Type');
  return type;
}

/** `tools` as they are kept; `undefined` when there are none. @throws WRONG_SHAPE, INVALID_ARGUMENT */
export function readTools(value: JsonValue | undefined): JsonObject[] | undefined {
  if (value === undefined || value === null) return undefined;
  if (!Array.isArray(value)) throw new WRONG_SHAPE('[tools] must be an array');
  const tools = value.map(readTool);
  const names = tools.filter((tool) => tool.type !== 'MCPTool').map((tool) => String(tool.name ?? tool.type));
  if (new Set(names).size !== names.length) {
    throw new INVALID_ARGUMENT('Duplicate tool defined in agent configuration');
  }
  return tools.length === 0 ? undefined : tools;
}

function readTool(value: JsonValue, index: number): JsonObject {
  const where = `tools[${index}]`;
  if (!isJsonObject(value)) throw new WRONG_SHAPE(`[${where}] must be an object`);
  const type = optionalText(value, 'type');
  if (type === undefined || type.trim() === '') throw new INVALID_ARGUMENT(`tool type is null: ${where} needs a type`);
  const included = value.include_output_in_agent_response ?? false;
  if (typeof included !== 'boolean') {
    throw new WRONG_SHAPE(`[${where}.include_output_in_agent_response] must be true or false`);
  }
  return withDefined({
    type,
    name: optionalText(value, 'name'),
    description: optionalText(value, 'description'),
    parameters: textMap(value, 'parameters', `${where}.parameters`),
    attributes: textMap(value, 'attributes', `${where}.attributes`),
    include_output_in_agent_response: included,
    config: textMap(value, 'config', `${where}.config`),
  });
}

/** `llm` as it is kept. @throws INVALID_ARGUMENT when it names no model */
export function readLlm(body: JsonObject): { model_id: string; parameters?: JsonObject } | undefined {
  const llm = optionalObject(body, 'llm');
  if (llm === undefined) return undefined;
  const modelId = optionalText(llm, 'model_id');
  if (modelId === undefined || modelId.trim() === '') {
    throw new INVALID_ARGUMENT('llm.model_id is missing: name the model the agent asks');
  }
  const parameters = textMap(llm, 'parameters', 'llm.parameters');
  return { model_id: modelId, ...(parameters === undefined ? {} : { parameters }) };
}

/** `memory` as it is kept. @throws INVALID_ARGUMENT for a type nobody documents, SWITCHED_OFF for one that is off */
export function readMemory(body: JsonObject, settings: Pick<Settings, 'flag'>): JsonObject | undefined {
  const memory = optionalObject(body, 'memory');
  if (memory === undefined) return undefined;
  const type = optionalText(memory, 'type');
  if (type === undefined || !MEMORY_TYPES.includes(type.toLowerCase())) {
    throw new INVALID_ARGUMENT(`memory.type must be one of ${MEMORY_TYPES.join(', ')}`);
  }
  const setting = 'plugins.ml_commons.remote_agentic_memory_enabled';
  if (type.toLowerCase() === 'remote_agentic_memory' && !settings.flag(setting)) {
    throw new SWITCHED_OFF(`Remote agentic memory is not enabled. To enable, please update the setting ${setting}`);
  }
  const size = memory.window_size ?? undefined;
  if (size !== undefined && !(typeof size === 'number' && Number.isSafeInteger(size) && size >= 0)) {
    throw new INVALID_ARGUMENT('memory.window_size must be a whole number');
  }
  return withDefined({
    type,
    window_size: size,
    session_id: optionalText(memory, 'session_id'),
    memory_container_id: optionalText(memory, 'memory_container_id'),
  });
}

/** @throws INVALID_ARGUMENT */
export function checkInterface(parameters: JsonObject | undefined): void {
  const value = parameters?._llm_interface;
  if (value === undefined) return;
  if (String(value).trim() === '') throw new INVALID_ARGUMENT('_llm_interface cannot be blank or empty');
  if (!INTERFACES.includes(String(value).toLowerCase())) throw new INVALID_ARGUMENT('Invalid _llm_interface');
}

/** Context management: one of a template's name (no template can be stored yet) and an inline object. */
export function readContextManagement(body: JsonObject, type: AgentType): JsonObject | undefined {
  const name = optionalText(body, 'context_management_name');
  const inline = optionalObject(body, 'context_management');
  if (name === undefined && inline === undefined) return undefined;
  if (name !== undefined && inline !== undefined) {
    throw new INVALID_ARGUMENT('Cannot specify both context_management_name and context_management');
  }
  if (type === 'conversational_v2') {
    throw new INVALID_ARGUMENT('V2 agents (CONVERSATIONAL_V2) do not support context management');
  }
  if (name !== undefined) throw new INVALID_ARGUMENT(`Context management template not found: ${name}`);
  return inline;
}

/** The members that have a value. */
export function withDefined(members: Readonly<Record<string, JsonValue | undefined>>): JsonObject {
  return Object.fromEntries(
    Object.entries(members).filter((entry): entry is [string, JsonValue] => entry[1] !== undefined),
  );
}
