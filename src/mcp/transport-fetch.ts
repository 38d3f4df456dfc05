import { setMaxListeners } from 'node:events';
import type { FetchLike } from '@modelcontextprotocol/client';
import type { McpEndpoint } from '../connectors/types.ts';
import { UpstreamError } from '../errors.ts';
import { isJsonObject, type JsonObject, parseJson } from '../json.ts';
import { createBulkhead } from '../outbound/resilience.ts';
import { retryAfterMs } from '../outbound/retry-after.ts';
import type { Outbound, OutboundResponse } from '../outbound/types.ts';
import {
  type Exchange,
  isStatelessMessage,
  jsonReply,
  requestBody,
  saysListChanged,
  settle,
  type WireFacts,
} from './exchange.ts';
import { failure, httpFailure, listedVersions, parseRefusal, parseRemote, rpcFailure, type Side } from './failures.ts';
import { floodGuard, MAX_OTHERS } from './flood-guard.ts';
import { answered, contentTypeOf, MAX_ANSWER_BYTES, MAX_CALL_BYTES, readText } from './http-answer.ts';
import { readReplies, type StreamDeps } from './reply-stream.ts';

export interface WireDeps {
  readonly outbound: Outbound;
  readonly endpoint: McpEndpoint;
  readonly side: Side;
  readonly connectTimeoutMs: number;
  readonly skipTlsVerification: boolean;
  readonly now: () => number;
  /** Hands a message of the server to the SDK: requests and notifications that come on any stream. */
  readonly deliver: (message: JsonObject) => void;
  /** The server answered something, whatever it was. */
  readonly onHeard: () => void;
  readonly onListChanged: () => void;
  /** Takes the end of a session that nobody waits for: it is awaited at shutdown. */
  readonly onClosing: (closed: Promise<unknown>) => void;
}

/** The HTTP side of one session: the `fetch` under the SDK's transport, over the guarded client. */
export interface Wire {
  readonly fetch: FetchLike;
  readonly facts: WireFacts;
  /** Runs one request of the SDK as that exchange: `headers` name it towards `fetch`. */
  run<T>(exchange: Exchange, request: (headers: Readonly<Record<string, string>>) => Promise<T>): Promise<T>;
  /** Ends the listening stream and every request in flight; the end of the session can still be told to the server. */
  close(): void;
}

const EXCHANGE_HEADER = 'x-tenon-exchange';
const SSE_IDLE_MS = 60_000;
const LISTEN_IDLE_MS = 24 * 3_600_000;
const LISTEN_WINDOW_MS = 60_000;
/** Answers to requests of the server that are under way at once. */
const OWN_REPLIES = 8;
/** How long the server may take to end a session. */
const TERMINATE_MS = 2000;
/** How long an aborted request's stream outlives its cancellation notice. */
const CANCEL_GRACE_MS = 50;

/** Makes the wire of one session. Nothing is sent before the SDK asks. */
export function createWire(deps: WireDeps): Wire {
  const { side } = deps;
  const facts: WireFacts = { requested: new Set(), deviations: new Set() };
  const exchanges = new Map<string, Exchange>();
  const inFlight = new Map<unknown, AbortController>();
  const closing = new AbortController();
  const ownReplies = createBulkhead(OWN_REPLIES, MAX_OTHERS, side.destination);
  let attached = 0;
  let listening = false;

  function send(
    method: string,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
    rest: { body?: string; responseTimeoutMs: number; idleTimeoutMs: number; maxResponseBytes: number },
  ): Promise<OutboundResponse> {
    return deps.outbound.request({
      url: deps.endpoint.url,
      method,
      headers,
      signal,
      destination: side.destination,
      policy: deps.endpoint.policy,
      origins: deps.endpoint.origins,
      connectTimeoutMs: deps.connectTimeoutMs,
      redirect: 'same-origin',
      ...(deps.skipTlsVerification && { skipTlsVerification: true }),
      ...rest,
    });
  }

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
    const exchange = key === undefined ? undefined : exchanges.get(key);
    return { headers, exchange };
  }

  function takeOther(message: unknown): void {
    if (!isJsonObject(message as JsonObject)) return;
    if (saysListChanged(message as JsonObject)) deps.onListChanged();
    deps.deliver({ ...(message as JsonObject), jsonrpc: '2.0' });
  }

  async function refusal(
    response: OutboundResponse,
    method: string,
    hadSession: boolean,
    exchange?: Exchange,
  ): Promise<UpstreamError> {
    const text = await readText(response, MAX_ANSWER_BYTES, side).catch(() => '');
    const body = parseRefusal(text);
    const error = isJsonObject(body) && isJsonObject(body.error) ? body.error : undefined;
    const { status } = response;
    const versions = listedVersions(error ?? text);
    if (status === 400 && versions.length > 0 && (method === 'initialize' || error?.code === -32022)) {
      facts.supportedVersions = versions;
      return failure(
        side,
        'version_unsupported',
        `answered HTTP ${status} to ${method}, naming the protocol versions ${versions.join(', ')}`,
        {
          upstreamStatus: status,
          delivered: 'no',
        },
      );
    }
    const answer = {
      status,
      contentType: contentTypeOf(response),
      text,
      retryAfterMs: retryAfterMs(response.headers['retry-after'], deps.now()),
      location: response.headers.location,
    };
    const failed = httpFailure(side, answer, { method, hadSession });
    const plain = failed.code === 'invalid_response' || (failed.code === 'wrong_path' && error?.code === -32601);
    if (!plain || !error) return failed;
    if (exchange && typeof error.code === 'number') exchange.errorCode = error.code;
    return rpcFailure(side, method, error);
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
      response = await send('POST', headers, controller.signal, {
        body: requestBody(message, text, exchange),
        responseTimeoutMs: limit,
        idleTimeoutMs: Math.max(limit, exchange?.idleMs ?? SSE_IDLE_MS) + 1000,
        maxResponseBytes: MAX_CALL_BYTES,
      });
      deps.onHeard();
      const answer = await reply(message, response, { headers, exchange, controller });
      if (opens && unwanted) throw new Error('the session is not wanted any more');
      return answer;
    } catch (error) {
      const session = opens ? response?.headers['mcp-session-id'] : undefined;
      if (session !== undefined) deps.onClosing(end({ ...headers, 'mcp-session-id': session }).catch(() => undefined));
      throw error;
    } finally {
      clearTimeout(patience);
      inFlight.delete(message.id);
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
      if (!eraEvidence) throw await refusal(response, method, sent.headers['mcp-session-id'] !== undefined, exchange);
      const text = await readText(response, MAX_ANSWER_BYTES, side).catch(() => '');
      parseRemote(side, text, `in answer to ${method}`);
      return answered(status, response.headers, text);
    }
    const take = guarded(`in answer to ${method}`);
    if (contentTypeOf(response) === 'text/event-stream') {
      const found = await readReplies(message, response, {
        ...streamDeps(sent.headers, sent.controller),
        takeOther: take,
        idleMs: exchange?.idleMs ?? SSE_IDLE_MS,
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

  /** `takeOther` for one answer, or with `everyMs` for a stream that stays open. */
  function guarded(where: string, everyMs?: number): (message: JsonObject) => void {
    const tooMany = (): Error =>
      failure(side, 'invalid_response', `sent more than ${MAX_OTHERS} messages of its own ${where}`);
    return floodGuard(takeOther, tooMany, { now: deps.now, ...(everyMs !== undefined && { everyMs }) });
  }

  function streamDeps(headers: Record<string, string>, controller: AbortController): Omit<StreamDeps, 'takeOther'> {
    return {
      side,
      signal: controller.signal,
      resume: (lastEventId) =>
        send('GET', { ...headers, accept: 'text/event-stream', 'last-event-id': lastEventId }, controller.signal, {
          responseTimeoutMs: deps.connectTimeoutMs,
          idleTimeoutMs: LISTEN_IDLE_MS,
          maxResponseBytes: MAX_CALL_BYTES,
        }),
    };
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
    const signal = init?.signal ? AbortSignal.any([init.signal, closing.signal]) : closing.signal;
    const deliver = async (): Promise<Response> => {
      const response = await send('POST', headers, signal, {
        body: text,
        responseTimeoutMs: deps.connectTimeoutMs,
        idleTimeoutMs: deps.connectTimeoutMs,
        maxResponseBytes: MAX_ANSWER_BYTES,
      });
      deps.onHeard();
      if (response.status < 200 || response.status >= 300) {
        throw await refusal(response, method, headers['mcp-session-id'] !== undefined);
      }
      await readText(response, MAX_ANSWER_BYTES, side).catch(() => response.discard());
      return answered(202, {}, '');
    };
    return message.method === undefined ? ownReplies.run(deliver, signal) : deliver();
  }

  /** The optional stream of a session: tried once, any refusal means that there is none. */
  async function listen(headers: Record<string, string>): Promise<void> {
    if (listening) return;
    listening = true;
    try {
      const response = await send('GET', headers, closing.signal, {
        responseTimeoutMs: LISTEN_IDLE_MS,
        idleTimeoutMs: LISTEN_IDLE_MS,
        maxResponseBytes: Number.MAX_SAFE_INTEGER,
      });
      if (response.status !== 200 || contentTypeOf(response) !== 'text/event-stream') {
        response.discard();
        return;
      }
      await readReplies(undefined, response, {
        ...streamDeps(headers, closing),
        takeOther: guarded('on the listening stream', LISTEN_WINDOW_MS),
        idleMs: LISTEN_IDLE_MS,
        resumable: false,
      });
    } catch (error) {
      // No stream here, or no longer: calls and lists go on without it. What it would have told is unknown.
      if (error instanceof UpstreamError && error.code === 'invalid_response') deps.onListChanged();
    }
  }

  async function end(headers: Record<string, string>): Promise<Response> {
    const response = await send('DELETE', headers, AbortSignal.timeout(TERMINATE_MS), {
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
      void listen(headersOf(init).headers);
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
    close: () => closing.abort(),
  };
}
