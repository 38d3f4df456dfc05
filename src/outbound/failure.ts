import { type CauseCode, UpstreamError } from '../errors.ts';
import type { Refusal } from './address-guard.ts';

/** What went wrong under a request, in words; the request adds who it was for. Holds no header and no query. */
export interface Trouble {
  readonly code: CauseCode;
  /** Follows `<destination> at <origin> `: `refused the connection (ECONNREFUSED).` */
  readonly text: string;
  readonly delivered: 'no' | 'unknown';
  readonly retryable: boolean;
  readonly statusCode?: number;
  readonly remedy?: string;
  readonly cause?: { readonly code: string; readonly message: string };
}

/** An error that carries a `Trouble` through code that only passes `Error`s on. */
export class TroubleError extends Error {
  override name = 'TroubleError';
  readonly trouble: Trouble;
  constructor(trouble: Trouble) {
    super(trouble.text);
    this.trouble = trouble;
  }
}

const WORDS: Readonly<Record<string, readonly [CauseCode, string]>> = {
  UND_ERR_HEADERS_TIMEOUT: ['response_timeout', 'did not begin to answer in time'],
  UND_ERR_BODY_TIMEOUT: ['response_timeout', 'fell silent in the middle of its answer'],
  UND_ERR_HEADERS_OVERFLOW: ['invalid_response', 'answered with more header data than is accepted'],
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: ['stream_broken', 'ended its answer at another length than it had announced'],
  UND_ERR_DESTROYED: ['stream_broken', 'was cut off: this server is shutting down'],
};

/** Reads a failure of the HTTP client after the connection stood. Request options on the error are dropped. */
export function troubleOf(error: unknown): Trouble {
  if (error instanceof TroubleError) return error.trouble;
  const code = nodeCode(error);
  const cause = { code, message: error instanceof Error ? error.message : 'unknown failure' };
  const notHttp = error instanceof Error && error.name === 'HTTPParserError';
  const [kind, text] = WORDS[code] ?? (notHttp ? NOT_HTTP : BROKEN);
  const retryable = kind !== 'invalid_response' && code !== 'UND_ERR_DESTROYED';
  return { code: kind, text: `${text}${shown(code)}.`, delivered: 'unknown', retryable, cause };
}

const NOT_HTTP = ['invalid_response', 'answered with something that is not HTTP'] as const;
const BROKEN = ['stream_broken', 'broke the connection before its answer was complete'] as const;

export function nodeCode(error: unknown): string {
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' ? code : 'unknown';
}

function shown(code: string): string {
  return code === 'unknown' || code.startsWith('UND_ERR_') ? '' : ` (${code})`;
}

/** The failure as the caller sees it: timeouts 504, everything else of the remote side 502. */
export function upstream(destination: string, origin: string, trouble: Trouble): UpstreamError {
  const timedOut = trouble.code === 'connect_timeout' || trouble.code === 'response_timeout';
  return new UpstreamError({
    code: trouble.code,
    destination,
    message: `${destination} at ${origin} ${trouble.text}`,
    statusCode: trouble.statusCode ?? (timedOut ? 504 : 502),
    retryable: trouble.retryable,
    delivered: trouble.delivered,
    ...(trouble.remedy === undefined ? {} : { remedy: trouble.remedy }),
    ...(trouble.cause === undefined ? {} : { cause: trouble.cause }),
  });
}

/** The endpoint policy does not allow the address: 400, nothing was sent, trying again changes nothing. */
export function refused(destination: string, refusal: Refusal): UpstreamError {
  return new UpstreamError({
    code: 'address_refused',
    destination,
    message: `${destination} may not be contacted. ${refusal.reason}`,
    statusCode: 400,
    retryable: false,
    delivered: 'no',
  });
}
