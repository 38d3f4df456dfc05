import type { ToolCall } from '../llm/types.ts';
import type { NotRunCause, RunCall, ToolIntentStep, ToolOutcomeStep } from '../runs/steps.ts';
import type { ArgumentChecker } from '../tools/arguments.ts';
import type { Tool, ToolContext, ToolResult } from '../tools/tool.ts';
import { cut, wellFormed } from './text.ts';

export interface ToolCallOptions {
  readonly tools: readonly Tool[];
  readonly checker: ArgumentChecker;
  readonly context: ToolContext;
  /** Calls of one model answer that run at the same time; 1 runs them one after another. */
  readonly concurrency: number;
  /** Characters of a result that reach the model. */
  readonly resultLimit: number;
  /** Commits a step; a call leaves only after its intent is committed. */
  readonly record: (step: ToolIntentStep | ToolOutcomeStep) => Promise<void>;
}

type Prepared =
  | { readonly tool: Tool; readonly argumentsText: string }
  | { readonly refused: NotRunCause; readonly text: string };

const SHOWN_SCHEMA = 4000;

/**
 * Runs the calls of one model answer: each is prepared, executed and finalized, and has exactly one outcome recorded,
 * whatever happens to it or to the others. A tool's failure is an outcome.
 * @throws what `record` throws, after every call under way has ended.
 */
export async function runToolCalls(turn: number, calls: readonly RunCall[], options: ToolCallOptions): Promise<void> {
  const waiting = [...calls];
  const failures: unknown[] = [];
  async function work(): Promise<void> {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      if (failures.length > 0) return;
      try {
        await runOne(turn, next, options);
      } catch (error) {
        failures.push(error);
      }
    }
  }
  await Promise.all(Array.from({ length: Math.max(1, options.concurrency) }, work));
  if (failures.length > 0) throw failures[0];
}

async function runOne(turn: number, { call, index }: RunCall, options: ToolCallOptions): Promise<void> {
  const { context, record } = options;
  const place = { turn, index, callId: call.id, offeredName: call.name };
  const prepared = context.signal.aborted
    ? ({ refused: 'aborted', text: 'Error: not run, the request was cancelled' } as const)
    : prepare(call, options);
  if ('refused' in prepared) {
    await record(refusal(turn, index, call, prepared.refused, prepared.text));
    return;
  }
  const { tool, argumentsText } = prepared;
  const { repeatable, source } = tool;
  const from = source ? { connectorId: source.connectorId, serverTool: source.tool } : {};
  await record({ kind: 'tool_intent', ...place, ...from, argumentsText, repeatable });
  const result = finalize(await execute(tool, argumentsText, context), options.resultLimit);
  await record({ kind: 'tool_outcome', ...place, ...result, repeatable });
}

function prepare(call: ToolCall, { tools, checker }: ToolCallOptions): Prepared {
  const tool = tools.find(({ spec }) => spec.name === call.name);
  if (tool === undefined) {
    const names = tools.length === 0 ? 'none' : tools.map(({ spec }) => spec.name).join(', ');
    return { refused: 'unknown_tool', text: `Error: unknown tool ${call.name}; available: ${names}` };
  }
  const fault = checker.check(call.arguments, tool.spec.inputSchema);
  if (fault === undefined) return { tool, argumentsText: call.arguments };
  const schema = cut(JSON.stringify(tool.spec.inputSchema), SHOWN_SCHEMA);
  const said = fault.cause === 'malformed_arguments' ? 'are' : 'do not fit the schema:';
  const text = `Error: the arguments of ${call.name} ${said} ${fault.message}. Nothing was run; send the call again with a JSON object of this schema: ${schema}`;
  return { refused: fault.cause, text };
}

async function execute(tool: Tool, argumentsText: string, context: ToolContext): Promise<ToolResult> {
  try {
    return await tool.execute(argumentsText, context);
  } catch {
    const text = `the tool ${tool.spec.name} failed inside the platform`;
    return { text, isError: true, outcome: tool.repeatable ? 'error' : 'unknown' };
  }
}

function finalize(result: ToolResult, limit: number): ToolResult {
  const marked = result.isError && !/^error\b/i.test(result.text) ? `Error: ${result.text}` : result.text;
  return { ...result, text: cut(wellFormed(marked), limit) };
}

/** The outcome of a call that is answered without being run. */
export function refusal(
  turn: number,
  index: number,
  call: ToolCall,
  cause: NotRunCause,
  text: string,
): ToolOutcomeStep {
  return {
    kind: 'tool_outcome',
    turn,
    index,
    callId: call.id,
    offeredName: call.name,
    text,
    isError: true,
    outcome: 'not_run',
    cause,
    repeatable: true,
  };
}
