import { UpstreamError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import type { OutboundResponse } from '../../outbound/types.ts';
import { failure, parseRemote, type Side } from '../failures.ts';
import { messagesIn } from '../session/exchange.ts';
import { createReopening, pauseUnless } from '../session/reopening.ts';
import { readEvents } from './event-stream.ts';
import { contentTypeOf, MAX_EVENT_BYTES } from './http-answer.ts';

export interface ListeningDeps {
  readonly side: Side;
  /** Sends the GET. */
  readonly get: (headers: Readonly<Record<string, string>>) => Promise<OutboundResponse>;
  readonly take: (message: JsonObject) => void;
  /** What the stream would have told is unknown. */
  readonly onMissed: () => void;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/**
 * The optional stream of a session on which its server speaks unasked (MCP 2025-11-25 transports, "Listening for messages
 * from the server"). A first refusal means that there is none. One that stood is opened again when it ends, continued
 * from its last event, a bounded number of times. Never fails.
 */
export async function keepListening(headers: Readonly<Record<string, string>>, deps: ListeningDeps): Promise<void> {
  const { side, signal } = deps;
  const reopening = createReopening();
  let stood = false;
  let lastEventId = '';
  let retryMs: number | undefined;

  /** @returns whether it may be opened again */
  async function listen(): Promise<boolean> {
    const resumed: Record<string, string> = lastEventId === '' ? {} : { 'last-event-id': lastEventId };
    const response = await deps.get({ ...headers, ...resumed });
    if (response.status !== 200 || contentTypeOf(response) !== 'text/event-stream') {
      response.discard();
      return response.status >= 500;
    }
    reopening.opened();
    stood = true;
    const events = readEvents(response.body, {
      maxEventLength: MAX_EVENT_BYTES,
      tooLong: () => failure(side, 'invalid_response', 'sent an event larger than 4 MiB on the listening stream'),
      onRetry: (milliseconds) => {
        retryMs = milliseconds;
      },
    });
    for await (const { id, type, data } of events) {
      lastEventId = id;
      if (data === '' || type !== 'message') continue;
      for (const message of messagesIn(parseRemote(side, data, 'on the listening stream'))) {
        if (typeof message.method === 'string') deps.take(message);
      }
    }
    return true;
  }

  while (!signal.aborted) {
    const again = await listen().catch((error: unknown) => {
      const abuse = error instanceof UpstreamError && error.code === 'invalid_response';
      if (abuse && !signal.aborted) deps.onMissed();
      return !abuse;
    });
    if (!again || !stood || signal.aborted) return;
    deps.onMissed();
    const waitMs = reopening.ended(retryMs);
    if (waitMs === undefined) return;
    await pauseUnless(signal, waitMs);
  }
}
