import type { JsonObject } from '../json.ts';
import type { EventSink, EventType, PlatformEvent } from './events.ts';

/** An event as it is told: numbered, timed, and its text made once for all who read it. */
export interface NumberedEvent {
  /** Grows with each event, over restarts too. */
  readonly id: number;
  readonly type: EventType;
  /** JSON of the data, `time` (epoch milliseconds) included. */
  readonly text: string;
  readonly data: JsonObject;
  readonly scope: PlatformEvent['scope'];
}

/** What comes next for a reader: an event; `quiet`: none for a while; `lost`: some are missing here; `ended`: no more. */
export type NextEvent = NumberedEvent | 'quiet' | 'lost' | 'ended';

export interface EventSubscription {
  /** The next event, or `quiet` after `waitMs` without one. One caller at a time. */
  next(waitMs: number): Promise<NextEvent>;
  /** Resolves once no more events are taken in, whoever ended it; some may still wait to be read. */
  readonly ended: Promise<void>;
  close(): void;
}

export interface EventBus extends EventSink {
  /** Sees each event as it is published; it must be quick. @returns what ends it */
  listen(listener: (event: NumberedEvent) => void): () => void;
  /**
   * Reads the events from now on, or those after the number `after` that are still kept. A reader that falls behind gets
   * `lost` and then `ended`: it never makes the others wait, and never more than a bounded number wait for it.
   */
  subscribe(options?: { readonly after?: number }): EventSubscription;
  /** Subscriptions that are open. */
  readers(): number;
  /** Ends every subscription. */
  close(): void;
}

export interface EventBusDeps {
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Events that are kept for readers who come back. */
  readonly kept?: number;
  /** Events that may wait for one reader. */
  readonly maxWaiting?: number;
}

/** Longest text of one event; beyond it only its short members are told. */
const MAX_TEXT = 16_384;
const MAX_MEMBER = 1000;
/** Numbers begin at the microsecond of the start, so that those of an earlier process are smaller. */
const NUMBERS_PER_MS = 1000;

/** Passes events on within this process, the newest thousand kept. */
export function createEventBus({ now, kept = 1000, maxWaiting = 1000 }: EventBusDeps): EventBus {
  const ring: NumberedEvent[] = [];
  const listeners = new Set<(event: NumberedEvent) => void>();
  const open = new Set<EventSubscription>();
  const start = now() * NUMBERS_PER_MS;
  let last = start;
  let forgotten = start;

  function subscribe({ after }: { readonly after?: number } = {}): EventSubscription {
    const missed = after === undefined ? [] : ring.filter(({ id }) => id > after);
    const waiting: (NumberedEvent | 'lost')[] = [...missed];
    if (after !== undefined && after < forgotten) waiting.unshift('lost');
    let isEnded = false;
    let wake: (() => void) | undefined;
    let settle = (): void => undefined;
    const ended = new Promise<void>((resolve) => {
      settle = resolve;
    });

    const take = (event: NumberedEvent): void => {
      if (waiting.length < maxWaiting) waiting.push(event);
      else {
        waiting.splice(0, waiting.length, 'lost');
        end();
      }
      wake?.();
    };
    const end = (): void => {
      isEnded = true;
      listeners.delete(take);
      open.delete(subscription);
      settle();
    };

    const subscription: EventSubscription = {
      async next(waitMs) {
        if (waiting.length === 0 && !isEnded) {
          let timer: NodeJS.Timeout | undefined;
          await new Promise<void>((resolve) => {
            wake = resolve;
            timer = setTimeout(resolve, waitMs);
          });
          clearTimeout(timer);
          wake = undefined;
        }
        return waiting.shift() ?? (isEnded ? 'ended' : 'quiet');
      },
      ended,
      close() {
        waiting.length = 0;
        end();
        wake?.();
      },
    };
    open.add(subscription);
    listeners.add(take);
    return subscription;
  }

  return {
    publish({ type, data, scope }) {
      last += 1;
      const timed = bounded({ time: now(), ...data });
      const event: NumberedEvent = { id: last, type, scope, ...timed };
      ring.push(event);
      if (ring.length > kept) forgotten = ring.shift()?.id ?? forgotten;
      for (const listener of [...listeners]) listener(event);
    },
    listen(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    subscribe,
    readers: () => open.size,
    close() {
      for (const subscription of [...open]) subscription.close();
    },
  };
}

function bounded(data: JsonObject): { readonly data: JsonObject; readonly text: string } {
  const text = JSON.stringify(data);
  if (text.length <= MAX_TEXT) return { data, text };
  const short = Object.fromEntries(
    Object.entries(data).filter(([, value]) => JSON.stringify(value).length <= MAX_MEMBER),
  );
  const cut = { ...short, cut: true };
  return { data: cut, text: JSON.stringify(cut) };
}
