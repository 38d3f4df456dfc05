import type { UpstreamError } from '../errors.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../json.ts';
import { asFailure, type ConnectDeps, type Connection, connect, type VersionPlan } from './connect.ts';
import { type Exchange, isStateless } from './exchange.ts';
import { failure, METHOD_NOT_FOUND, rpcFailure, seconds } from './failures.ts';
import { MAX_CALL_BYTES } from './http-answer.ts';
import type { McpCallResult } from './types.ts';

/** All pages of `tools/list`, unread. */
export interface ListAnswer {
  readonly entries: readonly JsonValue[];
  readonly warnings: readonly string[];
  /** Shortest lifetime a page named, in milliseconds; `undefined` when none did. */
  readonly ttlMs: number | undefined;
}

/** How long reading a list may take, in milliseconds. */
export interface ListLimits {
  /** For one page. */
  readonly pageMs: number;
  /** For all pages together. */
  readonly totalMs: number;
}

interface SessionCall {
  readonly tool: string;
  readonly inputSchema: JsonObject;
  readonly argumentsText: string;
  readonly arguments: JsonObject;
  readonly signal?: AbortSignal;
  /** Longest silence, restarted by progress, in milliseconds. */
  readonly readTimeoutMs: number;
  /** Longest duration whatever the progress, in milliseconds. */
  readonly totalTimeoutMs: number;
  readonly onProgress?: (progress: { progress: number; total?: number; message?: string }) => void;
}

/** One open conversation with one server. Its session id lives in the transport and nowhere else. */
export interface Session {
  readonly protocolVersion: string;
  readonly stateless: boolean;
  /** Departures from the protocol that were repaired so far. */
  deviations(): readonly string[];
  /** @throws UpstreamError */
  list(limits: ListLimits, signal?: AbortSignal): Promise<ListAnswer>;
  /** @throws UpstreamError; the reason of the caller's signal. */
  call(call: SessionCall): Promise<McpCallResult>;
  /**
   * A round trip: `ping`, or `server/discover` in the stateless era. Only a reply to it passes: a result, or that the
   * method is not known.
   * @throws UpstreamError
   */
  ping(timeoutMs: number): Promise<'pong' | 'unknown_method'>;
  /** Ends the session at the server (DELETE, at most 2 s) unless that is the one who lost it, then all requests. */
  close(options?: { terminate: boolean }): Promise<void>;
}

const MAX_PAGES = 64;
const MAX_LIST_MIB = MAX_CALL_BYTES / (1024 * 1024);
/** Definitions read from one list, good or bad: many more than are ever offered. */
const MAX_ENTRIES = 10_000;
const SSE_IDLE_MS = 60_000;
const TERMINATE_MS = 2000;

/** Connects to a server and speaks the protocol with it. @throws UpstreamError */
export async function openSession(deps: ConnectDeps, plan: VersionPlan): Promise<Session> {
  return sessionOver(await connect(deps, plan), deps);
}

function sessionOver(connection: Connection, deps: ConnectDeps): Session {
  const { client, transport, wire, protocolVersion } = connection;
  const { side } = deps;
  const stateless = isStateless(protocolVersion);

  function exchangeOf(timeoutMs: number, argumentsText?: string): Exchange {
    return {
      responseTimeoutMs: timeoutMs + 1000,
      idleMs: Math.max(SSE_IDLE_MS, timeoutMs),
      bytes: 0,
      ...(argumentsText !== undefined && { argumentsText }),
    };
  }

  async function listPage(
    cursor: string | undefined,
    timeoutMs: number,
    signal?: AbortSignal,
  ): Promise<{ page: JsonObject; bytes: number }> {
    const exchange = exchangeOf(timeoutMs);
    try {
      const request = { method: 'tools/list' as const, ...(cursor !== undefined && { params: { cursor } }) };
      const options = { timeout: timeoutMs, ...(signal && { signal }) };
      await wire.run(exchange, (headers) => client.request(request, { ...options, headers }));
    } catch (error) {
      signal?.throwIfAborted();
      if (exchange.errorCode === METHOD_NOT_FOUND && cursor === undefined) return { page: { tools: [] }, bytes: 0 };
      if (exchange.errorCode === INVALID_PARAMS && cursor !== undefined) throw new StaleCursor();
      throw asFailure(side, 'tools/list', error, timeoutMs);
    }
    const page = exchange.result ?? {};
    if (!Array.isArray(page.tools)) throw failure(side, 'tools_invalid', 'answered tools/list without a list of tools');
    return { page, bytes: exchange.bytes };
  }

  async function listPages({ pageMs, totalMs }: ListLimits, until: number, signal?: AbortSignal): Promise<ListAnswer> {
    const entries: JsonValue[] = [];
    const warnings: string[] = [];
    const seen = new Set<string>();
    let ttlMs: number | undefined;
    let cursor: string | undefined;
    let octets = 0;
    for (let pages = 1; ; pages += 1) {
      const leftMs = until - performance.now();
      if (leftMs <= 0) {
        const what = `did not finish tools/list within ${seconds(totalMs)}: ${pages - 1} pages came, and more were to come`;
        throw failure(side, 'response_timeout', what, { retryable: true, delivered: 'no' });
      }
      const { page, bytes } = await listPage(cursor, Math.min(pageMs, leftMs), signal);
      octets += bytes;
      if (octets > MAX_CALL_BYTES) {
        throw failure(side, 'invalid_response', `sent a tool list larger than ${MAX_LIST_MIB} MiB over ${pages} pages`);
      }
      const listed = page.tools as JsonValue[];
      const room = MAX_ENTRIES - entries.length;
      for (const entry of listed.slice(0, room)) entries.push(entry);
      if (listed.length > room) {
        warnings.push(`tools/list has more than ${MAX_ENTRIES} entries; the rest is left out`);
        break;
      }
      if (stateless && typeof page.ttlMs === 'number') ttlMs = Math.min(ttlMs ?? page.ttlMs, page.ttlMs);
      const next = page.nextCursor;
      if (typeof next !== 'string' || next === '') break;
      if (seen.has(next)) {
        warnings.push('the pages of tools/list go in circles: the server repeats a cursor; reading stopped there');
        break;
      }
      if (pages === MAX_PAGES) {
        warnings.push(`tools/list has more than ${MAX_PAGES} pages; the rest is left out`);
        break;
      }
      seen.add(next);
      cursor = next;
    }
    return { entries: side.cleanContent(entries), warnings, ttlMs };
  }

  async function call(request: SessionCall): Promise<McpCallResult> {
    const { signal, readTimeoutMs, totalTimeoutMs } = request;
    signal?.throwIfAborted();
    const exchange = exchangeOf(totalTimeoutMs, request.argumentsText);
    const controller = new AbortController();
    let expired: 'silence' | 'total' | undefined;
    const expire = (reason: 'silence' | 'total'): void => {
      expired ??= reason;
      controller.abort('timed out');
    };
    let silence = setTimeout(expire, readTimeoutMs, 'silence');
    const total = setTimeout(expire, totalTimeoutMs, 'total');
    const cancel = (): void => controller.abort('cancelled by the caller');
    signal?.addEventListener('abort', cancel, { once: true });
    try {
      const result = await wire.run(exchange, (headers) =>
        client.callTool(
          { name: request.tool, arguments: request.arguments },
          {
            headers,
            signal: controller.signal,
            timeout: totalTimeoutMs + 1000,
            toolDefinition: { name: request.tool, inputSchema: request.inputSchema as { type: 'object' } },
            onprogress: (progress) => {
              clearTimeout(silence);
              silence = setTimeout(expire, readTimeoutMs, 'silence');
              request.onProgress?.(progress as { progress: number });
            },
          },
        ),
      );
      const raw = exchange.result ?? (result as unknown as JsonObject);
      return callResult(side.cleanContent(raw), exchange.bytes);
    } catch (error) {
      signal?.throwIfAborted();
      if (expired) throw timedOut(expired, request);
      const refusal = errorResult(exchange, error);
      if (refusal) return refusal;
      if (exchange.errorCode === HEADER_MISMATCH) {
        throw failure(
          side,
          'tools_invalid',
          `finds the headers of tool "${request.tool}" at odds with its definition`,
          {
            delivered: 'no',
          },
        );
      }
      throw asFailure(side, 'tools/call', error, totalTimeoutMs);
    } finally {
      clearTimeout(silence);
      clearTimeout(total);
      signal?.removeEventListener('abort', cancel);
    }
  }

  function timedOut(expired: 'silence' | 'total', { tool, readTimeoutMs, totalTimeoutMs }: SessionCall): UpstreamError {
    const what =
      expired === 'silence'
        ? `sent neither the result of tool "${tool}" nor progress for ${seconds(readTimeoutMs)} (client_config.read_timeout)`
        : `did not finish tool "${tool}" within ${seconds(totalTimeoutMs)} (client_config.max_total_timeout)`;
    return failure(side, 'response_timeout', what, { retryable: expired === 'silence' });
  }

  /** A JSON-RPC error about this one call is the tool's failure, as the model may see it; others are the server's. */
  function errorResult(exchange: Exchange, error: unknown): McpCallResult | undefined {
    const code = exchange.errorCode;
    if (code === undefined || PROTOCOL_ERRORS.has(code)) return undefined;
    const text = asFailure(side, 'tools/call', error, 0).message;
    if (code === INVALID_PARAMS && /unknown|not found/i.test(text)) deps.onListChanged();
    return { content: [{ type: 'text', text }], isError: true, bytes: exchange.bytes, warnings: [] };
  }

  async function ping(timeoutMs: number): Promise<'pong' | 'unknown_method'> {
    const exchange = exchangeOf(timeoutMs);
    const method = stateless ? 'server/discover' : 'ping';
    try {
      await wire.run(exchange, (headers) => client.request({ method }, { timeout: timeoutMs, headers }));
      return 'pong';
    } catch (error) {
      if (exchange.result !== undefined) return 'pong';
      if (exchange.errorCode === METHOD_NOT_FOUND) return 'unknown_method';
      throw asFailure(side, method, error, timeoutMs);
    }
  }

  async function close({ terminate } = { terminate: true }): Promise<void> {
    if (terminate) {
      let timer: NodeJS.Timeout | undefined;
      const patience = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, TERMINATE_MS);
      });
      await Promise.race([transport.terminateSession().catch(() => undefined), patience]);
      clearTimeout(timer);
    }
    await client.close().catch(() => undefined);
    wire.close();
  }

  return {
    protocolVersion,
    stateless,
    deviations: () => [...wire.facts.deviations],
    async list(limits, signal) {
      const until = performance.now() + limits.totalMs;
      try {
        return await listPages(limits, until, signal);
      } catch (error) {
        if (!(error instanceof StaleCursor)) throw error;
      }
      try {
        return await listPages(limits, until, signal);
      } catch (error) {
        if (!(error instanceof StaleCursor)) throw error;
        throw rpcFailure(side, 'tools/list', {
          code: INVALID_PARAMS,
          message: 'the cursor it gave itself is not valid',
        });
      }
    },
    call,
    ping,
    close,
  };
}

/** Errors about the request as such, not about the tool: parse, invalid request, unknown method, headers, version. */
const PROTOCOL_ERRORS: ReadonlySet<number> = new Set([-32700, -32600, -32601, -32020, -32021, -32022]);

const HEADER_MISMATCH = -32020;
const INVALID_PARAMS = -32602;

/** A page cursor is no longer valid: the list is read again from the start, once. */
class StaleCursor extends Error {}

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
