import { isJsonObject, type JsonObject, type JsonValue } from '../json.ts';
import type { StopReason, ToolCall, Usage } from '../llm/types.ts';

/** Why a tool call was answered without being run. */
export type NotRunCause = 'cut_off' | 'malformed_arguments' | 'invalid_arguments' | 'unknown_tool' | 'aborted';

/** A call is known by the model answer it came with and its place in it: providers repeat call ids. Both count from 0. */
interface CallPlace {
  readonly turn: number;
  readonly index: number;
  readonly callId: string;
}

export interface ModelAnswerStep {
  readonly kind: 'model_answer';
  readonly text: string;
  readonly toolCalls: readonly ToolCall[];
  readonly stopReason: StopReason;
  readonly usage?: Usage;
}

/** Written before the call leaves. */
export interface ToolIntentStep extends CallPlace {
  readonly kind: 'tool_intent';
  readonly offeredName: string;
  readonly connectorId?: string;
  readonly serverTool?: string;
  readonly argumentsText: string;
  readonly repeatable: boolean;
}

export interface ToolOutcomeStep extends CallPlace {
  readonly kind: 'tool_outcome';
  readonly offeredName: string;
  /** What the model is told. */
  readonly text: string;
  readonly isError: boolean;
  /** `not_run`: nothing left the platform. `unknown`: it left, and what it did was never learnt. */
  readonly outcome: 'ok' | 'error' | 'unknown' | 'not_run';
  readonly cause?: NotRunCause;
  /** As in the intent; a call that never left counts as repeatable. */
  readonly repeatable: boolean;
}

export interface FinalAnswerStep {
  readonly kind: 'final_answer';
  readonly text: string;
  readonly reason: 'answered' | 'iteration_limit';
  /** Of the extra model call that wrote a summary. */
  readonly usage?: Usage;
}

/** One recorded event of a run, in the order it happened. */
export type RunStep = ModelAnswerStep | ToolIntentStep | ToolOutcomeStep | FinalAnswerStep;

export interface RunCall {
  readonly call: ToolCall;
  readonly index: number;
  readonly intent?: ToolIntentStep;
  readonly outcome?: ToolOutcomeStep;
}

export interface RunTurn {
  readonly answer: ModelAnswerStep;
  /** In the order the model wrote them, whatever order they ended in. */
  readonly calls: readonly RunCall[];
}

/** What a list of steps adds up to. */
export interface RunFold {
  readonly turns: readonly RunTurn[];
  readonly final: FinalAnswerStep | undefined;
}

/** Adds up recorded steps. The first outcome of a call counts; steps about calls nobody made are ignored. */
export function foldSteps(steps: readonly RunStep[]): RunFold {
  const answers: ModelAnswerStep[] = [];
  const intents = new Map<string, ToolIntentStep>();
  const outcomes = new Map<string, ToolOutcomeStep>();
  let final: FinalAnswerStep | undefined;
  for (const step of steps) {
    if (step.kind === 'model_answer') answers.push(step);
    else if (step.kind === 'final_answer') final ??= step;
    else {
      const place = `${step.turn}:${step.index}`;
      if (step.kind === 'tool_intent') intents.set(place, step);
      else if (!outcomes.has(place)) outcomes.set(place, step);
    }
  }
  const turns = answers.map((answer, turn) => ({
    answer,
    calls: answer.toolCalls.map((call, index): RunCall => {
      const intent = intents.get(`${turn}:${index}`);
      const outcome = outcomes.get(`${turn}:${index}`);
      return { call, index, ...(intent ? { intent } : {}), ...(outcome ? { outcome } : {}) };
    }),
  }));
  return { turns, final };
}

/** Whether a crash after the step could lead to an action being done twice or forgotten: it must be on the disk. */
export function isDurable(step: RunStep): boolean {
  return (step.kind === 'tool_intent' || step.kind === 'tool_outcome') && !step.repeatable;
}

/** A step as a row body: the kind has a column of its own. */
export function stepBody(step: RunStep): JsonObject {
  const { kind: _kind, ...body } = step;
  return body as unknown as JsonObject;
}

/** The step of a row. @throws Error when the row was not written by `stepBody`. */
export function stepOf(kind: string, body: JsonObject): RunStep {
  const fields = MEMBERS[kind];
  const wrong = fields === undefined ? 'kind' : fields.find(([name, type]) => !hasType(body[name], type))?.[0];
  if (wrong !== undefined) throw new Error(`run step of kind ${kind} cannot be read: ${wrong}`);
  return { kind, ...body } as unknown as RunStep;
}

const PLACE = [
  ['turn', 'number'],
  ['index', 'number'],
  ['callId', 'string'],
  ['offeredName', 'string'],
  ['repeatable', 'boolean'],
] as const;

const MEMBERS: Readonly<Record<string, readonly (readonly [string, string])[]>> = Object.freeze({
  model_answer: [
    ['text', 'string'],
    ['toolCalls', 'calls'],
    ['stopReason', 'string'],
  ],
  tool_intent: [...PLACE, ['argumentsText', 'string']],
  tool_outcome: [...PLACE, ['text', 'string'], ['isError', 'boolean'], ['outcome', 'string']],
  final_answer: [
    ['text', 'string'],
    ['reason', 'string'],
  ],
});

function hasType(value: JsonValue | undefined, type: string): boolean {
  if (type !== 'calls') return typeof value === type;
  return Array.isArray(value) && value.every(isCall);
}

function isCall(value: JsonValue): boolean {
  return isJsonObject(value) && ['id', 'name', 'arguments'].every((name) => typeof value[name] === 'string');
}
