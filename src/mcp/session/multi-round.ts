import { setTimeout as sleep } from 'node:timers/promises';
import { isJsonObject, type JsonObject, type JsonValue } from '../../json.ts';
import { failure, passedOn } from '../failures.ts';
import type { AskPerson, ByKey, McpCall, PausedCall, PauseWatch, QuestionAnswer } from '../types.ts';
import { type QuestionRules, type SortedQuestions, sentAnswer, sortQuestions } from './elicitation.ts';

/** What a server wants to know before it goes on (MCP 2026-07-28, multi round-trip requests). */
export interface InputRequired {
  readonly inputRequired: SortedQuestions & {
    readonly requestState?: string;
    /** As `PausedCall.server`. */
    readonly server?: string;
  };
}

/** What a request is repeated with. */
export interface RoundReply {
  readonly inputResponses?: ByKey<QuestionAnswer>;
  readonly requestState?: string;
  /** Rounds of questions before it. */
  readonly round: number;
  /** As `PausedCall.server`. */
  readonly server?: string;
}

const MAX_ROUNDS = 5;
const MAX_QUESTIONS = 16;
/** Before a request is repeated with nothing but its state: such an answer only wants time. */
const STATE_ONLY_PAUSE_MS = 250;

/** The members a reply adds to the params of the request. */
export function replyParams(reply: RoundReply | undefined): JsonObject {
  const { inputResponses, requestState } = reply ?? {};
  return {
    ...(inputResponses !== undefined && { inputResponses: inputResponses as unknown as JsonObject }),
    ...(requestState !== undefined && { requestState }),
  };
}

/**
 * Reads a result of type `input_required`; its state is kept to the letter.
 * @throws UpstreamError when it asks for something that is not offered, or once too often
 */
export function readInputRequired(
  method: string,
  result: JsonObject,
  rules: QuestionRules,
  reply: RoundReply | undefined,
): InputRequired {
  const { side } = rules;
  const refused = (what: string): Error => failure(side, 'invalid_response', what, { delivered: 'no' });
  if (reply !== undefined && reply.round >= MAX_ROUNDS) {
    throw refused(`still asks after ${MAX_ROUNDS} rounds of answers to ${method}`);
  }
  const given = isJsonObject(result.inputRequests) ? result.inputRequests : {};
  const asked = Object.entries(given);
  if (asked.length > MAX_QUESTIONS) throw refused(`asks more than ${MAX_QUESTIONS} questions at once about ${method}`);
  const requests = asked.map(([key, request]): readonly [string, JsonValue | undefined] => {
    const kind = isJsonObject(request) ? request.method : undefined;
    if (isJsonObject(request) && kind === 'elicitation/create') return [key, request.params];
    const what = typeof kind === 'string' ? passedOn(side, kind) : 'something without a method';
    throw refused(`answered ${method} by asking for ${what}, which is not offered to it`);
  });
  const { requestState } = result;
  return {
    inputRequired: {
      ...sortQuestions(Object.fromEntries(requests), rules),
      ...(typeof requestState === 'string' && { requestState }),
    },
  };
}

/**
 * Reads the error of the session era that asks for addresses to be visited before the request is made again
 * (MCP 2025-11-25, Elicitation, URLElicitationRequiredError); `undefined` when none of them is for a person to visit.
 */
export function readAddressesRequired(data: JsonValue | undefined, rules: QuestionRules): InputRequired | undefined {
  const given = isJsonObject(data) && Array.isArray(data.elicitations) ? data.elicitations : [];
  const shown = given.filter(isJsonObject).slice(0, MAX_QUESTIONS);
  const requests = shown.map((params, index) => [String(index + 1), { ...params, mode: 'url' }]);
  const sorted = sortQuestions(Object.fromEntries(requests), rules);
  return Object.keys(sorted.asked).length === 0 ? undefined : { inputRequired: sorted };
}

/**
 * Makes a request, and makes it again with answers for as long as its server asks. What `ask` throws is thrown: nothing
 * is under way then, and `resume` goes on with it.
 * @param leg one request with a new id; without a reply the first one
 */
export async function throughRounds<T extends object>(
  leg: (reply: RoundReply | undefined) => Promise<T | InputRequired>,
  {
    ask,
    resume,
    signal,
    watch,
  }: {
    readonly ask?: AskPerson;
    readonly resume?: McpCall['resume'];
    readonly signal?: AbortSignal;
    /** Watches whether a paused call can go on. */
    readonly watch?: (paused: PausedCall) => Promise<PauseWatch>;
  } = {},
): Promise<T> {
  let reply = resume && replyTo(resume.paused, resume.answers);
  for (;;) {
    const outcome = await leg(reply);
    if (!('inputRequired' in outcome)) return outcome;
    const { asked, settled, requestState, server } = outcome.inputRequired;
    const paused = {
      questions: asked,
      settled,
      round: (reply?.round ?? 0) + 1,
      ...(requestState !== undefined && { requestState }),
      ...(server !== undefined && { server }),
    };
    const open = Object.keys(asked).length > 0;
    reply = replyTo(paused, open && ask !== undefined ? await askWatched(ask, paused, await watch?.(paused)) : {});
    if (reply.inputResponses === undefined) await sleep(STATE_ONLY_PAUSE_MS);
    signal?.throwIfAborted();
  }
}

async function askWatched(ask: AskPerson, paused: PausedCall, watching: PauseWatch | undefined) {
  try {
    return await ask(paused.questions, paused, watching?.signal);
  } finally {
    watching?.end();
  }
}

function replyTo(
  { questions, settled, requestState, round, server }: PausedCall,
  answers: ByKey<QuestionAnswer>,
): RoundReply {
  const given = Object.entries(questions).map(([key, question]) => [key, sentAnswer(question, answers, key)] as const);
  const inputResponses = { ...settled, ...Object.fromEntries(given) };
  return {
    ...(Object.keys(inputResponses).length > 0 && { inputResponses }),
    ...(requestState !== undefined && { requestState }),
    round,
    ...(server !== undefined && { server }),
  };
}
