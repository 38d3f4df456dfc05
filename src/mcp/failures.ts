import { type CauseCode, UpstreamError, type UpstreamFailure } from '../errors.ts';
import { exceedsDepth, isJsonObject, type JsonObject, type JsonValue, MAX_REMOTE_DEPTH, parseJson } from '../json.ts';
import { SIGN_IN } from './failure-kinds.ts';
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
}

const MAX_PASSED_ON = 500;

const REMEDIES: Readonly<Record<CauseCode, string>> = {
  connection_refused: 'Start the server, or correct the url of the connector.',
  dns_failed: 'Check the host name in the url of the connector.',
  tls_failed: 'Check the certificate of the server and the https port.',
  connect_timeout: 'Check that the server is reachable from here; client_config.connection_timeout sets the limit.',
  response_timeout: 'Check the load of the server; client_config.read_timeout and max_total_timeout set the limits.',
  stream_broken: 'Check the server and any proxy before it; the next use tries again.',
  wrong_path: 'Correct url and parameters.endpoint: the address is url + endpoint (default /mcp).',
  method_not_allowed: 'Check that the address is an MCP endpoint of the Streamable HTTP transport.',
  not_mcp: 'Check that the address is an MCP endpoint and that no sign-in page or proxy answers in its place.',
  auth_required: 'Correct the credential of the connector: PUT it with `credential`.',
  forbidden: 'Give the credential the permission it lacks, or use another one.',
  insufficient_scope: 'Sign in again with the scope the server asks for.',
  session_lost: 'Nothing to do: the next use opens a new session.',
  rate_limited: 'Wait for the time the server names, or ask its operator for a higher limit.',
  server_error: 'Look at the logs of the server.',
  version_unsupported: 'Update the server, or set client_config.protocol_version to a version it speaks.',
  invalid_response: 'Report the answer to the maker of the server.',
  tools_invalid: 'Report the tool definitions to the maker of the server.',
  address_refused: 'Allow the address in the settings, or use another one.',
  breaker_open: 'Wait for the next attempt, or POST /_plugins/_ml/connectors/{id}/_reconnect.',
  disabled: 'Enable the connector: POST /_plugins/_ml/connectors/{id}/_enable.',
  spawn_failed: 'Check the command of the server in the configuration file.',
  process_exited: 'Look at `stderr` in the status of the connector: it is what the server wrote before it ended.',
  id_taken: 'Give the server another name in the configuration file.',
  invalid_config: 'Correct the entry in the configuration file and restart.',
  outcome_unknown: 'Find out on the side of the server whether the call took effect before it is made again.',
};

/** What a person can do about a failure of that kind. */
export function remedyFor(code: CauseCode): string {
  return REMEDIES[code];
}

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
    remedy: remedyFor(code),
    statusCode: statusFor(code),
    ...(SIGN_IN.has(code) && { action: 'authenticate' as const }),
    ...rest,
  });
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
  if (status === 404)
    return failure(side, 'wrong_path', `${said}${doubledPath(side.url)}`, { ...base, delivered: 'no' });
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

/** `2 s`, `1.5 s`. */
export function seconds(milliseconds: number): string {
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

function doubledPath(url: string): string {
  const segments = URL.canParse(url) ? new URL(url).pathname.split('/').filter((segment) => segment !== '') : [];
  const doubled = segments.find((segment, index) => segment === segments[index + 1]);
  return doubled === undefined
    ? ': there is no MCP endpoint at that path'
    : `: the path is doubled ("/${doubled}/${doubled}"), because the endpoint is appended to the url; leave "/${doubled}" out of the url`;
}

function absolute(location: string, base: string): string {
  return URL.canParse(location, base) ? new URL(location, base).href : base;
}
