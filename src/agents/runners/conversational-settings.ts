import { INVALID_ARGUMENT } from '../../errors.ts';
import { isJsonObject, type JsonObject, parameterTexts } from '../../json.ts';
import { type AgentInput, countParameter, flagParameter, namesParameter } from '../input.ts';

/** How one turn of a conversational agent is run: the agent's settings with the caller's over them. */
export interface TurnSettings {
  readonly modelId: string;
  readonly llmInterface: string | undefined;
  readonly systemPrompt: string;
  readonly maxIterations: number;
  readonly historyLimit: number;
  /** Characters of a tool result that reach the model. */
  readonly resultLimit: number;
  /** `undefined`: not said, calls run side by side. */
  readonly parallelToolCalls: boolean | undefined;
  readonly selectedTools: readonly string[] | undefined;
  readonly keepTraces: boolean;
  readonly verbose: boolean;
  readonly includeTokenUsage: boolean;
  /** For the template of the model's connector. */
  readonly parameters: Readonly<Record<string, string>>;
}

const SYSTEM_PROMPT = 'You are a helpful assistant.';
const MAX_ITERATIONS = 10;
const HISTORY = 10;
const RESULT_LIMIT = 100_000;
/** What a tool result may be at most, whatever an agent says. */
const LARGEST_RESULT = 1_000_000;

/** @throws INVALID_ARGUMENT naming the parameter that cannot be used */
export function turnSettings(agent: JsonObject, input: AgentInput): TurnSettings {
  const llm = isJsonObject(agent.llm) ? agent.llm : {};
  const own = textsOf(agent.parameters);
  const texts: Record<string, string> = { ...own, ...textsOf(llm.parameters), ...input.parameters };
  const memory = isJsonObject(agent.memory) ? agent.memory : {};
  const memoryType = typeof memory.type === 'string' ? memory.type : 'conversation_index';
  if (memoryType.toLowerCase() !== 'conversation_index') {
    throw new INVALID_ARGUMENT(`Memory of type ${memoryType} is not served yet; use conversation_index`);
  }
  if (typeof llm.model_id !== 'string') {
    throw new INVALID_ARGUMENT('The agent names no model: update it with llm.model_id');
  }
  const window = typeof memory.window_size === 'number' ? memory.window_size : HISTORY;
  const systemPrompt = texts.system_prompt?.trim() ? texts.system_prompt : SYSTEM_PROMPT;
  const resultLimit = countParameter('tool_result_limit', texts.tool_result_limit, RESULT_LIMIT, 1);
  return {
    modelId: llm.model_id,
    llmInterface: own._llm_interface,
    systemPrompt,
    maxIterations: countParameter('max_iteration', texts.max_iteration, MAX_ITERATIONS, 1),
    historyLimit: countParameter('message_history_limit', texts.message_history_limit, window, 0),
    resultLimit: Math.min(resultLimit, LARGEST_RESULT),
    parallelToolCalls: texts.parallel_tool_calls === undefined ? undefined : flagParameter(texts.parallel_tool_calls),
    selectedTools: namesParameter('selected_tools', texts.selected_tools),
    keepTraces: !flagParameter(texts.disable_trace),
    verbose: flagParameter(texts.verbose),
    includeTokenUsage: flagParameter(texts.include_token_usage),
    parameters: texts,
  };
}

function textsOf(value: unknown): Record<string, string> {
  return isJsonObject(value) ? parameterTexts(value) : {};
}
