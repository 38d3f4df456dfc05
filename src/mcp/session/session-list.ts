import type { JsonObject, JsonValue } from '../../json.ts';
import { failure, METHOD_NOT_FOUND, rpcFailure, seconds, timeoutFailure } from '../failures.ts';
import { MAX_CALL_BYTES } from '../http/http-answer.ts';
import type { Limit } from '../remedies.ts';
import { asFailure } from './connect.ts';
import { exchangeOf, type SessionParts } from './session-parts.ts';

/** All pages of a list, unread. */
export interface ListAnswer {
  readonly entries: readonly JsonValue[];
  readonly warnings: readonly string[];
  /** Shortest lifetime a page named, in milliseconds; `undefined` when none did. */
  readonly ttlMs: number | undefined;
}

/** How long reading a list may take, in milliseconds. */
export interface ListLimits {
  /** For one page: `connection_timeout`. */
  readonly pageMs: number;
  /** For all pages together: what is left of `retry_timeout_seconds`. */
  readonly totalMs: number;
}

export type ListMethod = 'tools/list' | 'resources/list' | 'prompts/list';

const MAX_PAGES = 64;
const MAX_LIST_MIB = MAX_CALL_BYTES / (1024 * 1024);
/** Definitions read from one list, good or bad: many more than are ever used. */
const MAX_ENTRIES = 10_000;
const INVALID_PARAMS = -32602;

/** A page cursor is no longer valid: the list is read again from the start, once. */
class StaleCursor extends Error {}

/**
 * Reads a list over all its pages; circles, floods and lists without an end are cut off with a warning or a failure. A
 * server that does not know `tools/list` has no tools.
 * @param member where a page holds its entries
 * @throws UpstreamError
 */
export async function listItems(
  parts: SessionParts,
  method: ListMethod,
  member: string,
  limits: ListLimits,
  signal?: AbortSignal,
): Promise<ListAnswer> {
  const reading = { parts, method, member, limits, until: performance.now() + limits.totalMs, signal };
  for (let again = true; ; again = false) {
    try {
      return await readPages(reading);
    } catch (error) {
      if (!(error instanceof StaleCursor)) throw error;
      if (again) continue;
      const message = 'the cursor it gave itself is not valid';
      throw rpcFailure(parts.side, method, { code: INVALID_PARAMS, message });
    }
  }
}

interface Reading {
  readonly parts: SessionParts;
  readonly method: ListMethod;
  readonly member: string;
  readonly limits: ListLimits;
  readonly until: number;
  readonly signal: AbortSignal | undefined;
}

async function readPages(reading: Reading): Promise<ListAnswer> {
  const { method, member, limits, until, parts } = reading;
  const { side, stateless } = parts;
  const entries: JsonValue[] = [];
  const warnings: string[] = [];
  const seen = new Set<string>();
  let ttlMs: number | undefined;
  let cursor: string | undefined;
  let octets = 0;
  for (let pages = 1; ; pages += 1) {
    const leftMs = until - performance.now();
    if (leftMs <= 0) {
      const what = `did not finish ${method} within ${seconds(limits.totalMs)}: ${pages - 1} pages came, and more were to come`;
      throw timeoutFailure(side, what, 'retry_timeout_seconds', { retryable: true, delivered: 'no' });
    }
    const limit: Limit = leftMs < limits.pageMs ? 'retry_timeout_seconds' : 'connection_timeout';
    const { page, bytes } = await readPage(reading, cursor, Math.min(limits.pageMs, leftMs), limit);
    octets += bytes;
    if (octets > MAX_CALL_BYTES) {
      const what = method === 'tools/list' ? 'a tool list' : `an answer to ${method}`;
      throw failure(side, 'invalid_response', `sent ${what} larger than ${MAX_LIST_MIB} MiB over ${pages} pages`);
    }
    const listed = page[member] as JsonValue[];
    const room = MAX_ENTRIES - entries.length;
    for (const entry of listed.slice(0, room)) entries.push(entry);
    if (listed.length > room) {
      warnings.push(`${method} has more than ${MAX_ENTRIES} entries; the rest is left out`);
      break;
    }
    if (stateless && typeof page.ttlMs === 'number') ttlMs = Math.min(ttlMs ?? page.ttlMs, page.ttlMs);
    const next = page.nextCursor;
    if (typeof next !== 'string' || next === '') break;
    if (seen.has(next)) {
      warnings.push(`the pages of ${method} go in circles: the server repeats a cursor; reading stopped there`);
      break;
    }
    if (pages === MAX_PAGES) {
      warnings.push(`${method} has more than ${MAX_PAGES} pages; the rest is left out`);
      break;
    }
    seen.add(next);
    cursor = next;
  }
  return { entries: side.cleanContent(entries), warnings, ttlMs };
}

async function readPage(
  { parts: { client, channel, side }, method, member, signal }: Reading,
  cursor: string | undefined,
  timeoutMs: number,
  limit: Limit,
): Promise<{ page: JsonObject; bytes: number }> {
  const exchange = exchangeOf(timeoutMs);
  try {
    const request = { method, ...(cursor !== undefined && { params: { cursor } }) };
    const options = { timeout: timeoutMs, ...(signal && { signal }) };
    await channel.run(exchange, (headers) => client.request(request, { ...options, headers }));
  } catch (error) {
    signal?.throwIfAborted();
    const toolless = method === 'tools/list' && exchange.errorCode === METHOD_NOT_FOUND;
    if (toolless && cursor === undefined) return { page: { [member]: [] }, bytes: 0 };
    if (exchange.errorCode === INVALID_PARAMS && cursor !== undefined) throw new StaleCursor();
    throw asFailure(side, method, error, timeoutMs, limit);
  }
  const page = exchange.result ?? {};
  if (Array.isArray(page[member])) return { page, bytes: exchange.bytes };
  const code = method === 'tools/list' ? 'tools_invalid' : 'invalid_response';
  throw failure(side, code, `answered ${method} without a list of ${member}`);
}
