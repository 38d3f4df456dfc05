import type { ToolCall } from '../llm/types.ts';
import type { PausedCall } from '../mcp/types.ts';
import type { NotRunCause, ToolOutcomeStep } from '../runs/steps.ts';
import type { Refused } from './prepared-call.ts';

const LOST =
  'Error: the outcome is unknown. The platform stopped while this call was under way; it may have been carried out and was not repeated.';
const STOPPED =
  'Error: the outcome is unknown. The call was ended while it was under way, since it may not be made any more; it may have been carried out.';

/** The outcome of a call that went no further once a person had answered. Of a paused one nothing is under way. */
export function stoppedOutcome(
  { turn, index }: Pick<ToolOutcomeStep, 'turn' | 'index'>,
  call: ToolCall,
  { refused, text }: Refused,
  paused: PausedCall | undefined,
): ToolOutcomeStep {
  return paused === undefined ? lostOutcome(turn, index, call, STOPPED) : refusal(turn, index, call, refused, text);
}

/** The outcome of a call that left, whose end was never learnt. */
export function lostOutcome(turn: number, index: number, call: ToolCall, text = LOST): ToolOutcomeStep {
  const { cause: _cause, ...outcome } = refusal(turn, index, call, 'aborted', text);
  return { ...outcome, outcome: 'unknown', repeatable: false };
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
