import type { JsonValue } from '../../json.ts';
import type { AskPerson, ByKey, QuestionAnswer, ServerQuestion } from '../types.ts';
import { type QuestionRules, sentAnswer, sortQuestions } from './elicitation.ts';
import type { Exchange } from './exchange.ts';

/** A request under way on whose behalf a server may ask: `tools/call`, and those for its prompts and resources. */
export interface LiveRequest {
  readonly exchange: Exchange;
  /** Who can be asked, if anybody can. */
  readonly person?: LivePerson;
}

interface LivePerson {
  readonly ask: AskPerson;
  /** Stops the limits of the request while a person is asked; what it returns lets them go on. */
  readonly hold: () => () => void;
  /** Ends the request, because asking failed. */
  readonly fail: (error: unknown) => void;
}

/** Questions a server of the session era asks while requests are under way. */
export interface LiveQuestions {
  /** @returns what ends it; `givenUp`: the server did not answer, and may be at work on it still */
  begin(request: LiveRequest): (how?: { readonly givenUp: boolean }) => void;
  /** Answers one `elicitation/create`. `signal` ends when the server takes it back. */
  answer(request: { id: JsonValue; params: JsonValue | undefined }, signal: AbortSignal): Promise<QuestionAnswer>;
}

export interface LiveQuestionsDeps extends Omit<QuestionRules, 'canAsk'> {
  /** The exchange on whose answer a request of the server came; `undefined` where that cannot be told. */
  readonly exchangeOf: (id: JsonValue) => Exchange | undefined;
}

/** Longest wait for a person, whatever the limits of whoever asks. */
export const MAX_WAIT_MS = 3_600_000;

/** Questions of one call that a person is bothered with. */
const MAX_QUESTIONS = 16;
/** How long a question may still be that of a request which was given up. */
const GIVEN_UP_MS = 600_000;
/** Reasons of one session that are told. */
const MAX_REASONS = 100;
/** Of the one question a request holds. */
const KEY = 'question';

/** Nothing is under way, nothing asked. */
export function createLiveQuestions(deps: LiveQuestionsDeps): LiveQuestions {
  const live = new Set<LiveRequest>();
  const ended = new WeakMap<LiveRequest, AbortController>();
  /** How many questions each has asked. */
  const counts = new WeakMap<LiveRequest, number>();
  /** Until when those count that were given up. */
  let givenUp: number[] = [];
  let reasons = 0;

  function onDeclined(reason: string): void {
    reasons += 1;
    if (reasons <= MAX_REASONS) deps.onDeclined(reason);
  }

  /**
   * The request a question belongs to: the one on whose stream it came, else the only one there is. Requests of other
   * callers count, and so do those that cannot ask: it may be theirs.
   */
  function owner(id: JsonValue): LiveRequest | undefined {
    const exchange = deps.exchangeOf(id);
    if (exchange !== undefined) return [...live].find((request) => request.exchange === exchange);
    const time = performance.now();
    givenUp = givenUp.filter((until) => until > time);
    const count = live.size + givenUp.length;
    if (count <= 1) return [...live][0];
    const lost = givenUp.length === 0 ? '' : ` (${givenUp.length} of them given up, but perhaps not by the server)`;
    onDeclined(`${count} calls are under way${lost}, and it names none of them`);
    return undefined;
  }

  async function askPerson(
    { ask, hold, fail }: LivePerson,
    asked: ByKey<ServerQuestion>,
    ends: { readonly takenBack: AbortSignal; readonly ended: AbortSignal | undefined },
  ): Promise<ByKey<QuestionAnswer>> {
    const release = hold();
    const withdrawn = new AbortController();
    const nobody = new Promise<ByKey<QuestionAnswer>>((resolve) => {
      withdrawn.signal.addEventListener('abort', () => resolve({}), { once: true });
    });
    const takeBack = (): void => withdrawn.abort('Its server took it back');
    const end = (): void => withdrawn.abort('The call it belongs to has ended');
    const timer = setTimeout(() => withdrawn.abort('Nobody answered it in time'), MAX_WAIT_MS);
    ends.takenBack.addEventListener('abort', takeBack, { once: true });
    ends.ended?.addEventListener('abort', end, { once: true });
    if (ends.takenBack.aborted) takeBack();
    try {
      return await Promise.race([ask(asked, undefined, withdrawn.signal), nobody]);
    } catch (error) {
      fail(error);
      return {};
    } finally {
      clearTimeout(timer);
      ends.takenBack.removeEventListener('abort', takeBack);
      ends.ended?.removeEventListener('abort', end);
      release();
    }
  }

  return {
    begin(request) {
      live.add(request);
      ended.set(request, new AbortController());
      return ({ givenUp: lost } = { givenUp: false }) => {
        if (!live.delete(request)) return;
        if (lost) givenUp.push(performance.now() + GIVEN_UP_MS);
        ended.get(request)?.abort();
      };
    },
    async answer({ id, params }, signal) {
      const request = deps.policy === 'ask' ? owner(id) : undefined;
      const rules = { ...deps, onDeclined, canAsk: request?.person !== undefined };
      const { settled, asked } = sortQuestions({ [KEY]: params }, rules);
      const question = asked[KEY];
      if (question === undefined || request?.person === undefined) return settled[KEY] ?? { action: 'decline' };
      const before = counts.get(request) ?? 0;
      if (before >= MAX_QUESTIONS) {
        onDeclined(`its call has asked ${MAX_QUESTIONS} questions already`);
        return { action: 'decline' };
      }
      counts.set(request, before + 1);
      const ends = { takenBack: signal, ended: ended.get(request)?.signal };
      return sentAnswer(question, await askPerson(request.person, asked, ends), KEY);
    },
  };
}
