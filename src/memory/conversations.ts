import { INVALID_ARGUMENT, RESOURCE_NOT_FOUND } from '../errors.ts';
import type { Principal } from '../identity/principal.ts';
import { newId } from '../ids.ts';
import type { JsonObject } from '../json.ts';
import type { Settings } from '../settings/types.ts';
import type { Unit } from '../store/database.ts';
import type { MemoryStore, MessageRow, NewMemory } from '../store/memory.ts';
import { createConversationLocks } from './conversation-locks.ts';
import { ownerFor, ownMemory, requireMemoryFeature } from './service.ts';

export interface FinishedTurn {
  readonly question: string;
  readonly answer: string;
}

/** One step of a turn, kept below its message. */
export interface Trace {
  readonly origin: string;
  readonly input: string;
  readonly response: string;
}

/** Where a turn takes place. */
export interface Conversation {
  readonly memoryId: string;
  /** A new memory, which is stored with its first message. */
  readonly unsaved?: NewMemory;
}

/** A turn that is being answered. */
export interface OpenTurn {
  readonly messageId: string;
  /** Traces are numbered 1, 2, … in the order of the calls; the same one again, by a transaction that is repeated, keeps its number. */
  trace(trace: Trace, within?: Unit): Promise<void>;
  finish(response: string, additionalInfo: JsonObject, within?: Unit): Promise<void>;
}

/** What agents do with memory: contract 7.4. */
export interface Conversations {
  /** A new memory, or the one that is named. @throws RESOURCE_NOT_FOUND, UNAUTHORIZED, FEATURE_DISABLED */
  open(principal: Principal, memoryId: string | undefined, name: string): Promise<Conversation>;
  /** A message of this memory. @throws RESOURCE_NOT_FOUND */
  message(memoryId: string, messageId: string): Promise<MessageRow>;
  /** The newest `limit` finished turns, oldest first; only those before `before` when it is given. */
  history(memoryId: string, limit: number, before?: MessageRow): Promise<FinishedTurn[]>;
  /**
   * Stores the question with an empty answer, or takes up the message that is given; `within` a transaction. `traces`: how
   * many are stored below it already.
   */
  begin(
    conversation: Conversation,
    question: string,
    options?: { messageId?: string | undefined; traces?: number; within?: Unit },
  ): Promise<OpenTurn>;
  /** Turns of one memory run one after another in this process, in the order they came; `waited`: there was one before. */
  exclusively<T>(memoryId: string, signal: AbortSignal, work: (waited: boolean) => Promise<T>): Promise<T>;
}

export interface ConversationsDeps {
  readonly store: MemoryStore;
  readonly settings: Pick<Settings, 'flag'>;
}

const LONGEST_NAME = 1000;
/** Turns looked through for those before a given one. */
const LONGEST_LOOK_BACK = 10_000;

/** Conversations over a store; the order of turns is kept within this process. */
export function createConversations({ store, settings }: ConversationsDeps): Conversations {
  const locks = createConversationLocks();
  return {
    async open(principal, memoryId, name) {
      requireMemoryFeature(settings);
      if (memoryId !== undefined) return { memoryId: (await ownMemory(store, principal, memoryId)).id };
      const id = newId();
      return { memoryId: id, unsaved: { id, name: name.slice(0, LONGEST_NAME), ...ownerFor(principal) } };
    },

    async message(memoryId, messageId) {
      const row = await store.message(messageId);
      if (row?.memoryId !== memoryId) throw new RESOURCE_NOT_FOUND(`Message [${messageId}] not found`);
      if (row.parentMessageId !== undefined) {
        throw new INVALID_ARGUMENT(`Message [${messageId}] is a trace; name the message of the question it belongs to`);
      }
      return row;
    },

    async history(memoryId, limit, before) {
      if (limit === 0) return [];
      const rows = await store.latestFinished(memoryId, before ? LONGEST_LOOK_BACK : limit);
      const earlier = before ? rows.filter((row) => row.seq < before.seq).slice(-limit) : rows;
      return earlier.map((row) => ({ question: row.input ?? '', answer: row.response ?? '' }));
    },

    async begin({ memoryId, unsaved }, question, { messageId, traces: stored = 0, within } = {}) {
      const joined = joining(within);
      const id = messageId ?? newId();
      if (unsaved !== undefined) await store.create(unsaved, joined);
      if (messageId === undefined) await append({ id, memoryId, input: question, response: '' }, joined);
      let traces = stored;
      const numbers = new WeakMap<Trace, number>();
      async function append(...message: Parameters<MemoryStore['append']>): Promise<void> {
        if ((await store.append(...message)) === undefined) {
          throw new RESOURCE_NOT_FOUND(`Memory [${memoryId}] not found`);
        }
      }
      return {
        messageId: id,
        trace(trace, unit) {
          const traceNumber = numbers.get(trace) ?? traces + 1;
          traces = Math.max(traces, traceNumber);
          numbers.set(trace, traceNumber);
          const message = { id: newId(), memoryId, parentMessageId: id, traceNumber, ...trace };
          return append(message, { touch: false, ...joining(unit) });
        },
        async finish(response, additionalInfo, unit) {
          const answer = { response, additionalInfo: JSON.stringify(additionalInfo) };
          const found = await store.answer(id, answer, joining(unit));
          if (!found) throw new RESOURCE_NOT_FOUND(`Message [${id}] not found`);
        },
      };
    },

    exclusively: (memoryId, signal, work) => locks.run(memoryId, signal, work),
  };
}

function joining(within: Unit | undefined): { within?: Unit } {
  return within === undefined ? {} : { within };
}
