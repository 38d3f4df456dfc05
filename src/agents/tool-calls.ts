import type { ToolCall } from '../llm/types.ts';
import type { CallProgress, McpCall } from '../mcp/types.ts';
import { REQUEST_LIFE_MS } from '../runs/requests.ts';
import type { CallStep, NotRunCause, RunCall, ToolIntentStep, ToolOutcomeStep } from '../runs/steps.ts';
import type { ArgumentChecker } from '../tools/arguments.ts';
import type { Tool, ToolContext, ToolResult, WithheldTool } from '../tools/tool.ts';
import { askApproval, askQuestions, type CallScope, type People } from './call-requests.ts';
import { createSlots, type Slots } from './slots.ts';
import { isSuspended } from './suspension.ts';
import { cut, wellFormed } from './text.ts';

export interface ToolCallOptions {
  readonly tools: readonly Tool[];
  /** Tools that are not offered, of which the model may know all the same. */
  readonly withheld?: readonly WithheldTool[];
  readonly checker: ArgumentChecker;
  readonly context: Omit<ToolContext, 'ask' | 'resume' | 'onProgress'>;
  /**
   * Calls of one model answer that run at the same time; a call that waits for a person does not count. 1 runs them one
   * after another, waiting included.
   */
  readonly concurrency: number;
  /** Characters of a result that reach the model. */
  readonly resultLimit: number;
  /** Commits a step; a call leaves only after its intent is committed. */
  readonly record: (step: CallStep) => Promise<void>;
  /** Absent: nobody attends the run. */
  readonly people?: People;
  /** Told at most five times a second of each call. */
  readonly onProgress?: (call: ToolIntentStep, progress: CallProgress) => void;
}

type Refused = { readonly refused: NotRunCause; readonly text: string };
type Prepared = { readonly tool: Tool; readonly argumentsText: string } | Refused;

/** How calls of one answer stand to each other. */
interface Company {
  readonly slots: Slots;
  /** Ends the waiting for people; calls that left are not cut by it. */
  readonly signal: AbortSignal;
  /** Nothing more is begun: a step could not be recorded. */
  readonly failed: () => boolean;
}

const SHOWN_SCHEMA = 4000;
const PROGRESS_MS = 200;
const CANCELLED: Refused = { refused: 'aborted', text: 'Error: not run, the request was cancelled' };

/**
 * Runs the calls of one model answer: each is prepared, approved where that is needed, executed and finalized, and has
 * exactly one outcome recorded, whatever happens to it or to the others. A tool's failure is an outcome.
 * @throws what `record` throws, or why the run was suspended, after every call under way has ended.
 */
export async function runToolCalls(turn: number, calls: readonly RunCall[], options: ToolCallOptions): Promise<void> {
  const concurrency = Math.max(1, options.concurrency);
  const failures: unknown[] = [];
  const stop = new AbortController();
  const company: Company = {
    slots: createSlots(concurrency),
    signal: AbortSignal.any([options.context.signal, stop.signal]),
    failed: () => failures.length > 0,
  };
  async function attempt(call: RunCall): Promise<void> {
    if (company.failed()) return;
    try {
      await runOne(turn, call, options, company);
    } catch (error) {
      failures.push(error);
      stop.abort(error);
    }
  }
  if (concurrency === 1) for (const call of calls) await attempt(call);
  else await Promise.all(calls.map(attempt));
  if (failures.length > 0) throw failures[0];
}

async function runOne(turn: number, runCall: RunCall, options: ToolCallOptions, company: Company): Promise<void> {
  const { call, index } = runCall;
  const { context, record } = options;
  const refuse = ({ refused, text }: Refused) => record(refusal(turn, index, call, refused, text));
  const prepared = begin(context.signal) ?? prepare(call, options);
  if ('refused' in prepared) return refuse(prepared);
  const { tool, argumentsText } = prepared;
  const place = { turn, index, callId: call.id };
  const { people } = options;
  const scope = people && { place, tool, argumentsText, people, record, signal: company.signal };
  const forbidden = await forbiddance(runCall, tool, scope, context.signal);
  if (forbidden !== undefined) return refuse(forbidden);
  const { round } = runCall;
  const resume =
    scope && round
      ? { paused: round.paused, answers: await askQuestions(scope, round.paused.questions, round.paused, round.asked) }
      : undefined;
  await company.slots.take();
  try {
    if (company.failed()) return;
    const cancelled = begin(context.signal);
    if (cancelled !== undefined) return await refuse(cancelled);
    const { repeatable, source } = tool;
    const from = source ? { connectorId: source.connectorId, serverTool: source.tool } : {};
    const named = { ...place, offeredName: call.name };
    const intent: ToolIntentStep = { kind: 'tool_intent', ...named, ...from, argumentsText, repeatable };
    await record(intent);
    const result = await execute(tool, argumentsText, contextOf(intent, options, scope, resume, company.slots));
    if (isSuspended(context.signal) && isUnsettled(result, repeatable)) throw context.signal.reason;
    await record({ kind: 'tool_outcome', ...named, ...finalize(result, options.resultLimit), repeatable });
  } finally {
    company.slots.give();
  }
}

/** Why a call is not begun. @throws the reason of a suspension: the call is made when the run goes on */
function begin(signal: AbortSignal): Refused | undefined {
  if (isSuspended(signal)) throw signal.reason;
  return signal.aborted ? CANCELLED : undefined;
}

/** What a suspension cut is not an outcome: the call is made again, or settled as unknown, when the run goes on. */
function isUnsettled({ outcome, isError }: ToolResult, repeatable: boolean): boolean {
  return outcome === 'unknown' || (repeatable && isError);
}

/** Why a person does not let the call leave; `undefined`: it may. */
async function forbiddance(
  { call, approval }: RunCall,
  tool: Tool,
  scope: CallScope | undefined,
  signal: AbortSignal,
): Promise<Refused | undefined> {
  if (tool.permission !== 'ask' && approval === undefined) return undefined;
  if (scope === undefined) {
    const text = `Error: not run. Calls of ${call.name} need the approval of a person, and nobody attends this run. Go on without it, and say that the request has to be made in the background (?async=true) for this call to be approved.`;
    return { refused: 'needs_approval', text };
  }
  try {
    const { action, expired } = await askApproval(scope, approval);
    if (action === 'approve') return undefined;
    const who = expired ? `nobody answered within ${REQUEST_LIFE_MS / 1000} s` : 'refused by a person';
    return { refused: 'refused', text: `Error: not run: ${who}. Do not call it again with the same arguments.` };
  } catch (error) {
    if (signal.aborted && !isSuspended(signal)) return CANCELLED;
    throw error;
  }
}

/** What the tool is run with: in an attended run it can ask, and does not hold up other calls while it waits. */
function contextOf(
  intent: ToolIntentStep,
  { context, record, onProgress }: ToolCallOptions,
  scope: CallScope | undefined,
  resume: McpCall['resume'],
  slots: Slots,
): ToolContext {
  return {
    ...context,
    ...(scope && {
      async ask(questions, paused) {
        slots.give();
        try {
          const answers = await askQuestions(scope, questions, paused);
          if (paused !== undefined) await record(intent);
          return answers;
        } finally {
          await slots.take();
        }
      },
    }),
    ...(resume && { resume }),
    ...(onProgress && { onProgress: spaced((progress) => onProgress(intent, progress)) }),
  };
}

function spaced(tell: (progress: CallProgress) => void): (progress: CallProgress) => void {
  let last = Number.NEGATIVE_INFINITY;
  return (progress) => {
    const time = performance.now();
    if (time - last < PROGRESS_MS) return;
    last = time;
    tell(progress);
  };
}

function prepare(call: ToolCall, { tools, withheld = [], checker }: ToolCallOptions): Prepared {
  const tool = tools.find(({ spec }) => spec.name === call.name);
  if (tool === undefined) {
    const blocked = withheld.find(({ offeredAs, code }) => offeredAs === call.name && code !== 'denied_by_policy');
    if (blocked !== undefined) {
      return { refused: 'needs_approval', text: `Error: the tool ${call.name} was not called: ${blocked.message}` };
    }
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
