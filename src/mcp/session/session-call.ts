import type { UpstreamError } from '../../errors.ts';
import { isJsonObject, type JsonObject } from '../../json.ts';
import { failure, seconds, timeoutFailure } from '../failures.ts';
import type { AskPerson, CallProgress, McpCallResult } from '../types.ts';
import { visibleText } from '../visible-text.ts';
import { createCallClock } from './call-clock.ts';
import { asFailure } from './connect.ts';
import type { Exchange } from './exchange.ts';
import { MAX_WAIT_MS } from './live-questions.ts';
import {
  type InputRequired,
  type RoundReply,
  readAddressesRequired,
  readInputRequired,
  replyParams,
} from './multi-round.ts';
import { createProgressFeed } from './progress.ts';
import { exchangeOf, isUnanswered, type SessionParts } from './session-parts.ts';

/** One `tools/call`. */
export interface SessionCall {
  readonly tool: string;
  readonly inputSchema: JsonObject;
  readonly argumentsText: string;
  readonly arguments: JsonObject;
  readonly signal?: AbortSignal;
  /** Longest silence, restarted by progress, in milliseconds. */
  readonly readTimeoutMs: number;
  /** Longest duration whatever the progress, without the time a person is asked, in milliseconds. */
  readonly totalTimeoutMs: number;
  readonly onProgress?: (progress: CallProgress) => void;
  readonly ask?: AskPerson;
  /** Repeats a request whose answer were questions. */
  readonly reply?: RoundReply;
}

/** Errors about the request as such, not about the tool: parse, invalid request, unknown method, headers, version. */
const PROTOCOL_ERRORS: ReadonlySet<number> = new Set([-32700, -32600, -32601, -32020, -32021, -32022]);
const HEADER_MISMATCH = -32020;
const INVALID_PARAMS = -32602;
const ADDRESSES_REQUIRED = -32042;
const MAX_PROGRESS_TEXT = 500;

/** Makes one call. @throws UpstreamError; the reason of the caller's signal; what `ask` threw. */
export async function makeCall(parts: SessionParts, request: SessionCall): Promise<McpCallResult | InputRequired> {
  const { client, channel, side, stateless, rules } = parts;
  const { signal, totalTimeoutMs, ask, reply } = request;
  signal?.throwIfAborted();
  if (reply?.requestState !== undefined && !stateless) {
    const what = 'no longer speaks the protocol version in which it asked, so the call cannot go on';
    throw failure(side, 'version_unsupported', what, { delivered: 'no' });
  }
  const longestMs = totalTimeoutMs + (ask === undefined || stateless ? 0 : MAX_WAIT_MS);
  const exchange = exchangeOf(longestMs, request.argumentsText);
  const controller = new AbortController();
  const clock = createCallClock({
    silenceMs: request.readTimeoutMs,
    totalMs: totalTimeoutMs,
    onExpired: () => controller.abort('timed out'),
  });
  const feed = createProgressFeed(request.onProgress ?? (() => undefined), (text) =>
    visibleText(side.cleanContent(text), MAX_PROGRESS_TEXT),
  );
  let givenUp = false;
  let failed: { readonly error: unknown } | undefined;
  const cancel = (): void => controller.abort('cancelled by the caller');
  signal?.addEventListener('abort', cancel, { once: true });
  const over = parts.questions.begin({
    exchange,
    ...(ask && {
      person: {
        ask,
        hold: clock.hold,
        fail: (error) => {
          failed ??= { error };
          controller.abort('cancelled by the caller');
        },
      },
    }),
  });
  try {
    const params = { name: request.tool, arguments: request.arguments, ...(stateless && replyParams(reply)) };
    const result = await channel.run(exchange, (headers) =>
      client.callTool(params, {
        headers,
        signal: controller.signal,
        timeout: longestMs + 1000,
        allowInputRequired: true,
        toolDefinition: { name: request.tool, inputSchema: request.inputSchema as { type: 'object' } },
        onprogress: (progress) => {
          clock.heard();
          feed.take(progress);
        },
      }),
    );
    const raw = exchange.result ?? (result as unknown as JsonObject);
    if (stateless && raw.resultType === 'input_required') {
      return readInputRequired('tools/call', raw, { ...rules, canAsk: ask !== undefined }, reply);
    }
    return callResult(side.cleanContent(raw), exchange.bytes);
  } catch (error) {
    givenUp = isUnanswered(parts, exchange, error);
    signal?.throwIfAborted();
    if (failed !== undefined) throw failed.error;
    const expired = clock.expired();
    if (expired) throw timedOut(parts, expired, request);
    if (exchange.errorCode === ADDRESSES_REQUIRED && !stateless && reply === undefined) {
      const required = readAddressesRequired(exchange.errorData, { ...rules, canAsk: ask !== undefined });
      if (required) return required;
    }
    const refusal = errorResult(parts, exchange, error);
    if (refusal) return refusal;
    if (exchange.errorCode === HEADER_MISMATCH) {
      const what = `finds the headers of tool "${request.tool}" at odds with its definition`;
      throw failure(side, 'tools_invalid', what, { delivered: 'no' });
    }
    throw asFailure(side, 'tools/call', error, totalTimeoutMs, 'max_total_timeout');
  } finally {
    over({ givenUp });
    clock.end();
    feed.end();
    signal?.removeEventListener('abort', cancel);
  }
}

function timedOut(
  { side }: SessionParts,
  expired: 'silence' | 'total',
  { tool, readTimeoutMs, totalTimeoutMs }: SessionCall,
): UpstreamError {
  return expired === 'silence'
    ? timeoutFailure(
        side,
        `sent neither the result of tool "${tool}" nor progress for ${seconds(readTimeoutMs)}`,
        'read_timeout',
        { retryable: true },
      )
    : timeoutFailure(side, `did not finish tool "${tool}" within ${seconds(totalTimeoutMs)}`, 'max_total_timeout', {
        retryable: false,
      });
}

/** A JSON-RPC error about this one call is the tool's failure, as the model may see it; others are the server's. */
function errorResult(parts: SessionParts, exchange: Exchange, error: unknown): McpCallResult | undefined {
  const code = exchange.errorCode;
  if (code === undefined || PROTOCOL_ERRORS.has(code)) return undefined;
  const text = asFailure(parts.side, 'tools/call', error, 0).message;
  if (code === INVALID_PARAMS && /unknown|not found/i.test(text)) parts.onListChanged();
  return { content: [{ type: 'text', text }], isError: true, bytes: exchange.bytes, warnings: [] };
}

/** Reads the result of `tools/call` as it came: odd parts cost only themselves. */
function callResult(result: JsonObject, bytes: number): McpCallResult {
  const warnings: string[] = [];
  const given = result.content;
  if (given !== undefined && !Array.isArray(given)) warnings.push('the content of the result is not a list');
  const items = Array.isArray(given) ? given : [];
  const content = items.filter(isJsonObject);
  if (content.length < items.length) warnings.push('parts of the content are not objects; they are left out');
  return {
    content,
    ...(result.structuredContent !== undefined && { structuredContent: result.structuredContent }),
    isError: result.isError === true,
    bytes,
    warnings,
  };
}
