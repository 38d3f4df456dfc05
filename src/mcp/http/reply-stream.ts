import { UpstreamError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import type { OutboundResponse } from '../../outbound/types.ts';
import { failure, parseRemote, type Side } from '../failures.ts';
import { isReplyTo, messagesIn } from '../session/exchange.ts';
import { readEvents, type StreamEvent } from './event-stream.ts';
import { contentTypeOf, MAX_EVENT_BYTES } from './http-answer.ts';

interface StreamDeps {
  readonly side: Side;
  /** Ends the reading at once. */
  readonly signal: AbortSignal;
  /** A message that is not the reply: a request or a notification of the server. */
  readonly takeOther: (message: JsonObject) => void;
  /** Asks for the rest of a broken stream (session era, MCP 2025-11-25 transports, Resumability). */
  readonly resume: (lastEventId: string) => Promise<OutboundResponse>;
}

const MAX_RESUMES = 3;
const RESUME_AFTER_MS = 1000;
const MAX_RESUME_AFTER_MS = 10_000;
const DRAIN_MS = 200;

/**
 * Reads the SSE answer to `request` until the reply with its id; what comes before goes to `takeOther`. A stream that
 * ends, breaks or falls silent first is resumed where it can be, else it is a failure at once. However the resuming fails,
 * it says nothing about the request, which was sent: that one is `stream_broken`, and may have been carried out.
 * @throws UpstreamError `stream_broken`, `invalid_response`
 */
export async function readReplies(
  request: JsonObject,
  first: OutboundResponse,
  options: StreamDeps & { idleMs: number; resumable: boolean },
): Promise<{ reply: JsonObject; bytes: number }> {
  const { side, signal } = options;
  const method = String(request.method);
  let response = first;
  let bytes = 0;
  let lastEventId = '';
  let retryMs = RESUME_AFTER_MS;

  const broken = (what: string, cause?: unknown): UpstreamError =>
    failure(side, 'stream_broken', `ended the stream before it answered ${method}${what}`, {
      retryable: true,
      delivered: 'unknown',
      ...(cause !== undefined && { cause }),
    });

  async function* counted(): AsyncGenerator<Uint8Array> {
    for await (const chunk of response.body) {
      bytes += chunk.byteLength;
      yield chunk;
    }
  }

  function take(event: StreamEvent, resumed: boolean): JsonObject | undefined {
    lastEventId = event.id;
    if (event.data === '' || event.type !== 'message') return undefined;
    for (const item of messagesIn(parseRemote(side, event.data, `in answer to ${method}`))) {
      if (typeof item.method === 'string') options.takeOther(item);
      else if (resumed && item.error !== undefined && (item.id === undefined || item.id === null))
        throw failure(side, 'invalid_response', `answered ${method} with an error about the resuming of its stream`);
      else if (isReplyTo(request, item)) return item;
      else throw failure(side, 'invalid_response', `answered ${method} without the reply to it (id mismatch)`);
    }
    return undefined;
  }

  for (let resumes = 0; ; resumes += 1) {
    const events = readEvents(counted(), {
      maxEventLength: MAX_EVENT_BYTES,
      tooLong: () => failure(side, 'invalid_response', `sent an event larger than 4 MiB in answer to ${method}`),
      onRetry: (milliseconds) => {
        retryMs = Math.min(milliseconds, MAX_RESUME_AFTER_MS);
      },
    });
    let cause: unknown;
    try {
      for (;;) {
        const step = await nextWithin(events, options.idleMs, signal, () =>
          failure(side, 'stream_broken', `sent nothing for ${options.idleMs / 1000} s in answer to ${method}`),
        );
        if (step.done) break;
        const reply = take(step.value, resumes > 0);
        if (reply !== undefined) {
          void drain(events, response, (event) => take(event, false));
          return { reply, bytes };
        }
      }
    } catch (error) {
      response.discard();
      if (signal.aborted || (error instanceof Error && 'code' in error && error.code === 'invalid_response'))
        throw error;
      cause = error;
    }
    if (!options.resumable || lastEventId === '' || resumes === MAX_RESUMES) {
      throw broken('', cause);
    }
    await pause(retryMs, signal);
    response = await options.resume(lastEventId).catch((error: unknown) => {
      if (signal.aborted) throw error;
      const why = error instanceof UpstreamError ? `: ${error.message}` : '';
      throw broken(` and could not be asked for the rest${why}`, error);
    });
    if (response.status !== 200 || contentTypeOf(response) !== 'text/event-stream') {
      response.discard();
      throw broken(` and did not resume it (HTTP ${response.status})`);
    }
  }
}

/** Reads what little may follow the reply, so that the connection can be used again. */
async function drain(
  events: AsyncGenerator<StreamEvent>,
  response: OutboundResponse,
  take: (event: StreamEvent) => unknown,
): Promise<void> {
  const timer = setTimeout(() => response.discard(), DRAIN_MS);
  try {
    for await (const event of events) take(event);
  } catch {
    // The reply is there; what breaks after it does not matter.
    response.discard();
  } finally {
    clearTimeout(timer);
  }
}

/** The next event, within `idleMs` and while `signal` is not aborted. */
function nextWithin(
  events: AsyncGenerator<StreamEvent>,
  idleMs: number,
  signal: AbortSignal,
  idle: () => Error,
): Promise<IteratorResult<StreamEvent>> {
  return new Promise((resolve, reject) => {
    const aborted = (): void => settle(() => reject(new Error('aborted')));
    const timer = setTimeout(() => settle(() => reject(idle())), idleMs);
    const settle = (act: () => void): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', aborted);
      act();
    };
    if (signal.aborted) return aborted();
    signal.addEventListener('abort', aborted, { once: true });
    events.next().then(
      (step) => settle(() => resolve(step)),
      (error) => settle(() => reject(error)),
    );
  });
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const aborted = (): void => {
      clearTimeout(timer);
      reject(new Error('aborted'));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', aborted);
      resolve();
    }, milliseconds);
    signal.addEventListener('abort', aborted, { once: true });
  });
}
