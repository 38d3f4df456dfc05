import { newId } from '../ids.ts';
import type { ByKey, PausedCall, QuestionAnswer, ServerQuestion } from '../mcp/types.ts';
import type { GivenAnswer, RequestFacts } from '../runs/request-document.ts';
import type { AskedRequest, CallStep, RequestAnswerStep, RequestStep, RunRound } from '../runs/steps.ts';
import { visibleJson } from '../tools/definition-difference.ts';
import type { Tool } from '../tools/tool.ts';

/** What a person is shown about one call. */
export type CallRequest = Omit<RequestFacts, 'runId' | 'taskId' | 'agentId' | 'owner'>;

/** Whoever attends a run. */
export interface People {
  /** Puts a request where they see it; one that is there already stays as it is. */
  open(request: CallRequest): Promise<void>;
  /**
   * Waits for the answer, or for the time to be over; `withdrawn` (as `AskPerson`) closes the request. @throws the signal's
   * reason
   */
  answered(requestId: string, signal: AbortSignal, withdrawn?: AbortSignal): Promise<GivenAnswer>;
}

/** The call that people are asked about. */
export interface CallScope {
  readonly place: Pick<RequestStep, 'turn' | 'index' | 'callId'>;
  readonly tool: Tool;
  readonly argumentsText: string;
  readonly people: People;
  readonly record: (step: CallStep) => Promise<void>;
  readonly signal: AbortSignal;
}

/** A server that wants to know more at once than a person would read is told no. */
const MOST_QUESTIONS = 20;

/** Asks whether the call may leave, or goes on with having asked. @throws the signal's reason, what `record` throws */
export async function askApproval(scope: CallScope, known: AskedRequest | undefined): Promise<RequestAnswerStep> {
  const asked = known ?? { request: await put(scope, { requestKind: 'approval', resumable: true }) };
  return asked.answer ?? answerOf(scope, asked.request);
}

/** What stays open all the same closes with its run. */
export async function withdraw(people: People, asked: readonly AskedRequest[], signal: AbortSignal): Promise<void> {
  const withdrawn = AbortSignal.abort('The call it belongs to is not made any more');
  await Promise.allSettled(asked.map(({ request }) => people.answered(request.requestId, signal, withdrawn)));
}

/**
 * Puts the questions of a server to a person, each as a request of its own. `known`: those of the same round that were put
 * already. `withdrawn`: as `AskPerson`.
 * @throws the signal's reason, what `record` throws
 */
export async function askQuestions(
  scope: CallScope,
  questions: ByKey<ServerQuestion>,
  paused: PausedCall | undefined,
  { known = [], withdrawn }: { known?: readonly AskedRequest[]; withdrawn?: AbortSignal | undefined } = {},
): Promise<ByKey<QuestionAnswer>> {
  const entries = Object.entries(questions);
  if (entries.length > MOST_QUESTIONS) {
    return Object.fromEntries(entries.map(([key]) => [key, { action: 'decline' }]));
  }
  const resumable = paused !== undefined;
  const asked: [string, AskedRequest][] = [];
  for (const [at, [key, question]] of entries.entries()) {
    const before = known.find(({ request }) => request.key === key);
    if (before === undefined && withdrawn?.aborted) continue;
    const state = resumable && known.length === 0 && at === 0 ? { paused } : {};
    const make = { requestKind: 'elicitation', resumable, key, question, ...state } as const;
    asked.push([key, before ?? { request: await put(scope, make) }]);
  }
  const answers = await Promise.all(
    asked.map(async ([key, { request, answer }]) => {
      const { action, content } = answer ?? (await answerOf(scope, request, withdrawn));
      return [key, toServer(action, content)] as const;
    }),
  );
  return Object.fromEntries(answers);
}

/** What people say to a round of questions that was put before this process went on with the call. */
export async function resumedAnswers(scope: CallScope, { paused, asked }: RunRound): Promise<ByKey<QuestionAnswer>> {
  const watching = await scope.tool.watchPause?.(paused);
  try {
    return await askQuestions(scope, paused.questions, paused, { known: asked, withdrawn: watching?.signal });
  } finally {
    watching?.end();
  }
}

async function put(
  { place, record, tool: { source } }: CallScope,
  members: Omit<RequestStep, 'kind' | 'turn' | 'index' | 'callId' | 'requestId'>,
): Promise<RequestStep> {
  const about = source && { source };
  const step: RequestStep = { kind: 'request', ...place, requestId: newId(), ...about, ...members };
  await record(step);
  return step;
}

/** The request is in the journal before people see it, so that no process that goes on later asks twice. */
async function answerOf(scope: CallScope, request: RequestStep, withdrawn?: AbortSignal): Promise<RequestAnswerStep> {
  const { place, tool, argumentsText, people, record, signal } = scope;
  const { requestId, requestKind: kind, question } = request;
  const { source, spec } = tool;
  await people.open({
    requestId,
    kind,
    offeredName: spec.name,
    ...(source ? { tool: source.tool, connectorId: source.connectorId } : {}),
    arguments: visibleJson(argumentsText),
    ...(question === undefined ? {} : { question }),
  });
  const given = await people.answered(requestId, signal, withdrawn);
  const step: RequestAnswerStep = { kind: 'request_answer', ...place, requestId, ...given };
  await record(step);
  return step;
}

function toServer(action: RequestAnswerStep['action'], content: RequestAnswerStep['content']): QuestionAnswer {
  if (action === 'accept') return content === undefined ? { action } : { action, content };
  return { action: action === 'decline' ? action : 'cancel' };
}
