import { INVALID_ARGUMENT, isCatalogueError, UpstreamError } from '../errors.ts';
import type { Logger } from '../telemetry/logger.ts';
import { inspectUrl } from './address-guard.ts';
import { type Lookup, lookupAll } from './dial.ts';
import { nodeCode, refused, troubleOf, upstream } from './failure.ts';
import { createPools, type Pools } from './pools.ts';
import { redirectTarget } from './redirect.ts';
import { requestHeaders } from './request-headers.ts';
import { checkAnnouncedLength, contentCodings, decodedBody } from './response-body.ts';
import type { Outbound, OutboundRequest, OutboundResponse } from './types.ts';

type Answer = Awaited<ReturnType<ReturnType<Pools['get']>['pool']['request']>>;

/** Longest wait, in milliseconds, for the rest of a discarded body before its connection is dropped. */
const DISCARD_MS = 500;
const DISCARD_BYTES = 65_536;

/**
 * The one HTTP client. Checks the address as written and as resolved, connects to what it checked, bounds time and size.
 *
 * Rejects with `UpstreamError` when the remote side or the policy fails a request; with INVALID_ARGUMENT when a header
 * cannot be sent; with the reason of `signal` when that is aborted. `retryable` says that the failure may be
 * temporary, `delivered` whether the request may have been processed: a request that must not run twice needs both.
 * @param deps `lookup` resolves names (the system's by default); `log` gets one line per refused address; `clean` cuts
 * secrets from what a remote side sent
 */
export function createOutbound(
  deps: { lookup?: Lookup; log?: Logger; clean?: (text: string) => string } = {},
): Outbound {
  const { clean = (text) => text } = deps;
  const pools = createPools(deps.lookup ?? lookupAll);
  let closed = false;

  async function send(request: OutboundRequest, headers: Record<string, string>): Promise<OutboundResponse> {
    let rawUrl = request.url;
    for (let hops = 0; ; hops++) {
      const inspection = inspectUrl(rawUrl, request.policy);
      if (!inspection.allowed) throw refused(request.destination, inspection);
      const { url, reach } = inspection;
      if (hops === 0) checkOrigin(request, url);
      try {
        const entry = pools.get(request, rawUrl, url, reach);
        const answer = await exchange(entry, request, url, headers);
        const next = follow(answer, request, url, { hops, clean });
        if (next === undefined) return respond(answer, request, url);
        discard(answer);
        rawUrl = next;
      } catch (error) {
        throw failure(error, request, url);
      }
    }
  }

  return {
    async request(request) {
      if (closed) throw upstream(request.destination, 'this server', SHUTTING_DOWN);
      request.signal?.throwIfAborted();
      try {
        return await send(request, requestHeaders(request.headers));
      } catch (error) {
        if (error instanceof UpstreamError && error.code === 'address_refused') {
          deps.log?.warn({ destination: request.destination, reason: error.message }, 'outbound address refused');
        }
        throw error;
      }
    },
    close() {
      closed = true;
      return pools.close();
    },
  };
}

const SHUTTING_DOWN = {
  code: 'connection_refused',
  text: 'is shutting down: nothing is sent any more.',
  delivered: 'no',
  retryable: false,
  statusCode: 503,
} as const;

function checkOrigin({ origins, destination }: OutboundRequest, url: URL): void {
  if (origins === undefined) return;
  const allowed = origins.some((origin) => URL.canParse(origin) && new URL(origin).origin === url.origin);
  if (allowed) return;
  const reason = `${url.origin} is not one of its origins: ${origins.join(', ')}.`;
  throw refused(destination, { allowed: false, kind: 'untrusted', reason });
}

async function exchange(
  { pool, wait }: ReturnType<Pools['get']>,
  request: OutboundRequest,
  url: URL,
  headers: Record<string, string>,
): Promise<Answer> {
  const answered = wait();
  const running = pool.request({
    path: `${url.pathname}${url.search}`,
    method: request.method as 'GET',
    headers,
    body: request.body ?? null,
    signal: request.signal ?? null,
    headersTimeout: Math.ceil(request.responseTimeoutMs),
    bodyTimeout: Math.ceil(request.idleTimeoutMs),
  });
  try {
    const answer = await unlessAborted(running, request.signal);
    answer.body.on('error', () => {});
    return answer;
  } finally {
    answered();
  }
}

/** The pool heeds the signal from the moment a connection stands; this does before. */
async function unlessAborted(running: Promise<Answer>, signal: AbortSignal | undefined): Promise<Answer> {
  if (signal === undefined) return running;
  let stop = () => {};
  const aborted = new Promise<never>((_, fail) => {
    stop = () => fail(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
  });
  try {
    return await Promise.race([running, aborted]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

function follow(
  answer: Answer,
  request: OutboundRequest,
  url: URL,
  { hops, clean }: { hops: number; clean: (text: string) => string },
): string | undefined {
  try {
    return redirectTarget(request.redirect, answer.statusCode, text(answer.headers.location), url, hops, clean);
  } catch (error) {
    discard(answer);
    throw error;
  }
}

function respond(answer: Answer, request: OutboundRequest, url: URL): OutboundResponse {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(answer.headers)) headers[name] = text(value) ?? '';
  const bodyless = request.method === 'HEAD' || answer.statusCode === 204 || answer.statusCode === 304;
  let codings: string[] = [];
  if (!bodyless) {
    try {
      checkAnnouncedLength(headers['content-length'], request.maxResponseBytes);
      codings = contentCodings(headers['content-encoding']);
    } catch (error) {
      answer.body.destroy();
      throw error;
    }
  }
  const body = guarded(decodedBody(answer.body, codings, request.maxResponseBytes), request, url);
  return {
    status: answer.statusCode,
    headers,
    url: url.href,
    body,
    text: () => readText(body),
    discard: () => discard(answer),
  };
}

async function* guarded(
  body: AsyncIterable<Uint8Array>,
  request: OutboundRequest,
  url: URL,
): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } catch (error) {
    throw failure(error, request, url);
  }
}

async function readText(body: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return new TextDecoder().decode(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks));
}

/** A short rest is read so that the connection can be used again; a stream, or a long rest, is cut off. */
function discard({ body, headers }: Answer): void {
  if (text(headers['content-type'])?.toLowerCase().startsWith('text/event-stream') || body.readableDidRead) {
    body.destroy();
    return;
  }
  body.dump({ limit: DISCARD_BYTES, signal: AbortSignal.timeout(DISCARD_MS) }).catch(() => {});
}

function failure(error: unknown, request: OutboundRequest, url: URL): unknown {
  if (request.signal?.aborted) return request.signal.reason;
  if (error instanceof UpstreamError || isCatalogueError(error)) return error;
  if (nodeCode(error) === 'UND_ERR_INVALID_ARG') {
    return new INVALID_ARGUMENT(`The request to ${request.destination} cannot be sent: ${(error as Error).message}`);
  }
  return upstream(request.destination, url.origin, troubleOf(error));
}

function text(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(', ') : value;
}
