import type { ActionResponse } from '../connectors/types.ts';
import { type CauseCode, UpstreamError } from '../errors.ts';
import { exceedsDepth, isJsonObject, type JsonValue, MAX_REMOTE_DEPTH, parseJson } from '../json.ts';
import { retryAfterMs as waitNamedBy } from '../outbound/retry-after.ts';
import type { Redactor } from '../telemetry/redactor.ts';

const MAX_MESSAGE = 500;
const MARKUP = /^\s*<(?:!doctype|html|head|body|\?xml)/i;

/**
 * The failure of a provider that answered with another status than 2xx. Its status is ours, its message is passed on: at
 * most 500 characters, without secrets, never a page of HTML.
 */
export function providerError(
  response: ActionResponse,
  destination: string,
  redactor: Redactor,
  now: number,
): UpstreamError {
  const { status, headers } = response;
  const retryAfterMs = waitNamedBy(headers['retry-after'], now);
  const processed = status !== 429 && status !== 401 && status !== 403;
  return new UpstreamError({
    code: causeOf(status),
    destination,
    message: `Error from remote service: ${short(redactor.clean(messageOf(response)))}`,
    statusCode: status >= 400 && status <= 599 ? status : 502,
    upstreamStatus: status,
    retryable: status === 408 || status === 429 || (status >= 500 && status !== 501),
    delivered: processed ? 'unknown' : 'no',
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}

/** The failure of a provider that answered 2xx with no body at all. */
export function emptyBodyError(destination: string, status: number): UpstreamError {
  return new UpstreamError({
    code: 'invalid_response',
    destination,
    message: 'Remote service returned empty response body',
    statusCode: 502,
    upstreamStatus: status,
  });
}

/** A 2xx answer that an agent cannot use. `detail` is a sentence without its subject. */
export function unusableAnswerError(detail: string, destination: string, status: number): UpstreamError {
  return new UpstreamError({
    code: 'invalid_response',
    destination,
    message: `Error from remote service: ${destination} answered with status ${status}, but ${short(detail)}`,
    statusCode: 502,
    upstreamStatus: status,
  });
}

/** A 2xx answer whose JSON nests so deep that nothing can be done with it. */
export function tooDeepError(destination: string, status: number): UpstreamError {
  return unusableAnswerError(`its JSON is nested deeper than ${MAX_REMOTE_DEPTH} levels`, destination, status);
}

/** At most 500 characters, with no half of a surrogate pair at the end. */
function short(text: string): string {
  return text.length <= MAX_MESSAGE ? text : text.slice(0, MAX_MESSAGE).replace(/[\ud800-\udbff]$/, '');
}

function messageOf({ status, headers, body }: ActionResponse): string {
  const text = body.trim();
  if (text === '') return `status ${status} with an empty body`;
  const parsed = parseJson(text);
  if (exceedsDepth(parsed, MAX_REMOTE_DEPTH)) {
    return `status ${status} with JSON that is nested deeper than ${MAX_REMOTE_DEPTH} levels`;
  }
  if (parsed !== undefined) return memberMessage(parsed) ?? text;
  if (MARKUP.test(text) || /\bhtml\b/i.test(headers['content-type'] ?? '')) {
    return `status ${status} with an HTML page, so the url of the connector may be wrong or a proxy answered`;
  }
  return text;
}

/** Where vendors put the text: `error.message`, `error`, `message`, `detail`, or the first of a list of such objects. */
function memberMessage(value: JsonValue): string | undefined {
  if (typeof value === 'string') return value === '' ? undefined : value;
  if (Array.isArray(value)) return value[0] === undefined ? undefined : memberMessage(value[0]);
  if (!isJsonObject(value)) return undefined;
  for (const name of ['error', 'message', 'detail', 'errors']) {
    const text = value[name] === undefined ? undefined : memberMessage(value[name]);
    if (text !== undefined) return text;
  }
  return undefined;
}

function causeOf(status: number): CauseCode {
  if (status === 401) return 'auth_required';
  if (status === 403) return 'forbidden';
  if (status === 404) return 'wrong_path';
  if (status === 405) return 'method_not_allowed';
  if (status === 429) return 'rate_limited';
  return status >= 500 ? 'server_error' : 'invalid_response';
}
