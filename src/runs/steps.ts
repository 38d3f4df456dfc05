import { isJsonObject, type JsonObject, type JsonValue } from '../json.ts';
import type { StopReason, ToolCall, Usage } from '../llm/types.ts';
import type { PausedCall, QuestionAnswer, ServerQuestion } from '../mcp/types.ts';

/** Why a tool call was answered without being run. */
export type NotRunCause =
  | 'cut_off'
  | 'malformed_arguments'
  | 'invalid_arguments'
  | 'unknown_tool'
  /** The agent's permissions deny it. */
  | 'denied'
  /** Since the call began its name came to mean another tool, or none. */
  | 'changed'
  | 'aborted'
  /** A person said no, or nobody said anything in time. */
  | 'refused'
  /** It may only run when a person approves it, and nobody attends the run; or its definition has to be approved first. */
  | 'needs_approval';

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

/** A tool of a server, as it was when it was called. */
export interface CallSource {
  readonly connectorId: string;
  /** The server's own name. */
  readonly tool: string;
  /** Of its definition. */
  readonly hash?: string;
}

/** A person is asked before the call leaves (`approval`), or the server of the call asks one (`elicitation`). */
export interface RequestStep extends CallPlace {
  readonly kind: 'request';
  readonly requestId: string;
  readonly requestKind: 'approval' | 'elicitation';
  /** False where the call is under way while it waits: it ends with its process. */
  readonly resumable: boolean;
  /** Which tool it is about. Absent: one without a server. */
  readonly source?: CallSource;
  /** Of an elicitation: what is asked, under the key the server gave the question. */
  readonly key?: string;
  readonly question?: ServerQuestion;
  /** What the call goes on from; with the first question of a round. */
  readonly paused?: PausedCall;
}

/** What a person answered, or what stands for an answer that never came. */
export interface RequestAnswerStep extends CallPlace {
  readonly kind: 'request_answer';
  readonly requestId: string;
  readonly action: 'approve' | 'refuse' | QuestionAnswer['action'];
  readonly content?: JsonObject;
  /** Nobody answered in time. */
  readonly expired?: boolean;
}

export interface FinalAnswerStep {
  readonly kind: 'final_answer';
  readonly text: string;
  readonly reason: 'answered' | 'iteration_limit';
  /** Of the extra model call that wrote a summary. */
  readonly usage?: Usage;
}

/** What is recorded about one call. */
export type CallStep = RequestStep | RequestAnswerStep | ToolIntentStep | ToolOutcomeStep;

/** One recorded event of a run, in the order it happened. */
export type RunStep = ModelAnswerStep | CallStep | FinalAnswerStep;

/** Ids of the unanswered requests of calls that ended with the process they were under way in. */
export function lostRequests(steps: readonly RunStep[]): string[] {
  const answered = new Set(steps.flatMap((step) => (step.kind === 'request_answer' ? [step.requestId] : [])));
  return steps.flatMap((step) =>
    step.kind === 'request' && !step.resumable && !answered.has(step.requestId) ? [step.requestId] : [],
  );
}

export interface AskedRequest {
  readonly request: RequestStep;
  readonly answer?: RequestAnswerStep;
}

/** Questions a call was answered with, nothing of which is under way. */
export interface RunRound {
  readonly paused: PausedCall;
  /** Those of its questions that were put to a person so far. */
  readonly asked: readonly AskedRequest[];
}

export interface RunCall {
  readonly call: ToolCall;
  readonly index: number;
  /** A person was asked whether the call may leave. */
  readonly approval?: AskedRequest;
  /** The latest: the call left, and may be under way. */
  readonly intent?: ToolIntentStep;
  /** What the call waits for since its latest intent; nothing of it is under way then. */
  readonly round?: RunRound;
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
  const calls = new Map<string, CallStep[]>();
  let final: FinalAnswerStep | undefined;
  for (const step of steps) {
    if (step.kind === 'model_answer') answers.push(step);
    else if (step.kind === 'final_answer') final ??= step;
    else {
      const place = `${step.turn}:${step.index}`;
      const before = calls.get(place);
      if (before === undefined) calls.set(place, [step]);
      else before.push(step);
    }
  }
  const turns = answers.map((answer, turn) => ({
    answer,
    calls: answer.toolCalls.map((call, index) => foldCall(call, index, calls.get(`${turn}:${index}`) ?? [])),
  }));
  return { turns, final };
}

function foldCall(call: ToolCall, index: number, steps: readonly CallStep[]): RunCall {
  const answers = new Map<string, RequestAnswerStep>();
  let approval: RequestStep | undefined;
  let intent: ToolIntentStep | undefined;
  let outcome: ToolOutcomeStep | undefined;
  let round: RequestStep[] = [];
  for (const step of steps) {
    if (step.kind === 'tool_outcome') outcome ??= step;
    else if (step.kind === 'request_answer') answers.set(step.requestId, answers.get(step.requestId) ?? step);
    else if (step.kind === 'tool_intent') {
      intent = step;
      round = [];
    } else if (step.requestKind === 'approval') approval = step;
    else if (step.resumable) round.push(step);
  }
  const asked = (request: RequestStep): AskedRequest => {
    const answer = answers.get(request.requestId);
    return answer === undefined ? { request } : { request, answer };
  };
  const paused = round.find((step) => step.paused !== undefined)?.paused;
  return {
    call,
    index,
    ...(approval ? { approval: asked(approval) } : {}),
    ...(intent ? { intent } : {}),
    ...(paused ? { round: { paused, asked: round.map(asked) } } : {}),
    ...(outcome ? { outcome } : {}),
  };
}

/** Ids of the unanswered requests whose call left or ended without the answer: nobody can use it any more. */
export function passedRequests(steps: readonly RunStep[]): string[] {
  const open = new Map<string, RequestStep>();
  for (const step of steps) {
    if (step.kind === 'request') open.set(step.requestId, step);
    else if (step.kind === 'request_answer') open.delete(step.requestId);
  }
  return [...open.values()].filter((request) => isPassed(request, steps)).map(({ requestId }) => requestId);
}

function isPassed(request: RequestStep, steps: readonly RunStep[]): boolean {
  return steps
    .slice(steps.indexOf(request))
    .some(
      (step) =>
        (step.kind === 'tool_intent' || step.kind === 'tool_outcome') &&
        step.turn === request.turn &&
        step.index === request.index,
    );
}

/** Whether a crash after the step could lead to an action being done twice or forgotten: it must be on the disk. */
export function isDurable(step: RunStep): boolean {
  return (step.kind === 'tool_intent' || step.kind === 'tool_outcome') && !step.repeatable;
}

/** Whether a call left whose end was never learnt, and that must not be made again. */
export function isLost({ intent, round, outcome }: RunCall): boolean {
  return intent !== undefined && !intent.repeatable && round === undefined && outcome === undefined;
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

const REQUEST = [
  ['turn', 'number'],
  ['index', 'number'],
  ['callId', 'string'],
  ['requestId', 'string'],
] as const;

const MEMBERS: Readonly<Record<string, readonly (readonly [string, string])[]>> = Object.freeze({
  model_answer: [
    ['text', 'string'],
    ['toolCalls', 'calls'],
    ['stopReason', 'string'],
  ],
  tool_intent: [...PLACE, ['argumentsText', 'string']],
  tool_outcome: [...PLACE, ['text', 'string'], ['isError', 'boolean'], ['outcome', 'string']],
  request: [...REQUEST, ['requestKind', 'string'], ['resumable', 'boolean']],
  request_answer: [...REQUEST, ['action', 'string']],
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
