import type { Transport } from '@modelcontextprotocol/client';
import type { JsonObject } from '../../json.ts';
import type { Exchange, WireFacts } from './exchange.ts';

/** How messages reach one server and come back: requests over HTTP, or the pipes of a child process. */
export interface Channel {
  /** What the protocol library speaks through; not started yet. */
  readonly transport: Transport;
  readonly facts: WireFacts;
  /** Runs one request of the SDK as that exchange: `headers` name it towards the channel. */
  run<T>(exchange: Exchange, request: (headers: Readonly<Record<string, string>>) => Promise<T>): Promise<T>;
  /** The exchange on whose answer that request of the server came; absent or `undefined` where this cannot be told. */
  readonly exchangeOf?: (requestId: unknown) => Exchange | undefined;
  /** Tells the server that its session is over, and waits for it a little; never fails. */
  terminate(): Promise<void>;
  /** Ends every request in flight, and the process of a local server; settles when nothing of it is left. */
  close(): Promise<void>;
}

/** What a channel tells its owner. */
export interface ChannelListener {
  /** The server answered a request of ours, or began to. What it says unasked hides that it answers none. */
  readonly onHeard: () => void;
  readonly onListChanged: () => void;
  /** The stream on which it tells of changes has ended: what it would have told is unknown. */
  readonly onMissed: () => void;
  /** Takes the end of something that nobody waits for: it is awaited at shutdown. */
  readonly onClosing: (closed: Promise<unknown>) => void;
  /** The server is gone without having been told to: its process ended, its stream cannot be listened to any more. */
  readonly onGone: (error: Error) => void;
}

/** Makes a channel of its own for each attempt to connect. `deliver` is the SDK's, for messages that are no reply. */
export type OpenChannel = () => Channel;

/** Header of a request that names its exchange; it never leaves the process. */
export const EXCHANGE_HEADER = 'x-tenon-exchange';

/** Looks exchanges up by the key that `run` gave them. */
export interface Exchanges {
  run: Channel['run'];
  of(key: string | undefined): Exchange | undefined;
}

/** No exchange is under way. */
export function createExchanges(): Exchanges {
  const exchanges = new Map<string, Exchange>();
  let attached = 0;
  return {
    async run(exchange, request) {
      attached += 1;
      const key = String(attached);
      exchanges.set(key, exchange);
      try {
        return await request({ [EXCHANGE_HEADER]: key });
      } finally {
        exchanges.delete(key);
      }
    },
    of: (key) => (key === undefined ? undefined : exchanges.get(key)),
  };
}

/** A message of the server, as the SDK takes it. */
export type Deliver = (message: JsonObject) => void;
