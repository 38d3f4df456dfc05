import type { People } from '../../src/agents/call-requests.ts';
import { driveRun, type LoopEvent } from '../../src/agents/loop.ts';
import type { LoopLimits } from '../../src/agents/next-action.ts';
import { runToolCalls } from '../../src/agents/tool-calls.ts';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import type { JsonObject } from '../../src/json.ts';
import type { ModelAnswer, ToolCall } from '../../src/llm/types.ts';
import type { FinalAnswerStep, ModelAnswerStep, RunStep } from '../../src/runs/steps.ts';
import { createArgumentChecker } from '../../src/tools/arguments.ts';
import type { Tool, ToolContext, ToolResult } from '../../src/tools/tool.ts';
import { type ScriptedModel, scriptedModel } from '../support/scripted-model.ts';

export const LIMITS: LoopLimits = { maxIterations: 10, maxFaultyAnswers: 3 };

export const ECHO_SCHEMA: JsonObject = {
  type: 'object',
  properties: { text: { type: 'string' } },
  required: ['text'],
};

/** A tool that answers with its arguments, or as the test says; `ran` collects the arguments it ran with. */
export function fakeTool(
  name: string,
  options: {
    run?: (argumentsText: string, context: ToolContext) => Promise<ToolResult>;
    repeatable?: boolean;
    schema?: JsonObject;
    includeOutput?: boolean;
    permission?: Tool['permission'];
    source?: { connectorId: string; tool: string };
  } = {},
): Tool & { readonly ran: string[] } {
  const ran: string[] = [];
  return {
    ran,
    spec: { name, description: `does ${name}`, inputSchema: options.schema ?? { type: 'object', properties: {} } },
    type: 'McpStreamableHttpTool',
    repeatable: options.repeatable ?? false,
    includeOutput: options.includeOutput ?? false,
    permission: options.permission ?? 'allow',
    ...(options.source ? { source: options.source } : {}),
    async execute(argumentsText, context) {
      ran.push(argumentsText);
      return options.run
        ? options.run(argumentsText, context)
        : { text: `${name} got ${argumentsText}`, isError: false, outcome: 'ok' };
    },
  };
}

export function call(name: string, argumentsText = '{}', id = `id-${name}`): ToolCall {
  return { id, name, arguments: argumentsText };
}

export function answer(text: string, toolCalls: ToolCall[] = [], stopReason?: ModelAnswer['stopReason']): ModelAnswer {
  const reason = stopReason ?? (toolCalls.length > 0 ? 'tool_calls' : 'stop');
  return { text, toolCalls, stopReason: reason, wireStopReason: reason };
}

export function answered(
  text: string,
  toolCalls: ToolCall[] = [],
  stopReason?: ModelAnswer['stopReason'],
): ModelAnswerStep {
  const { wireStopReason: _wire, ...rest } = answer(text, toolCalls, stopReason);
  return { kind: 'model_answer', ...rest };
}

export interface Played {
  readonly final: FinalAnswerStep | undefined;
  readonly error: unknown;
  readonly steps: RunStep[];
  readonly events: LoopEvent[];
  readonly model: ScriptedModel;
}

/** Drives a whole run in memory. */
export async function play(
  script: Parameters<typeof scriptedModel>,
  tools: readonly Tool[] = [],
  options: {
    limits?: Partial<LoopLimits>;
    recorded?: readonly RunStep[];
    signal?: AbortSignal;
    concurrency?: number;
    resultLimit?: number;
    append?: (step: RunStep) => Promise<void>;
    people?: People;
  } = {},
): Promise<Played> {
  const model = scriptedModel(...script);
  const steps: RunStep[] = [];
  const events: LoopEvent[] = [];
  const signal = options.signal ?? new AbortController().signal;
  const checker = createArgumentChecker();
  const limits = { ...LIMITS, ...options.limits };
  const outcome = await driveRun(options.recorded ?? [], {
    limits,
    signal,
    async append(step) {
      await options.append?.(step);
      steps.push(step);
    },
    emit: (event) => void events.push(event),
    model: (interactions, offer) =>
      model.stream(
        'model',
        undefined,
        {
          history: [],
          question: 'q',
          interactions,
          tools: offer.tools ? tools.map((tool) => tool.spec) : [],
          parameters: {},
        },
        signal,
      ),
    runCalls: (turn, calls, record) =>
      runToolCalls(turn, calls, {
        tools,
        checker,
        context: { principal: OPEN_PRINCIPAL, agentId: 'agent', runId: 'run', signal },
        concurrency: options.concurrency ?? 8,
        resultLimit: options.resultLimit ?? 100_000,
        record,
        ...(options.people && { people: options.people }),
      }),
  }).then(
    (final) => ({ final, error: undefined }),
    (error: unknown) => ({ final: undefined, error }),
  );
  return { ...outcome, steps, events, model };
}
