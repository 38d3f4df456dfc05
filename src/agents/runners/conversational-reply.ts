import type { JsonObject, JsonValue } from '../../json.ts';
import type { ToolCall, Usage } from '../../llm/types.ts';
import { foldSteps, type RunStep } from '../../runs/steps.ts';
import type { Tool } from '../../tools/tool.ts';

export interface ReplyParts {
  readonly memoryId: string;
  readonly messageId: string;
  readonly modelId: string;
  readonly steps: readonly RunStep[];
  readonly tools: readonly Tool[];
  readonly verbose: boolean;
  readonly includeTokenUsage: boolean;
}

/** The body of `_execute` for a conversational agent (contract 7.2). */
export function conversationalReply(parts: ReplyParts): JsonObject {
  const { memoryId, messageId, steps } = parts;
  const head: JsonObject[] = [
    { name: 'memory_id', result: memoryId },
    { name: 'parent_interaction_id', result: messageId },
  ];
  const answer: JsonObject[] = parts.verbose
    ? stepTexts(steps).map((result) => ({ name: 'response', result }))
    : [
        {
          name: 'response',
          dataAsMap: {
            response: foldSteps(steps).final?.text ?? '',
            additional_info: additionalInfo(steps, parts.tools),
          },
        },
      ];
  const usage = parts.includeTokenUsage ? [{ name: 'token_usage', dataAsMap: tokenUsage(steps, parts.modelId) }] : [];
  return { inference_results: [{ output: [...head, ...answer, ...usage] }] };
}

/** Outputs of the tools that are marked to be shown: a text, or an array when the tool was called repeatedly. */
export function additionalInfo(steps: readonly RunStep[], tools: readonly Tool[]): JsonObject {
  const shown = new Set(tools.filter((tool) => tool.includeOutput).map((tool) => tool.spec.name));
  const outputs = new Map<string, string[]>();
  for (const { call, outcome } of foldSteps(steps).turns.flatMap((turn) => turn.calls)) {
    if (!shown.has(call.name) || outcome === undefined) continue;
    outputs.set(call.name, [...(outputs.get(call.name) ?? []), outcome.text]);
  }
  return Object.fromEntries(
    [...outputs].map(([name, texts]): [string, JsonValue] => [
      `${name}.output`,
      texts.length === 1 ? (texts[0] ?? '') : texts,
    ]),
  );
}

/** What the model said in one step, as text: its words, or the calls it asked for. */
export function stepText(text: string, toolCalls: readonly ToolCall[]): string {
  return text.trim() === '' ? JSON.stringify(toolCalls) : text;
}

function stepTexts(steps: readonly RunStep[]): string[] {
  const { turns, final } = foldSteps(steps);
  const middle = turns.flatMap(({ answer, calls }) =>
    calls.length === 0
      ? []
      : [stepText(answer.text, answer.toolCalls), ...calls.map(({ outcome }) => outcome?.text ?? '')],
  );
  return [...middle, final?.text ?? ''];
}

function tokenUsage(steps: readonly RunStep[], modelId: string): JsonObject {
  const usages = steps.flatMap((step) =>
    (step.kind === 'model_answer' || step.kind === 'final_answer') && step.usage ? [step.usage] : [],
  );
  const total = usages.reduce(
    (sum, usage) => ({
      inputTokens: sum.inputTokens + usage.inputTokens,
      outputTokens: sum.outputTokens + usage.outputTokens,
      totalTokens: sum.totalTokens + usage.totalTokens,
    }),
    { inputTokens: 0, outputTokens: 0, totalTokens: 0 },
  );
  return {
    per_turn_usage: usages.map((usage, index) => ({ turn: index + 1, model_id: modelId, ...usageDocument(usage) })),
    per_model_usage: [{ model_id: modelId, call_count: usages.length, ...usageDocument(total) }],
  };
}

function usageDocument({ inputTokens, outputTokens, totalTokens }: Usage): JsonObject {
  return { input_tokens: inputTokens, output_tokens: outputTokens, total_tokens: totalTokens };
}
