import { SUPPORTED_PROTOCOL_VERSIONS } from '@modelcontextprotocol/client';
import { isJsonObject, type JsonObject, type JsonValue } from '../../json.ts';
import { failure, listedVersions, NoReply, parseRemote, passedOn, rpcFailure, type Side } from '../failures.ts';

/** One request of ours on the wire: what is sent beside the SDK's message, and what came back before any validation. */
export interface Exchange {
  /** Replaces the re-serialised arguments of `tools/call`, so that digits stay as the model wrote them. */
  readonly argumentsText?: string;
  /** From the request being sent to the status line, in milliseconds. */
  readonly responseTimeoutMs: number;
  /** Longest time without an event on an SSE answer, in milliseconds. */
  readonly idleMs: number;
  /** The result as the server sent it. */
  result?: JsonObject;
  /** Code of the JSON-RPC error that came in its place. */
  errorCode?: number;
  /** Its `data`. */
  errorData?: JsonValue;
  /** Octets of the answer. */
  bytes: number;
}

/** What the wire learns about its server beside the answers. */
export interface WireFacts {
  /** Versions the server named when it refused ours. */
  supportedVersions?: readonly string[];
  /** Methods that were sent. */
  readonly requested: Set<string>;
  /** Departures from the protocol that were repaired, each once. */
  readonly deviations: Set<string>;
}

const MODERN_KEY = 'io.modelcontextprotocol/protocolVersion';
const STATELESS_VERSION = '2026-07-28';

/** Every revision that can be negotiated, newest first. */
export const KNOWN_VERSIONS: readonly string[] = [
  STATELESS_VERSION,
  ...SUPPORTED_PROTOCOL_VERSIONS.filter((version) => version !== STATELESS_VERSION),
];

/** Whether a revision belongs to the stateless era (no sessions, no initialize). */
export function isStateless(version: string): boolean {
  return version >= STATELESS_VERSION;
}

/** Whether a message carries the per-request version of the stateless era. */
export function isStatelessMessage(message: JsonObject): boolean {
  const meta = isJsonObject(message.params) ? message.params._meta : undefined;
  return isJsonObject(meta) && typeof meta[MODERN_KEY] === 'string';
}

/** The request as it goes out: arguments in the digits they were written in. */
export function requestBody(message: JsonObject, text: string, exchange: Exchange | undefined): string {
  if (exchange?.argumentsText === undefined || !isJsonObject(message.params)) return text;
  const { arguments: _replaced, ...params } = message.params;
  const { params: _params, ...envelope } = message;
  return `${opened(envelope)}"params":${opened(params)}"arguments":${exchange.argumentsText}}}`;
}

/** JSON text of an object without its closing brace, ready for one more member. */
function opened(value: JsonObject): string {
  const text = JSON.stringify(value).slice(0, -1);
  return text === '{' ? text : `${text},`;
}

/** Whether a reply belongs to the request: its id, the text of its numeric id, or an error that has none. */
export function isReplyTo(request: JsonObject, reply: JsonObject): boolean {
  const { id } = request;
  if (reply.id === id || (typeof id === 'number' && reply.id === String(id))) return true;
  return isJsonObject(reply.error) && (reply.id === null || reply.id === undefined);
}

/** The messages of one JSON text: one, or those of a batch; what is no object is none. */
export function messagesIn(value: JsonValue | undefined): JsonObject[] {
  return (Array.isArray(value) ? value : [value]).filter(isJsonObject);
}

/**
 * The reply inside a JSON body; other messages of a batch go to `takeOther`.
 * @throws UpstreamError when there is none.
 */
export function jsonReply(
  side: Side,
  request: JsonObject,
  answer: { status: number; type: string; text: string },
  takeOther: (message: JsonObject) => void,
): JsonObject {
  const method = String(request.method);
  const { status, type, text } = answer;
  if (text.trim() === '')
    throw failure(side, 'invalid_response', `answered HTTP ${status} to ${method} without the reply to it`, {
      cause: new NoReply(),
    });
  const body =
    type === 'application/json' || type === '' ? parseRemote(side, text, `in answer to ${method}`) : undefined;
  if (body === undefined) {
    const what = type === 'application/json' ? 'a body that is not JSON' : type || 'no content type';
    throw failure(side, 'not_mcp', `gave no MCP answer to ${method}: not an MCP answer (${what})`);
  }
  let found: JsonObject | undefined;
  for (const item of messagesIn(body)) {
    if (typeof item.method === 'string') takeOther(item);
    else if (isReplyTo(request, item)) found = item;
  }
  if (found === undefined)
    throw failure(side, 'invalid_response', `answered ${method} without the reply to it (id mismatch)`, {
      cause: new NoReply(),
    });
  return found;
}

/**
 * Turns the server's reply into what the SDK is given. The raw result stays in `exchange`; the SDK sees a minimal valid
 * one, because it would drop a whole list for one odd tool. Lax answers of the stateless era are completed.
 * @throws UpstreamError when the reply is an error, or a result that cannot be used.
 */
export function settle(
  side: Side,
  request: JsonObject,
  reply: JsonObject,
  exchange: Exchange | undefined,
  facts: WireFacts,
): JsonObject {
  const method = String(request.method);
  const id = request.id ?? null;
  if (isJsonObject(reply.error)) {
    const versions = listedVersions(reply.error);
    if (versions.length > 0) facts.supportedVersions = versions;
    if (method === 'server/discover' && exchange === undefined) {
      return { jsonrpc: '2.0', id, error: wellFormed(reply.error) };
    }
    noteError(exchange, reply.error);
    throw rpcFailure(side, method, reply.error);
  }
  const result = method === 'ping' && reply.result !== undefined ? {} : reply.result;
  if (!isJsonObject(result))
    throw failure(side, 'invalid_response', `answered ${method} with a result that is not an object`);
  if (method === 'initialize') requireKnownVersion(side, result, facts);
  const stateless = isStatelessMessage(request);
  const completed = stateless ? complete(side, method, result, facts) : result;
  if (exchange === undefined) return { jsonrpc: '2.0', id, result: completed };
  exchange.result = completed;
  if (method === 'server/discover' || (stateless && completed.resultType === 'input_required')) {
    return { jsonrpc: '2.0', id, result: completed };
  }
  const stand = Object.hasOwn(STANDS, method) ? STANDS[method] : {};
  return {
    jsonrpc: '2.0',
    id,
    result: stateless ? { ...stand, resultType: 'complete', ttlMs: 0, cacheScope: 'private' } : { ...stand },
  };
}

/** Keeps the code of a JSON-RPC error, and what it says beside its message. */
export function noteError(exchange: Exchange | undefined, { code, data }: JsonObject): void {
  if (exchange === undefined || typeof code !== 'number') return;
  exchange.errorCode = code;
  if (data !== undefined) exchange.errorData = data;
}

/** The least result of a method that the SDK takes. */
const STANDS: Readonly<Record<string, JsonObject>> = {
  'tools/list': { tools: [] },
  'tools/call': { content: [] },
  'resources/list': { resources: [] },
  'resources/read': { contents: [] },
  'prompts/list': { prompts: [] },
  'prompts/get': { messages: [] },
};
/** Results that carry how long they hold (MCP 2026-07-28, Caching). */
const CACHEABLE: ReadonlySet<string> = new Set([
  ...['tools/list', 'resources/list', 'resources/read', 'prompts/list', 'server/discover'],
]);

function wellFormed(error: JsonObject): JsonObject {
  return {
    ...error,
    code: typeof error.code === 'number' ? error.code : 0,
    message: typeof error.message === 'string' ? error.message : '',
  };
}

function requireKnownVersion(side: Side, result: JsonObject, facts: WireFacts): void {
  const version = result.protocolVersion;
  if (typeof version === 'string' && KNOWN_VERSIONS.includes(version) && !isStateless(version)) return;
  if (typeof version === 'string') facts.supportedVersions = [version];
  const named = typeof version === 'string' ? passedOn(side, version) : JSON.stringify(version ?? null);
  throw failure(
    side,
    'version_unsupported',
    `answered initialize with protocol version ${named}; this client speaks ${KNOWN_VERSIONS.join(', ')}`,
    { delivered: 'no' },
  );
}

/** A result of the stateless era without `resultType` counts as complete, without cache hints as not cacheable. */
function complete(side: Side, method: string, result: JsonObject, facts: WireFacts): JsonObject {
  const { resultType } = result;
  if (resultType === undefined) facts.deviations.add(`the server answers ${method} without resultType`);
  else if (resultType !== 'complete' && resultType !== 'input_required') {
    throw failure(side, 'invalid_response', `answered ${method} with a resultType that is not known`);
  }
  const cacheable = CACHEABLE.has(method) && resultType !== 'input_required';
  const validTtl = typeof result.ttlMs === 'number' && result.ttlMs >= 0;
  if (cacheable && !validTtl) facts.deviations.add(`the server answers ${method} without ttlMs`);
  const hints: JsonObject = cacheable
    ? {
        ttlMs: validTtl ? (result.ttlMs as number) : 0,
        cacheScope: result.cacheScope === 'public' ? 'public' : 'private',
      }
    : {};
  return { ...result, ...hints, resultType: resultType ?? 'complete' };
}

/**
 * A message of the server as the SDK is given it. Of a notice of progress only the number counts: what beside it has
 * another type than the protocol says is left out, where the SDK would drop the whole notice.
 */
export function delivered(message: JsonObject): JsonObject {
  const { params } = message;
  if (message.method !== 'notifications/progress' || !isJsonObject(params)) return { ...message, jsonrpc: '2.0' };
  const { progressToken, progress, total, message: text } = params;
  return {
    jsonrpc: '2.0',
    method: message.method,
    params: {
      ...(progressToken !== undefined && { progressToken }),
      ...(progress !== undefined && { progress }),
      ...(typeof total === 'number' && { total }),
      ...(typeof text === 'string' && { message: text }),
    },
  };
}

/** Looks at a message a stream carries beside the reply; `true` when it says that the tool list changed. */
export function saysListChanged(message: JsonValue): boolean {
  return isJsonObject(message) && message.method === 'notifications/tools/list_changed';
}
