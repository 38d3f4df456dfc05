import { type CauseCode, UpstreamError, type UpstreamFailure } from '../errors.ts';
import { exceedsDepth, isJsonObject, type JsonObject, type JsonValue, MAX_REMOTE_DEPTH, parseJson } from '../json.ts';
import { SIGN_IN } from './failure-kinds.ts';
import { type Limit, limitNameOf, type RemedyFor, remedyFor, remedyForLimit } from './remedies.ts';
import { unsmuggled } from './visible-text.ts';

/** The server a failure is about, as its owner knows it. */
export interface Side {
  /** `connector "weather"` */
  readonly destination: string;
  /** Address of a remote server, or what `localPlace` makes of a command. */
  readonly url: string;
  /** Cuts secrets from text the server sent. */
  readonly clean: (text: string) => string;
  /** The same for what the server says to the model: results and tool definitions. */
  readonly cleanContent: <T extends JsonValue>(content: T) => T;
  /** What a person can do about its failures. Default: what holds for a stored connector. */
  readonly remedies?: RemedyFor;
  /** The name under which a limit is set. Default: that of the member of `client_config`. */
  readonly limitName?: (limit: Limit) => string;
}

const MAX_PASSED_ON = 500;

/** Status of our own reply when a failure of that kind ends the request. */
function statusFor(code: CauseCode): number {
  switch (code) {
    case 'auth_required':
    case 'disabled':
    case 'insufficient_scope':
      return 409;
    case 'breaker_open':
    case 'rate_limited':
      return 503;
    case 'connect_timeout':
    case 'response_timeout':
      return 504;
    default:
      return 502;
  }
}

/** The address without anything that may be secret: no user, query or fragment. */
function shownUrl(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  return parsed ? `${parsed.origin}${parsed.pathname}` : 'its address';
}

/** `Side.url` of a local server, which has none. */
export function localPlace(command: string): string {
  return `${LOCAL}${command}`;
}

const LOCAL = 'stdio:';

function place({ url, clean }: Side): string {
  return url.startsWith(LOCAL) ? `(command "${clean(url.slice(LOCAL.length))}")` : `at ${shownUrl(url)}`;
}

/** A failure of one server. The sentence is `<destination> at <url> <what>`, of a local one `<destination> (command "x") <what>`. */
export function failure(
  side: Side,
  code: CauseCode,
  what: string,
  rest: Partial<Omit<UpstreamFailure, 'code' | 'destination' | 'message'>> = {},
): UpstreamError {
  return new UpstreamError({
    code,
    destination: side.destination,
    message: `${side.destination} ${place(side)} ${what}`,
    remedy: remedyFor(code, side.remedies),
    statusCode: statusFor(code),
    ...(SIGN_IN.has(code) && { action: 'authenticate' as const }),
    ...rest,
  });
}

/** A limit of time as messages name it: `client_config.read_timeout`. */
function limitName(side: Side, limit: Limit): string {
  return side.limitName?.(limit) ?? limitNameOf({}, limit);
}

/** A limit of time was reached: message and remedy name it. `what` ends with how long was waited. */
export function timeoutFailure(
  side: Side,
  what: string,
  limit: Limit | undefined,
  rest: Pick<Partial<UpstreamFailure>, 'retryable' | 'delivered'>,
): UpstreamError {
  if (limit === undefined) return failure(side, 'response_timeout', what, rest);
  const name = limitName(side, limit);
  const remedy = remedyForLimit('response_timeout', side.remedies ?? 'stored', name);
  return failure(side, 'response_timeout', `${what} (${name})`, { ...rest, remedy });
}

/** A failure of the way to a server, with what can be done about it; a limit that was reached is named. */
export function withRemedy(side: Side, error: UpstreamError, limit: Limit | undefined): UpstreamError {
  if (error.remedy !== undefined) return error;
  const of = side.remedies ?? 'stored';
  const reached = error.code === 'connect_timeout' ? 'connection_timeout' : limit;
  const timedOut = error.code === 'connect_timeout' || error.code === 'response_timeout';
  if (!timedOut || reached === undefined) return amended(error, { remedy: remedyFor(error.code, of) });
  const name = limitName(side, reached);
  const message = error.message.includes(name) ? error.message : `${error.message.replace(/\.$/, '')} (${name}).`;
  return amended(error, { message, remedy: remedyForLimit(error.code, of, name) });
}

/** The same failure with other facts. */
export function amended(error: UpstreamError, change: Partial<UpstreamFailure>): UpstreamError {
  const { code, destination, message, statusCode, retryable, delivered, ...optional } = error;
  const facts = Object.entries({ remedy: remedyFor(code), ...present(optional) });
  return new UpstreamError({
    code,
    destination,
    message,
    statusCode,
    retryable,
    delivered,
    cause: error.cause,
    ...Object.fromEntries(facts.filter(([name]) => name !== 'name' && name !== 'exception')),
    ...change,
  });
}

function present(values: object): object {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}

export interface HttpAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly text: string;
  readonly retryAfterMs: number | undefined;
  readonly location: string | undefined;
  /** `WWW-Authenticate`. */
  readonly challenge: string | undefined;
}

/** The answer of a server to one request, when its status is a refusal. */
export function httpFailure(
  side: Side,
  answer: HttpAnswer,
  request: { method: string; hadSession: boolean },
): UpstreamError {
  const { status } = answer;
  const said = `answered HTTP ${status} to ${request.method}${detail(side, answer)}`;
  const base = {
    upstreamStatus: status,
    ...(answer.retryAfterMs !== undefined && { retryAfterMs: answer.retryAfterMs }),
  };
  if (status === 401)
    return failure(side, 'auth_required', `${said}: it does not accept the credential`, { ...base, delivered: 'no' });
  if (status === 403) return refusedFor(side, answer, said, { ...base, delivered: 'no' });
  if (request.hadSession && refersToSession(answer)) {
    return failure(side, 'session_lost', `${said}: it no longer knows the session`, { ...base, delivered: 'no' });
  }
  if (status === 404) return failure(side, 'wrong_path', `${said}${doubledPath(side)}`, { ...base, delivered: 'no' });
  if (status === 405) return failure(side, 'method_not_allowed', said, { ...base, delivered: 'no' });
  if (status === 429) {
    const wait = answer.retryAfterMs === undefined ? '' : ` and asks to wait ${seconds(answer.retryAfterMs)}`;
    return failure(side, 'rate_limited', `limits the rate of requests: it ${said}${wait}`, {
      ...base,
      retryable: true,
      delivered: 'no',
    });
  }
  if (status >= 500) {
    const wait = answer.retryAfterMs === undefined ? '' : ` and asks to wait ${seconds(answer.retryAfterMs)}`;
    return failure(side, 'server_error', `${said}${wait}`, { ...base, retryable: true, delivered: 'unknown' });
  }
  if (status >= 300 && status < 400) {
    const where =
      answer.location === undefined
        ? ''
        : `, a redirect to ${passedOn(side, shownUrl(absolute(answer.location, side.url)))}`;
    return failure(side, 'wrong_path', `${said}${where}, which is not followed`, { ...base, delivered: 'no' });
  }
  return failure(side, 'invalid_response', said, { ...base, delivered: status < 500 ? 'no' : 'unknown' });
}

/** 403: for good, or because the token lacks scope, which the challenge then names (RFC 6750 section 3.1). */
function refusedFor(side: Side, answer: HttpAnswer, said: string, base: Partial<UpstreamFailure>): UpstreamError {
  const { challenge = '' } = answer;
  if (!/\berror\s*=\s*"?insufficient_scope\b/i.test(challenge)) return failure(side, 'forbidden', said, base);
  const scope = /\bscope\s*=\s*"([^"]*)"/i.exec(challenge)?.[1] ?? '';
  const wanted = scope === '' ? '' : `: it wants the scope ${passedOn(side, scope)}`;
  return failure(side, 'insufficient_scope', `${said}: the scope of the credential does not suffice${wanted}`, base);
}

/** A JSON-RPC error in the place of a result. */
export function rpcFailure(side: Side, method: string, error: JsonObject): UpstreamError {
  const code = typeof error.code === 'number' ? error.code : 0;
  const text = typeof error.message === 'string' ? passedOn(side, error.message) : '';
  const supported = listedVersions(error);
  if (supported.length > 0 && (method === 'initialize' || method === 'server/discover' || code === -32022)) {
    return failure(side, 'version_unsupported', `refused the protocol version and names ${supported.join(', ')}`, {
      delivered: 'no',
    });
  }
  const refused = code === -32601 || code === -32602 || code === -32600 || code === -32700 || code === -32020;
  return failure(side, 'invalid_response', `answered ${method} with error ${code}${text === '' ? '' : `: ${text}`}`, {
    delivered: refused ? 'no' : 'unknown',
    cause: new RpcRefusal(code),
  });
}

export const METHOD_NOT_FOUND = -32601;

/** The JSON-RPC error behind a failure. */
class RpcRefusal extends Error {
  readonly code: number;
  constructor(code: number) {
    super(`JSON-RPC error ${code}`);
    this.code = code;
  }
}

/** The answer was read to its end, and the reply was not in it. */
export class NoReply extends Error {}

/** Code of the JSON-RPC error a failure comes from; `undefined` when there is none. */
export function rpcCode(error: UpstreamError): number | undefined {
  return error.cause instanceof RpcRefusal ? error.cause.code : undefined;
}

/**
 * What a server sent, as JSON; `undefined` when it is none.
 * @throws UpstreamError when it is nested so deep that reading it would exhaust the stack
 */
export function parseRemote(side: Side, text: string, where: string): JsonValue | undefined {
  const value = parseJson(text);
  if (!exceedsDepth(value, MAX_REMOTE_DEPTH)) return value;
  throw failure(side, 'invalid_response', `sent JSON nested deeper than ${MAX_REMOTE_DEPTH} levels ${where}`);
}

/** The JSON of a refusal; `undefined` when it is none, or nested too deep to be read. */
export function parseRefusal(text: string): JsonValue | undefined {
  const value = parseJson(text);
  return exceedsDepth(value, MAX_REMOTE_DEPTH) ? undefined : value;
}

/** Protocol versions named in an answer, newest first. */
export function listedVersions(answer: JsonValue | string): string[] {
  const text = typeof answer === 'string' ? answer : JSON.stringify(answer);
  const data = isJsonObject(answer) && isJsonObject(answer.data) ? answer.data.supported : undefined;
  if (Array.isArray(data))
    return data
      .filter((item) => typeof item === 'string')
      .sort()
      .reverse();
  if (!/version/i.test(text)) return [];
  return [...new Set(text.match(/\b20\d\d-\d\d-\d\d\b/g) ?? [])].sort().reverse();
}

/** The text of a server, redacted and cut, as it may be shown. */
export function passedOn(side: Side, text: string): string {
  const clean = side.clean(unsmuggled(text)).replace(/\s+/g, ' ').trim();
  return clean.length <= MAX_PASSED_ON ? clean : `${clean.slice(0, MAX_PASSED_ON)}…`;
}

/** `2 s`, `1.5 s`; `40 ms` of what would be no second at all. */
export function seconds(milliseconds: number): string {
  if (milliseconds < 50) return `${Math.max(0, Math.round(milliseconds))} ms`;
  return `${Math.round(milliseconds / 100) / 10} s`;
}

/** The message of a JSON error body, where there is one; never any other text. */
function detail(side: Side, answer: HttpAnswer): string {
  const body = parseRefusal(answer.text);
  if (!isJsonObject(body)) return '';
  const error = body.error;
  const text = isJsonObject(error) ? error.message : typeof error === 'string' ? error : body.message;
  return typeof text === 'string' && text !== '' ? ` ("${passedOn(side, text)}")` : '';
}

function refersToSession(answer: HttpAnswer): boolean {
  const body = parseRefusal(answer.text);
  const unknownMethod = isJsonObject(body) && isJsonObject(body.error) && body.error.code === METHOD_NOT_FOUND;
  if (unknownMethod) return false;
  return answer.status === 404 || (answer.status === 400 && /session/i.test(answer.text));
}

function doubledPath({ url, remedies = 'stored' }: Side): string {
  const segments = URL.canParse(url) ? new URL(url).pathname.split('/').filter((segment) => segment !== '') : [];
  const doubled = segments.find((segment, index) => segment === segments[index + 1]);
  return doubled === undefined
    ? ': there is no MCP endpoint at that path'
    : remedies === 'stored'
      ? `: the path is doubled ("/${doubled}/${doubled}"), because the endpoint is appended to the url; leave "/${doubled}" out of the url`
      : `: the path is doubled ("/${doubled}/${doubled}")`;
}

function absolute(location: string, base: string): string {
  return URL.canParse(location, base) ? new URL(location, base).href : base;
}
