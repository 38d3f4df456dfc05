import { setMaxListeners } from 'node:events';
import type { FetchLike } from '@modelcontextprotocol/client';
import { isJsonObject, type JsonObject, parseJson } from '../../json.ts';
import { createBulkhead } from '../../outbound/resilience.ts';
import type { OutboundResponse } from '../../outbound/types.ts';
import { failure, parseRemote } from '../failures.ts';
import {
  type Channel,
  type ChannelListener,
  createExchanges,
  type Deliver,
  EXCHANGE_HEADER,
} from '../session/channel.ts';
import {
  delivered,
  type Exchange,
  isStatelessMessage,
  jsonReply,
  requestBody,
  saysListChanged,
  settle,
  type WireFacts,
} from '../session/exchange.ts';
import { floodGuard, MAX_OTHERS } from './flood-guard.ts';
import { answered, contentTypeOf, MAX_ANSWER_BYTES, MAX_CALL_BYTES, readText } from './http-answer.ts';
import { refusalOf } from './http-refusal.ts';
import { createSender, type SenderDeps } from './http-sender.ts';
import { keepListening } from './listening-stream.ts';
import { readReplies } from './reply-stream.ts';

export interface WireDeps extends SenderDeps, Omit<ChannelListener, 'onGone'> {
  readonly now: () => number;
  /** Hands a message of the server to the SDK: requests and notifications that come on any stream. */
  readonly deliver: Deliver;
}

/** The HTTP side of one session: the `fetch` under the SDK's transport, over the guarded client. */
export interface Wire extends Pick<Channel, 'facts' | 'run' | 'exchangeOf'> {
  readonly fetch: FetchLike;
  /** Ends the listening stream and every request in flight; the end of the session can still be told to the server. */
  close(): void;
}

const SSE_IDLE_MS = 60_000;
/** Its answer is a stream that stays open (MCP 2026-07-28). */
const SUBSCRIBE = 'subscriptions/listen';
const LISTEN_IDLE_MS = 24 * 3_600_000;
const LISTEN_WINDOW_MS = 60_000;
/** Answers to requests of the server that are under way at once. */
const OWN_REPLIES = 8;
/** How long the server may take to end a session. */
const TERMINATE_MS = 2000;
/** Beyond connecting and waiting for the status: for the rest of a refusal. */
const ONE_WAY_GRACE_MS = 1000;
/** How long an aborted request's stream outlives its cancellation notice. */
const CANCEL_GRACE_MS = 50;

/** Makes the wire of one session. Nothing is sent before the SDK asks. */
export function createWire(deps: WireDeps): Wire {
  const { side } = deps;
  const send = createSender(deps);
  const facts: WireFacts = { requested: new Set(), deviations: new Set() };
  const exchanges = createExchanges();
  const inFlight = new Map<unknown, AbortController>();
  const closing = new AbortController();
  const ownReplies = createBulkhead(OWN_REPLIES, MAX_OTHERS, side.destination);
  /** Requests of the server by their id: the exchange on whose answer they came. */
  const asked = new Map<unknown, Exchange>();
  let listening = false;

  /** Configured headers first: those the transport owns win. */
  function headersOf(init: RequestInit | undefined): {
    headers: Record<string, string>;
    exchange: Exchange | undefined;
  } {
    const headers: Record<string, string> = {};
    for (const [name, value] of Object.entries(deps.endpoint.headers)) headers[name.toLowerCase()] = value;
    for (const [name, value] of (init?.headers as Headers | undefined) ?? []) headers[name] = value;
    const key = headers[EXCHANGE_HEADER];
    delete headers[EXCHANGE_HEADER];
    const exchange = exchanges.of(key);
    return { headers, exchange };
  }

  function takeOther(message: JsonObject, exchange?: Exchange): void {
    if (exchange !== undefined) deps.onHeard();
    if (saysListChanged(message)) deps.onListChanged();
    if (exchange !== undefined && message.id !== undefined) asked.set(message.id, exchange);
    deps.deliver(delivered(message));
  }

  /**
   * `initialize` is not cut at once: a session that its answer still opens is ended, where it would be left for ever.
   */
  async function request(message: JsonObject, text: string, init: RequestInit | undefined): Promise<Response> {
    const { headers, exchange } = headersOf(init);
    const controller = new AbortController();
    const opens = message.method === 'initialize';
    let unwanted = false;
    let sent = false;
    let response: OutboundResponse | undefined;
    let patience: NodeJS.Timeout | undefined;
    const abort = (): void => {
      unwanted = true;
      if (opens && sent) patience ??= setTimeout(() => controller.abort(), TERMINATE_MS);
      else controller.abort();
    };
    const signals = [init?.signal, closing.signal];
    for (const signal of signals) {
      if (!signal) continue;
      if (signal.aborted) abort();
      // Each request in flight listens, and leaves when it ends: many at once are no leak.
      setMaxListeners(0, signal);
      signal.addEventListener('abort', abort, { once: true });
    }
    if (!opens) inFlight.set(message.id, controller);
    sent = true;
    facts.requested.add(String(message.method));
    try {
      const limit = exchange?.responseTimeoutMs ?? deps.connectTimeoutMs;
      const subscribes = message.method === SUBSCRIBE;
      response = await send('POST', {
        headers,
        signal: controller.signal,
        body: requestBody(message, text, exchange),
        responseTimeoutMs: limit,
        idleTimeoutMs: subscribes ? LISTEN_IDLE_MS : Math.max(limit, exchange?.idleMs ?? SSE_IDLE_MS) + 1000,
        maxResponseBytes: subscribes ? Number.MAX_SAFE_INTEGER : MAX_CALL_BYTES,
      });
      if (response.status >= 200 && response.status < 300) deps.onHeard();
      const answer = await reply(message, response, { headers, exchange, controller });
      if (!subscribes) deps.onHeard();
      if (opens && unwanted) throw new Error('the session is not wanted any more');
      return answer;
    } catch (error) {
      const session = opens ? response?.headers['mcp-session-id'] : undefined;
      if (session !== undefined) deps.onClosing(end({ ...headers, 'mcp-session-id': session }).catch(() => undefined));
      throw error;
    } finally {
      clearTimeout(patience);
      inFlight.delete(message.id);
      for (const [id, of] of asked) if (of === exchange) asked.delete(id);
      for (const signal of signals) signal?.removeEventListener('abort', abort);
    }
  }

  async function reply(
    message: JsonObject,
    response: OutboundResponse,
    sent: { headers: Record<string, string>; exchange: Exchange | undefined; controller: AbortController },
  ): Promise<Response> {
    const method = String(message.method);
    const { status } = response;
    const { exchange } = sent;
    if (status < 200 || status >= 300) {
      const eraEvidence =
        method === 'server/discover' &&
        exchange === undefined &&
        status >= 400 &&
        status < 500 &&
        ![401, 403, 429].includes(status);
      if (!eraEvidence) {
        const hadSession = sent.headers['mcp-session-id'] !== undefined;
        throw await refusalOf(side, response, { method, hadSession, exchange }, { facts, now: deps.now });
      }
      const text = await readText(response, MAX_ANSWER_BYTES, side).catch(() => '');
      parseRemote(side, text, `in answer to ${method}`);
      return answered(status, response.headers, text);
    }
    const subscribes = method === SUBSCRIBE;
    const take = guarded(`in answer to ${method}`, { exchange, ...(subscribes && { everyMs: LISTEN_WINDOW_MS }) });
    if (contentTypeOf(response) === 'text/event-stream') {
      const found = await readReplies(message, response, {
        side,
        signal: sent.controller.signal,
        resume: (lastEventId) =>
          send('GET', {
            headers: { ...sent.headers, accept: 'text/event-stream', 'last-event-id': lastEventId },
            signal: sent.controller.signal,
            responseTimeoutMs: deps.connectTimeoutMs,
            idleTimeoutMs: LISTEN_IDLE_MS,
            maxResponseBytes: MAX_CALL_BYTES,
          }),
        takeOther: take,
        idleMs: subscribes ? LISTEN_IDLE_MS : (exchange?.idleMs ?? SSE_IDLE_MS),
        resumable: !isStatelessMessage(message),
      });
      if (exchange) exchange.bytes = found.bytes;
      return answered(status, response.headers, settle(side, message, found.reply, exchange, facts));
    }
    const text = await readText(response, MAX_ANSWER_BYTES, side);
    if (exchange) exchange.bytes = Buffer.byteLength(text);
    return answered(
      status,
      response.headers,
      settle(
        side,
        message,
        jsonReply(side, message, { status, type: contentTypeOf(response), text }, take),
        exchange,
        facts,
      ),
    );
  }

  /** `takeOther` for the answer of one exchange, or with `everyMs` for a stream that stays open. */
  function guarded(
    where: string,
    { exchange, everyMs }: { exchange?: Exchange | undefined; everyMs?: number },
  ): (message: JsonObject) => void {
    const tooMany = (): Error =>
      failure(side, 'invalid_response', `sent more than ${MAX_OTHERS} messages of its own ${where}`);
    const take = (message: JsonObject): void => takeOther(message, exchange);
    return floodGuard(take, tooMany, { now: deps.now, ...(everyMs !== undefined && { everyMs }) });
  }

  /** Notifications and our own replies: any 2xx is success, whatever its body. */
  async function oneWay(message: JsonObject, text: string, init: RequestInit | undefined): Promise<Response> {
    const { headers } = headersOf(init);
    const method = typeof message.method === 'string' ? message.method : 'a reply';
    const params = isJsonObject(message.params) ? message.params : {};
    if (method === 'notifications/cancelled') {
      const cancelled = inFlight.get(params.requestId);
      setTimeout(() => cancelled?.abort(), CANCEL_GRACE_MS);
    }
    const limit = AbortSignal.timeout(2 * deps.connectTimeoutMs + ONE_WAY_GRACE_MS);
    const signal = AbortSignal.any([...(init?.signal ? [init.signal] : []), closing.signal, limit]);
    const deliver = async (): Promise<Response> => {
      const response = await send('POST', {
        headers,
        signal,
        body: text,
        responseTimeoutMs: deps.connectTimeoutMs,
        idleTimeoutMs: deps.connectTimeoutMs,
        maxResponseBytes: MAX_ANSWER_BYTES,
      });
      if (response.status < 200 || response.status >= 300) {
        const hadSession = headers['mcp-session-id'] !== undefined;
        throw await refusalOf(side, response, { method, hadSession }, { facts, now: deps.now });
      }
      response.discard();
      return answered(202, {}, '');
    };
    return message.method === undefined ? ownReplies.run(deliver, signal) : deliver();
  }

  function listen(headers: Readonly<Record<string, string>>): void {
    if (listening) return;
    listening = true;
    void keepListening(headers, {
      side,
      get: (fields) =>
        send('GET', {
          headers: fields,
          signal: closing.signal,
          responseTimeoutMs: LISTEN_IDLE_MS,
          idleTimeoutMs: LISTEN_IDLE_MS,
          maxResponseBytes: Number.MAX_SAFE_INTEGER,
        }),
      take: guarded('on the listening stream', { everyMs: LISTEN_WINDOW_MS }),
      onMissed: deps.onMissed,
      signal: closing.signal,
    });
  }

  async function end(headers: Record<string, string>): Promise<Response> {
    const response = await send('DELETE', {
      headers,
      signal: AbortSignal.timeout(TERMINATE_MS),
      responseTimeoutMs: deps.connectTimeoutMs,
      idleTimeoutMs: deps.connectTimeoutMs,
      maxResponseBytes: MAX_ANSWER_BYTES,
    });
    response.discard();
    return answered(response.status, {}, '');
  }

  const wireFetch: FetchLike = async (_url, init) => {
    const method = init?.method ?? 'GET';
    if (method === 'GET') {
      listen(headersOf(init).headers);
      return answered(405, {}, '');
    }
    if (method === 'DELETE') return end(headersOf(init).headers);
    const text = String(init?.body ?? '');
    const message = parseJson(text);
    if (!isJsonObject(message)) throw new Error('the SDK sent a message that is not a JSON object');
    const isRequest = typeof message.method === 'string' && message.id !== undefined;
    if (!isRequest) return oneWay(message, text, init);
    const answer = request(message, text, init);
    if (message.method === 'initialize') deps.onClosing(answer);
    return answer;
  };

  return {
    fetch: wireFetch,
    facts,
    run: exchanges.run,
    exchangeOf: (requestId) => asked.get(requestId),
    close: () => closing.abort(),
  };
}
