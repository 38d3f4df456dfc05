import { UpstreamError } from '../errors.ts';
import { wellFormed } from '../json.ts';
import type { Message, ModelAnswer, ModelEvent, StopReason, ToolCall, Usage } from '../llm/types.ts';
import type { CallProgress } from '../mcp/types.ts';
import type {
  CallStep,
  FinalAnswerStep,
  RequestAnswerStep,
  RequestStep,
  RunCall,
  RunStep,
  ToolIntentStep,
  ToolOutcomeStep,
} from '../runs/steps.ts';
import { lostOutcome, refusal } from './call-outcomes.ts';
import { interactionsOf, type LoopAction, type LoopLimits, nextAction, recordableAnswer } from './next-action.ts';
import { LIMIT_REQUEST, limitText, listedSummary } from './summary.ts';

/** What a run lets others see while it happens. */
export type LoopEvent =
  | { readonly type: 'text'; readonly turn: number; readonly delta: string }
  | {
      readonly type: 'answer';
      readonly turn: number;
      readonly text: string;
      readonly toolCalls: readonly ToolCall[];
      readonly stopReason: StopReason;
    }
  | { readonly type: 'usage'; readonly turn: number; readonly usage: Usage }
  | { readonly type: 'tool_call'; readonly call: ToolIntentStep }
  | { readonly type: 'tool_progress'; readonly call: ToolIntentStep; readonly progress: CallProgress }
  | { readonly type: 'request'; readonly request: RequestStep }
  | { readonly type: 'request_answer'; readonly answer: RequestAnswerStep }
  | { readonly type: 'tool_result'; readonly result: ToolOutcomeStep }
  | { readonly type: 'final'; readonly text: string; readonly reason: FinalAnswerStep['reason'] };

/** Everything a run needs of the world. */
export interface LoopPorts {
  readonly limits: LoopLimits;
  readonly signal: AbortSignal;
  /** One model call. `tools: false` offers none. Failures come as a rejection or as an `error` event. */
  readonly model: (
    interactions: readonly Message[],
    options: { readonly tools: boolean },
  ) => Promise<AsyncIterable<ModelEvent>>;
  /** Runs calls and records what happens to each, its outcome last. */
  readonly runCalls: (
    turn: number,
    calls: readonly RunCall[],
    record: (step: CallStep) => Promise<void>,
  ) => Promise<void>;
  /** Commits a step. The next action begins after it. */
  readonly append: (step: RunStep) => Promise<void>;
  readonly emit: (event: LoopEvent) => void;
}

/**
 * Drives a run to its end from the steps recorded so far (none for a new one) and returns its final answer.
 * @throws the model's error, the signal's reason, what `append` throws. Steps recorded until then stay.
 */
export async function driveRun(recorded: readonly RunStep[], ports: LoopPorts): Promise<FinalAnswerStep> {
  const steps: RunStep[] = [...recorded];
  async function record(step: RunStep): Promise<void> {
    await ports.append(step);
    steps.push(step);
    announce(step, turnOf(steps), ports.emit);
  }
  for (;;) {
    const action = nextAction(steps, ports.limits);
    if (action.type === 'done') return action.final;
    ports.signal.throwIfAborted();
    await perform(action, steps, record, ports);
  }
}

async function perform(
  action: Exclude<LoopAction, { type: 'done' }>,
  steps: readonly RunStep[],
  record: (step: RunStep) => Promise<void>,
  ports: LoopPorts,
): Promise<void> {
  switch (action.type) {
    case 'call_model': {
      const turn = turnOf(steps) + 1;
      const events = await ports.model(interactionsOf(steps), { tools: true });
      const answer = await readAnswer(events, (delta) => ports.emit({ type: 'text', turn, delta }));
      return record(recordableAnswer(answer, steps));
    }
    case 'run_calls':
      return ports.runCalls(action.turn, action.calls, record);
    case 'refuse_cut_off':
      for (const { call, index } of action.calls) {
        await record(refusal(action.turn, index, call, 'cut_off', CUT_OFF));
      }
      return;
    case 'settle_lost':
      for (const { call, index } of action.calls) {
        await record(lostOutcome(action.turn, index, call));
      }
      return;
    case 'answer':
      return record({ kind: 'final_answer', text: action.text, reason: 'answered' });
    case 'summarise':
      return record(await summarise(steps, ports));
    case 'fail':
      throw failure(action);
  }
}

const CUT_OFF =
  'Error: this call was cut off, send again. The answer ended before it was complete, so nothing of it was run; keep the next one shorter.';

function turnOf(steps: readonly RunStep[]): number {
  return steps.filter((step) => step.kind === 'model_answer').length - 1;
}

function announce(step: RunStep, turn: number, emit: LoopPorts['emit']): void {
  switch (step.kind) {
    case 'model_answer': {
      const { text, toolCalls, stopReason, usage } = step;
      emit({ type: 'answer', turn, text, toolCalls, stopReason });
      if (usage) emit({ type: 'usage', turn, usage });
      return;
    }
    case 'tool_intent':
      emit({ type: 'tool_call', call: step });
      return;
    case 'request':
      emit({ type: 'request', request: step });
      return;
    case 'request_answer':
      emit({ type: 'request_answer', answer: step });
      return;
    case 'tool_outcome':
      emit({ type: 'tool_result', result: step });
      return;
    case 'final_answer':
      if (step.usage) emit({ type: 'usage', turn: turn + 1, usage: step.usage });
      emit({ type: 'final', text: step.text, reason: step.reason });
  }
}

async function readAnswer(events: AsyncIterable<ModelEvent>, onText: (delta: string) => void): Promise<ModelAnswer> {
  for await (const event of events) {
    if (event.type === 'text') onText(event.delta);
    else if (event.type === 'done') return event.answer;
    else throw event.error;
  }
  throw modelFailure('The model stopped without giving an answer.');
}

async function summarise(steps: readonly RunStep[], ports: LoopPorts): Promise<FinalAnswerStep> {
  const { maxIterations } = ports.limits;
  const request: Message = { role: 'user', text: LIMIT_REQUEST };
  try {
    const events = await ports.model([...interactionsOf(steps), request], { tools: false });
    const { text, usage } = await readAnswer(events, () => undefined);
    const said = text.trim() === '' ? listedSummary(steps) : wellFormed(text);
    const final = { kind: 'final_answer', text: limitText(maxIterations, said), reason: 'iteration_limit' } as const;
    return usage ? { ...final, usage } : final;
  } catch {
    ports.signal.throwIfAborted();
    return { kind: 'final_answer', text: limitText(maxIterations, listedSummary(steps)), reason: 'iteration_limit' };
  }
}

function failure({ reason, stopReason }: Extract<LoopAction, { type: 'fail' }>): UpstreamError {
  switch (reason) {
    case 'empty_answer':
      return modelFailure(`The model gave an empty answer (finish_reason ${stopReason}).`, EMPTY_REMEDY[stopReason]);
    case 'cut_off':
      return modelFailure(
        `The model's answers were cut off again and again while it was calling tools (finish_reason ${stopReason}); no cut-off call was run.`,
        EMPTY_REMEDY[stopReason],
      );
    case 'malformed_arguments':
      return modelFailure(
        'The model called tools with arguments that are not JSON again and again; none of these calls was run.',
        'Use a model that is better at calling tools, or offer it fewer tools with tool_filters.',
      );
  }
}

const EMPTY_REMEDY: Readonly<Record<StopReason, string>> = Object.freeze({
  stop: 'Ask again, or use another model.',
  tool_calls: 'Ask again, or use another model.',
  length: 'Raise the token limit of the model (max_tokens or max_completion_tokens).',
  content_filter: 'The provider filtered the answer: change the question or the prompt.',
  refusal: 'The model refused to answer: change the question or the prompt.',
  other: 'Ask again, or use another model.',
});

function modelFailure(message: string, remedy?: string): UpstreamError {
  return new UpstreamError({
    code: 'invalid_response',
    destination: 'model',
    message: remedy === undefined ? message : `${message} ${remedy}`,
    ...(remedy === undefined ? {} : { remedy }),
    statusCode: 502,
  });
}
