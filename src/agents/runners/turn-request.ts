import { isJsonObject, type JsonObject, parameterTexts } from '../../json.ts';
import type { Message } from '../../llm/types.ts';
import type { RunRow } from '../../store/runs.ts';
import type { AgentInput } from '../input.ts';

/** What is stored of a request, enough for another process to go on with its run. */
export function storedRequest(
  question: string,
  { parameters, earlier }: AgentInput,
  passesHeaders: boolean,
): JsonObject {
  return {
    question,
    parameters: { ...parameters },
    ...(earlier.length === 0 ? {} : { earlier: earlier as unknown as JsonObject[] }),
    ...(passesHeaders ? { passes_headers: true } : {}),
  };
}

/** The request of a run as it was stored. */
export function requestOf({ request, memoryId }: RunRow): { input: AgentInput; passesHeaders: boolean } {
  const parameters = isJsonObject(request.parameters) ? parameterTexts(request.parameters) : {};
  const { regenerate_interaction_id: again } = parameters;
  const input = {
    question: typeof request.question === 'string' ? request.question : '',
    earlier: Array.isArray(request.earlier) ? (request.earlier as unknown as Message[]) : [],
    parameters,
    ...(memoryId === undefined ? {} : { memoryId }),
    ...(again === undefined || again.trim() === '' ? {} : { regenerateInteractionId: again }),
  };
  return { input, passesHeaders: request.passes_headers === true };
}
