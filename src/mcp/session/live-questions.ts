import type { JsonValue } from '../../json.ts';
import type { AskPerson, ByKey, QuestionAnswer, ServerQuestion } from '../types.ts';
import { type QuestionRules, sentAnswer, sortQuestions } from './elicitation.ts';
import type { Exchange } from './exchange.ts';

/** A `tools/call` under way, and who can be asked on its behalf. */
export interface LiveCall {
  readonly exchange: Exchange;
  readonly ask?: AskPerson;
  /** Stops its limits while a person is asked; what it returns lets them go on. */
  readonly hold: () => () => void;
  /** Ends it, because asking failed. */
  readonly fail: (error: unknown) => void;
  /** It has ended, however: nobody waits for an answer any more. */
  readonly ended: AbortSignal;
}

/** Questions a server of the session era asks while its calls are under way. */
export interface LiveQuestions {
  /** @returns what ends it */
  begin(call: LiveCall): () => void;
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
/** Reasons of one session that are told. */
const MAX_REASONS = 100;
/** Of the one question a request holds. */
const KEY = 'question';

/** Nothing is under way, nothing asked. */
export function createLiveQuestions(deps: LiveQuestionsDeps): LiveQuestions {
  /** With how many questions each has asked. */
  const calls = new Map<LiveCall, number>();
  let reasons = 0;

  function onDeclined(reason: string): void {
    reasons += 1;
    if (reasons <= MAX_REASONS) deps.onDeclined(reason);
  }

  /** The call a question belongs to: the one on whose stream it came, else the only one that can ask. */
  function owner(id: JsonValue): LiveCall | undefined {
    const exchange = deps.exchangeOf(id);
    if (exchange !== undefined) return [...calls.keys()].find((call) => call.exchange === exchange);
    const able = [...calls.keys()].filter(({ ask }) => ask !== undefined);
    if (able.length > 1) onDeclined(`${able.length} calls are under way, and it names none of them`);
    return able.length === 1 ? able[0] : undefined;
  }

  async function person(
    call: LiveCall,
    ask: AskPerson,
    asked: ByKey<ServerQuestion>,
    takenBack: AbortSignal,
  ): Promise<ByKey<QuestionAnswer>> {
    const release = call.hold();
    let timer: NodeJS.Timeout | undefined;
    let giveUp = (): void => undefined;
    const nobody = new Promise<ByKey<QuestionAnswer>>((resolve) => {
      giveUp = () => resolve({});
      timer = setTimeout(giveUp, MAX_WAIT_MS);
      for (const signal of [takenBack, call.ended]) signal.addEventListener('abort', giveUp, { once: true });
    });
    try {
      return await Promise.race([ask(asked, undefined), nobody]);
    } catch (error) {
      call.fail(error);
      return {};
    } finally {
      clearTimeout(timer);
      for (const signal of [takenBack, call.ended]) signal.removeEventListener('abort', giveUp);
      release();
    }
  }

  return {
    begin(call) {
      calls.set(call, 0);
      return () => void calls.delete(call);
    },
    async answer({ id, params }, signal) {
      const call = deps.policy === 'ask' ? owner(id) : undefined;
      const rules = { ...deps, onDeclined, canAsk: call?.ask !== undefined };
      const { settled, asked } = sortQuestions({ [KEY]: params }, rules);
      const question = asked[KEY];
      if (question === undefined || call?.ask === undefined) return settled[KEY] ?? { action: 'decline' };
      const before = calls.get(call) ?? 0;
      if (before >= MAX_QUESTIONS) {
        onDeclined(`its call has asked ${MAX_QUESTIONS} questions already`);
        return { action: 'decline' };
      }
      calls.set(call, before + 1);
      return sentAnswer(question, await person(call, call.ask, asked, signal), KEY);
    },
  };
}
