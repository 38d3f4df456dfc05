import { isCatalogueError, UpstreamError } from '../../errors.ts';
import type { Trace } from '../../memory/conversations.ts';
import { foldSteps, type RunStep } from '../../runs/steps.ts';
import type { Unit } from '../../store/database.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Tool } from '../../tools/tool.ts';
import { additionalInfo, stepText } from './conversational-reply.ts';
import type { OpenedTurn } from './turn.ts';

/** What memory keeps of a step: the answer, or a trace; whether it could be stored. `within`: see `leave`. */
export async function remember(
  step: RunStep,
  steps: readonly RunStep[],
  tools: readonly Tool[],
  { question, settings, turn }: Pick<OpenedTurn, 'question' | 'settings' | 'turn'>,
  log: Logger,
  within?: Unit,
): Promise<boolean> {
  if (step.kind === 'final_answer') {
    return leave(
      `message ${turn.messageId}`,
      () => turn.finish(step.text, additionalInfo(steps, tools), within),
      log,
      within,
    );
  }
  const entry = settings.keepTraces ? traceOf(step, steps, question) : undefined;
  return (
    entry === undefined || leave(`trace of message ${turn.messageId}`, () => turn.trace(entry, within), log, within)
  );
}

/** Stores below the question that its run failed, and why. `within`: see `leave`. */
export function rememberFailure(
  cause: string,
  { turn }: Pick<OpenedTurn, 'turn'>,
  log: Logger,
  within?: Unit,
): Promise<boolean> {
  const text = `Agent execution failed: ${cause}`;
  return leave(`message ${turn.messageId}`, () => turn.finish(text, {}, within), log, within);
}

/** How many traces the steps of a run have left. */
export function tracesOf(steps: readonly RunStep[]): number {
  return steps.filter(({ kind }) => kind === 'model_answer' || kind === 'tool_outcome').length;
}

function traceOf(step: RunStep, steps: readonly RunStep[], question: string): Trace | undefined {
  if (step.kind === 'model_answer') {
    return { origin: 'LLM', input: question, response: stepText(step.text, step.toolCalls) };
  }
  if (step.kind !== 'tool_outcome') return undefined;
  const call = foldSteps(steps).turns[step.turn]?.calls[step.index]?.call;
  return { origin: step.offeredName, input: call?.arguments ?? '{}', response: step.text };
}

/** What was written for callers; anything else is a bug, and its text belongs into the log. */
export function shownCause(error: unknown): string {
  return isCatalogueError(error) || error instanceof UpstreamError
    ? error.message
    : 'internal error, the log of the server has the details';
}

/**
 * Does what a run can do without; a failure is logged. As part of a transaction only what is refused is one (the memory is
 * gone): a statement that failed fails the transaction.
 */
export async function leave(what: string, work: () => Promise<unknown>, log: Logger, within?: Unit): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (within !== undefined && !isCatalogueError(error)) throw error;
    log.warn({ err: error }, `${what} was not stored`);
    return false;
  }
}
