import { FORBIDDEN } from '../errors.ts';
import { wellFormed } from '../json.ts';
import type { AskPerson, CallProgress, McpCall, PausedCall } from '../mcp/types.ts';
import { REQUEST_LIFE_MS } from '../runs/requests.ts';
import type { CallSource, CallStep, RunCall, ToolIntentStep, ToolOutcomeStep } from '../runs/steps.ts';
import type { Tool, ToolContext, ToolResult } from '../tools/tool.ts';
import { lostOutcome, refusal, stoppedOutcome } from './call-outcomes.ts';
import { askApproval, askQuestions, type CallScope, type People, resumedAnswers, withdraw } from './call-requests.ts';
import { type Offer, type Prepared, prepare, type Refused } from './prepared-call.ts';
import { createSlots, type Slot, type Slots } from './slots.ts';
import { isSuspended } from './suspension.ts';
import { cut } from './text.ts';

/** The offer, and the principal of the context, are read for each call anew: `renew` may have changed them. */
export interface ToolCallOptions extends Offer {
  /** Looks up again what may be called and in whose name, after a wait for people. @throws why the run cannot go on */
  readonly renew?: () => Promise<void>;
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

/** How calls of one answer stand to each other. */
interface Company {
  readonly slots: Slots;
  /** Ends the waiting for people; calls that left are not cut by it. */
  readonly signal: AbortSignal;
  /** Nothing more is begun: a step could not be recorded. */
  readonly failed: () => boolean;
}

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
  const { call, index, approval, round } = runCall;
  const { context, record, people } = options;
  const place = { turn, index, callId: call.id };
  const begunWith: (CallSource | undefined)[] = [];
  let open = [...(approval ? [approval] : []), ...(round?.asked ?? [])].filter(({ answer }) => answer === undefined);
  let approved = false;
  let resume: McpCall['resume'];

  async function refuse({ refused, text }: Refused): Promise<void> {
    if (people !== undefined) await withdraw(people, open, company.signal);
    await record(hasLeft(runCall) ? lostOutcome(turn, index, call) : refusal(turn, index, call, refused, text));
  }
  async function renew(tool: Tool): Promise<void> {
    begunWith.push(tool.source);
    await options.renew?.();
  }

  for (;;) {
    const prepared = begin(context.signal) ?? prepare(runCall, options, begunWith);
    if ('refused' in prepared) return refuse(prepared);
    const { tool } = prepared;
    if (hasLeft(runCall) && !tool.repeatable) return record(lostOutcome(turn, index, call));
    const scope = people && { place, ...prepared, people, record, signal: company.signal };
    if (!approved && (tool.permission === 'ask' || approval !== undefined)) {
      const forbidden = await forbiddance(runCall, tool, scope, context.signal);
      open = open.filter((asked) => asked !== approval);
      if (forbidden !== undefined) return refuse(forbidden);
      approved = true;
      if (approval?.answer === undefined) {
        await renew(tool);
        continue;
      }
    }
    if (scope && round && resume === undefined) {
      resume = { paused: round.paused, answers: await resumedAnswers(scope, round) };
      open = [];
      await renew(tool);
      continue;
    }
    return perform(runCall, { place, prepared, approved, begunWith, scope, resume }, options, company);
  }
}

/** A call that nothing stands against. */
interface Cleared {
  readonly place: Pick<ToolIntentStep, 'turn' | 'index' | 'callId'>;
  readonly prepared: Prepared;
  readonly approved: boolean;
  readonly begunWith: readonly (CallSource | undefined)[];
  readonly scope: CallScope | undefined;
  readonly resume: McpCall['resume'];
}

async function perform(runCall: RunCall, cleared: Cleared, options: ToolCallOptions, company: Company): Promise<void> {
  const { call } = runCall;
  const { place, prepared, scope, resume } = cleared;
  const { context, record } = options;
  const { tool, argumentsText } = prepared;
  const { turn, index } = place;
  const slot = await company.slots.take();
  const asking = createAsking(scope, slot);
  try {
    if (company.failed()) return;
    const cancelled = begin(context.signal);
    if (cancelled !== undefined) return await record(refusal(turn, index, call, cancelled.refused, cancelled.text));
    const { repeatable, source } = tool;
    const from = source ? { connectorId: source.connectorId, serverTool: source.tool } : {};
    const named = { ...place, offeredName: call.name };
    const intent: ToolIntentStep = { kind: 'tool_intent', ...named, ...from, argumentsText, repeatable };
    await record(intent);
    let stopped: Stopped | undefined;
    let over = false;
    const answered = async (paused: PausedCall | undefined): Promise<void> => {
      if (over) return;
      const now = await standsStill(runCall, cleared, options).catch((error: unknown) => {
        stopped ??= { error };
        throw error;
      });
      if ('refused' in now) {
        stopped ??= { outcome: stoppedOutcome(place, call, now, paused) };
        throw new FORBIDDEN(now.text);
      }
      if (paused !== undefined) await record({ ...intent, repeatable: repeatable && now.tool.repeatable });
    };
    const result = await execute(tool, argumentsText, contextOf(intent, options, asking?.by(answered), resume));
    over = true;
    await asking?.end();
    if (stopped !== undefined) return await settleStopped(stopped, record);
    if (isSuspended(context.signal) && isUnsettled(result, repeatable)) throw context.signal.reason;
    await record({ kind: 'tool_outcome', ...named, ...finalize(result, options.resultLimit), repeatable });
  } finally {
    slot.end();
  }
}

/** Why a call went no further once a person had answered. */
type Stopped = { readonly error: unknown } | { readonly outcome: ToolOutcomeStep };

async function settleStopped(stopped: Stopped, record: ToolCallOptions['record']): Promise<void> {
  if ('error' in stopped) throw stopped.error;
  await record(stopped.outcome);
}

/** Whether the call may still be made, after a person was asked while it was under way. @throws why the run cannot go on */
async function standsStill(
  runCall: RunCall,
  { prepared, approved, begunWith }: Cleared,
  options: ToolCallOptions,
): Promise<Prepared | Refused> {
  await options.renew?.();
  const now = prepare(runCall, options, [...begunWith, prepared.tool.source]);
  if ('refused' in now || approved || now.tool.permission !== 'ask') return now;
  const text = `Error: not run. Since ${runCall.call.name} was called, its calls need the approval of a person. Call it again to ask for it.`;
  return { refused: 'needs_approval', text };
}

/** Whether a process that is gone has made the call, and nobody learnt its end. */
function hasLeft({ intent, round }: RunCall): boolean {
  return intent !== undefined && round === undefined;
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
  { context, onProgress }: ToolCallOptions,
  ask: AskPerson | undefined,
  resume: McpCall['resume'],
): ToolContext {
  return {
    ...context,
    ...(ask && { ask }),
    ...(resume && { resume }),
    ...(onProgress && { onProgress: spaced((progress) => onProgress(intent, progress)) }),
  };
}

interface Asking {
  /** `answered` is awaited before the server has the answers. */
  by(answered: (paused: PausedCall | undefined) => Promise<void>): AskPerson;
  /** The call is over: what it still asks is withdrawn. Settles when nothing of that is under way. */
  end(): Promise<void>;
}

function createAsking(scope: CallScope | undefined, slot: Slot): Asking | undefined {
  if (scope === undefined) return undefined;
  const over = new AbortController();
  const open = new Set<Promise<unknown>>();
  return {
    by: (answered) => (questions, paused, withdrawn) =>
      slot.without(async () => {
        const ended = withdrawn === undefined ? over.signal : AbortSignal.any([withdrawn, over.signal]);
        const answers = askQuestions(scope, questions, paused, { withdrawn: ended });
        open.add(answers);
        await answers.finally(() => open.delete(answers));
        await answered(paused);
        return answers;
      }),
    async end() {
      over.abort('The call it belongs to has ended');
      await Promise.allSettled(open);
    },
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
