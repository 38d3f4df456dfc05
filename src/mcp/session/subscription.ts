import type { Client } from '@modelcontextprotocol/client';
import { UNREACHABLE } from '../failure-kinds.ts';
import type { Side } from '../failures.ts';
import { asFailure } from './connect.ts';
import { createReopening, pauseUnless } from './reopening.ts';

export interface SubscriptionDeps {
  readonly client: Pick<Client, 'listen'>;
  readonly side: Side;
  /** For the acknowledgement, in milliseconds. */
  readonly limitMs: number;
  /** What the stream would have told is unknown. */
  readonly onMissed: () => void;
  /** Keeps it from being opened again; a stream that stands ends with the client. */
  readonly signal: AbortSignal;
}

/**
 * Listens for changes of the tool list (MCP 2026-07-28, `subscriptions/listen`), again after each end, a bounded number
 * of times in a row. A refusal means that there is no such stream: the lifetime of the list decides then. Never fails.
 */
export async function keepSubscribed({ client, side, limitMs, onMissed, signal }: SubscriptionDeps): Promise<void> {
  const reopening = createReopening();
  for (let stood = false; !signal.aborted; ) {
    try {
      const subscription = await client.listen({ toolsListChanged: true }, { timeout: limitMs });
      reopening.opened();
      if (stood) onMissed();
      stood = true;
      await subscription.closed;
      if (!signal.aborted) onMissed();
    } catch (error) {
      const { code } = asFailure(side, 'subscriptions/listen', error, limitMs);
      if (!UNREACHABLE.has(code) && code !== 'stream_broken' && code !== 'server_error') return;
    }
    const waitMs = signal.aborted ? undefined : reopening.ended();
    if (waitMs === undefined) return;
    await pauseUnless(signal, waitMs);
  }
}
