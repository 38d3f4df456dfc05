import { wellFormed } from '../json.ts';
import type { Message, ModelAnswer, StopReason, ToolCall } from '../llm/types.ts';
import {
  type FinalAnswerStep,
  foldSteps,
  isLost,
  type ModelAnswerStep,
  type NotRunCause,
  type RunCall,
  type RunStep,
  type RunTurn,
} from '../runs/steps.ts';

export interface LoopLimits {
  /** Model calls of one run, the summary at the end not counted. */
  readonly maxIterations: number;
  /** Answers in a row that could not be acted on (cut off, arguments that are no JSON) before the run fails. */
  readonly maxFaultyAnswers: number;
}

export type LoopAction =
  | { readonly type: 'call_model' }
  | { readonly type: 'run_calls'; readonly turn: number; readonly calls: readonly RunCall[] }
  /** Answers calls that must not run: cut off by a limit, or begun by a process that did not live to see the end. */
  | { readonly type: 'refuse_cut_off'; readonly turn: number; readonly calls: readonly RunCall[] }
  | { readonly type: 'settle_lost'; readonly turn: number; readonly calls: readonly RunCall[] }
  | { readonly type: 'answer'; readonly text: string }
  | { readonly type: 'summarise' }
  | {
      readonly type: 'fail';
      readonly reason: 'empty_answer' | 'cut_off' | 'malformed_arguments';
      readonly stopReason: StopReason;
    }
  | { readonly type: 'done'; readonly final: FinalAnswerStep };

/** What a run does next, told from its recorded steps alone. Pure: the same steps always give the same action. */
export function nextAction(steps: readonly RunStep[], limits: LoopLimits): LoopAction {
  const { turns, final } = foldSteps(steps);
  if (final) return { type: 'done', final };
  const last = turns.at(-1);
  if (last === undefined) return { type: 'call_model' };
  if (last.calls.length === 0) return conclusion(last.answer);
  const open = last.calls.filter((call) => call.outcome === undefined);
  if (open.length > 0) return settlement(last.answer, turns.length - 1, open);
  const fault = repeatedFault(turns, limits.maxFaultyAnswers);
  if (fault) return { type: 'fail', reason: fault, stopReason: last.answer.stopReason };
  return turns.length >= limits.maxIterations ? { type: 'summarise' } : { type: 'call_model' };
}

function conclusion(answer: ModelAnswerStep): LoopAction {
  if (answer.text.trim() !== '') return { type: 'answer', text: answer.text };
  return { type: 'fail', reason: 'empty_answer', stopReason: answer.stopReason };
}

function settlement(answer: ModelAnswerStep, turn: number, open: readonly RunCall[]): LoopAction {
  if (answer.stopReason === 'length' || answer.stopReason === 'content_filter') {
    return { type: 'refuse_cut_off', turn, calls: open };
  }
  const lost = open.filter(isLost);
  return lost.length > 0 ? { type: 'settle_lost', turn, calls: lost } : { type: 'run_calls', turn, calls: open };
}

const BOUNDED = ['cut_off', 'malformed_arguments'] as const satisfies readonly NotRunCause[];

function repeatedFault(turns: readonly RunTurn[], limit: number): (typeof BOUNDED)[number] | undefined {
  if (turns.length < limit) return undefined;
  const newest = turns.slice(-limit);
  return BOUNDED.find((cause) => newest.every((turn) => turn.calls.every((call) => call.outcome?.cause === cause)));
}

/** The assistant and tool messages of a run so far: each call is followed by exactly one tool message, in order. */
export function interactionsOf(steps: readonly RunStep[]): Message[] {
  return foldSteps(steps).turns.flatMap(({ answer, calls }): Message[] => [
    { role: 'assistant', text: answer.text, toolCalls: answer.toolCalls },
    ...calls.map(
      ({ call, outcome }): Message => ({
        role: 'tool',
        toolCallId: call.id,
        name: call.name,
        text: outcome?.text ?? 'Error: this call has no outcome yet',
        isError: outcome?.isError ?? true,
      }),
    ),
  ]);
}

/**
 * A model answer as it is recorded and sent back: call ids present and unique in the run, names legal on every wire,
 * arguments that are empty, blank or `null` as `{}`, no lone surrogates. Argument digits are not touched.
 */
export function recordableAnswer(answer: ModelAnswer, steps: readonly RunStep[]): ModelAnswerStep {
  const turns = foldSteps(steps).turns;
  const used = new Set(turns.flatMap((turn) => turn.answer.toolCalls.map((call) => call.id)));
  const toolCalls = answer.toolCalls.map((call, index): ToolCall => {
    const fallback = `call_${turns.length + 1}_${index + 1}`;
    let id = call.id.trim() === '' ? fallback : call.id;
    while (used.has(id)) id = `${id}_${turns.length + 1}_${index + 1}`;
    used.add(id);
    return { id, name: legalName(call.name), arguments: argumentsText(call.arguments) };
  });
  const { stopReason, usage } = answer;
  const text = wellFormed(answer.text);
  return { kind: 'model_answer', text, toolCalls, stopReason, ...(usage ? { usage } : {}) };
}

function legalName(name: string): string {
  const legal = name
    .trim()
    .replace(/[^a-zA-Z0-9_-]/g, '_')
    .slice(0, 64);
  return legal === '' ? 'unnamed' : legal;
}

function argumentsText(text: string): string {
  const trimmed = text.trim();
  return trimmed === '' || trimmed === 'null' ? '{}' : wellFormed(text);
}
