import { StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { Channel } from '../session/channel.ts';
import { createWire, type WireDeps } from './transport-fetch.ts';

/** How long the server may take to end a session. */
const TERMINATE_MS = 2000;

/** A channel to a remote server, over Streamable HTTP. */
export function createHttpChannel(deps: Omit<WireDeps, 'deliver'>): Channel {
  const wire = createWire({ ...deps, deliver: (message) => transport.onmessage?.(message as never) });
  const transport = new StreamableHTTPClientTransport(new URL(deps.endpoint.url), {
    fetch: wire.fetch,
    reconnectionOptions: {
      maxRetries: 0,
      initialReconnectionDelay: 1000,
      maxReconnectionDelay: 1000,
      reconnectionDelayGrowFactor: 1,
    },
  });
  return {
    transport,
    facts: wire.facts,
    run: wire.run,
    ...(wire.exchangeOf && { exchangeOf: wire.exchangeOf }),
    async terminate() {
      if (transport.sessionId === undefined) return;
      let timer: NodeJS.Timeout | undefined;
      const patience = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, TERMINATE_MS);
      });
      await Promise.race([transport.terminateSession().catch(() => undefined), patience]);
      clearTimeout(timer);
    },
    async close() {
      wire.close();
    },
  };
}
