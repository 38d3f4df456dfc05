import type { GetPromptRequest, ReadResourceRequest } from '@modelcontextprotocol/client';
import type { JsonObject } from '../../json.ts';
import { METHOD_NOT_FOUND } from '../failures.ts';
import type { Limit } from '../remedies.ts';
import type { McpCallResult } from '../types.ts';
import { asFailure, type ConnectDeps, type Connected, connect, type VersionPlan } from './connect.ts';
import { isStateless } from './exchange.ts';
import { type InputRequired, type RoundReply, readInputRequired, replyParams, throughRounds } from './multi-round.ts';
import { makeCall, type SessionCall } from './session-call.ts';
import { type ListAnswer, type ListLimits, type ListMethod, listItems } from './session-list.ts';
import { exchangeOf, isUnanswered, type SessionParts } from './session-parts.ts';
import { keepSubscribed } from './subscription.ts';

export type { ListAnswer, ListLimits };

/** One open conversation with one server. Its session id lives in the transport and nowhere else. */
export interface Session {
  readonly protocolVersion: string;
  readonly stateless: boolean;
  /** Whether the server says that it has prompts or resources. */
  offers(capability: 'prompts' | 'resources'): boolean;
  /** Departures from the protocol that were repaired so far. */
  deviations(): readonly string[];
  /** The tools; none from a server that does not know the method. @throws UpstreamError */
  list(limits: ListLimits, signal?: AbortSignal): Promise<ListAnswer>;
  /** Another list, its entries in `member` of each page. @throws UpstreamError */
  items(method: ListMethod, member: string, limits: ListLimits, signal?: AbortSignal): Promise<ListAnswer>;
  /** One request, answered by its raw result, cleaned; questions on the way are answered by policy. @throws UpstreamError */
  request(
    method: 'resources/read' | 'prompts/get',
    params: JsonObject,
    options: { readonly timeoutMs: number; readonly signal?: AbortSignal },
  ): Promise<JsonObject>;
  /** One `tools/call`, whose answer may be questions. @throws UpstreamError; the reason of the caller's signal; what `ask` threw. */
  call(call: SessionCall): Promise<McpCallResult | InputRequired>;
  /**
   * A round trip: `ping`, or `server/discover` in the stateless era. Only a reply to it passes: a result, or that the
   * method is not known. `limit` is what sets the time, where a person does.
   * @throws UpstreamError
   */
  ping(timeoutMs: number, limit?: Limit): Promise<'pong' | 'unknown_method'>;
  /** Ends the session at the server (DELETE, at most 2 s) unless that is the one who lost it, then all requests. */
  close(options?: { terminate: boolean }): Promise<void>;
}

/** Connects to a server and speaks the protocol with it. @throws UpstreamError */
export async function openSession(deps: ConnectDeps, plan: VersionPlan): Promise<Session> {
  return sessionOver(await connect(deps, plan), deps);
}

function sessionOver(connected: Connected, deps: ConnectDeps): Session {
  const { client, channel, protocolVersion } = connected;
  const { side, onListChanged, onMissed } = deps;
  const stateless = isStateless(protocolVersion);
  const rules = { ...deps.questions, side };
  const parts: SessionParts = { ...connected, side, stateless, rules, onListChanged };
  const ended = new AbortController();
  const offered = client.getServerCapabilities() ?? {};
  if (stateless && offered.tools?.listChanged === true) {
    void keepSubscribed({ client, side, limitMs: deps.limitMs, onMissed, signal: ended.signal });
  }

  async function ping(timeoutMs: number, limit?: Limit): Promise<'pong' | 'unknown_method'> {
    const exchange = exchangeOf(timeoutMs);
    const method = stateless ? 'server/discover' : 'ping';
    try {
      await channel.run(exchange, (headers) => client.request({ method }, { timeout: timeoutMs, headers }));
      return 'pong';
    } catch (error) {
      if (exchange.result !== undefined) return 'pong';
      if (exchange.errorCode === METHOD_NOT_FOUND) return 'unknown_method';
      throw asFailure(side, method, error, timeoutMs, limit);
    }
  }

  async function requestOnce(
    method: 'resources/read' | 'prompts/get',
    params: JsonObject,
    { timeoutMs, signal }: { timeoutMs: number; signal?: AbortSignal },
    reply: RoundReply | undefined,
  ): Promise<{ result: JsonObject } | InputRequired> {
    const exchange = exchangeOf(timeoutMs);
    const request = { method, params: { ...params, ...replyParams(reply) } } as GetPromptRequest | ReadResourceRequest;
    const options = { timeout: timeoutMs, allowInputRequired: true, ...(signal && { signal }) };
    const over = parts.questions.begin({ exchange });
    let givenUp = false;
    try {
      await channel.run(exchange, (headers) => client.request(request, { ...options, headers }));
    } catch (error) {
      givenUp = isUnanswered(parts, exchange, error);
      signal?.throwIfAborted();
      throw asFailure(side, method, error, timeoutMs, 'read_timeout');
    } finally {
      over({ givenUp });
    }
    const result = exchange.result ?? {};
    if (stateless && result.resultType === 'input_required') {
      return readInputRequired(method, result, { ...rules, canAsk: false }, reply);
    }
    return { result: side.cleanContent(result) };
  }

  return {
    protocolVersion,
    stateless,
    offers: (capability) => offered[capability] !== undefined,
    deviations: () => [...channel.facts.deviations],
    list: (limits, signal) => listItems(parts, 'tools/list', 'tools', limits, signal),
    items: (method, member, limits, signal) => listItems(parts, method, member, limits, signal),
    async request(method, params, options) {
      const { result } = await throughRounds((reply) => requestOnce(method, params, options, reply), options);
      return result;
    },
    call: (request) => makeCall(parts, request),
    ping,
    async close({ terminate } = { terminate: true }) {
      ended.abort();
      if (terminate) await channel.terminate();
      await client.close().catch(() => undefined);
      await channel.close();
    },
  };
}
