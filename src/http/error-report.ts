import { type CauseCode, type ExceptionName, isCatalogueError, UpstreamError } from '../errors.ts';

/** What an answer may say about a failure, whatever its envelope. */
export interface ErrorReport {
  readonly status: number;
  readonly exception: ExceptionName;
  readonly reason: string;
  /** The caller's own mistake in how the request is written: E1 even on the execute routes. */
  readonly parsing: boolean;
  /** Nothing about it is documented: logged with its stack, answered without it. */
  readonly bug: boolean;
  readonly action?: 'authenticate';
  readonly retryAfterSeconds?: number;
  readonly cause?: ErrorReport;
}

/** Codes of the HTTP server's own errors that the API documents in another way. */
const SERVER_ERRORS: Readonly<Record<string, { exception: ExceptionName; status: number; reason: string }>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: {
    exception: 'OpenSearchStatusException',
    status: 413,
    reason: 'Request body is too large: at most 10485760 bytes are read. Send a smaller body',
  },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: {
    exception: 'IllegalArgumentException',
    status: 400,
    reason: 'Request body length does not match the Content-Length header',
  },
  FST_ERR_BAD_URL: {
    exception: 'IllegalArgumentException',
    status: 400,
    reason: 'Request path is not valid: a % must be followed by two hexadecimal digits of UTF-8 text',
  },
  FST_ERR_MAX_PARAM_LENGTH: {
    exception: 'IllegalArgumentException',
    status: 400,
    reason: 'A segment of the request path is too long, max length is 512 bytes',
  },
};

const PARSING: readonly ExceptionName[] = ['JsonParseException', 'ParsingException', 'OpenSearchParseException'];

/** Errors that say nothing about the run: E1 wherever they happen. */
const STANDARD_ENVELOPE: readonly string[] = ['TENON_FEATURE_DISABLED', 'TENON_LIMIT_EXCEEDED'];

/** Sorts an error into what the catalogue, a remote side, the HTTP server or validation says about it. */
export function reportError(error: unknown): ErrorReport {
  if (error instanceof UpstreamError) return reportUpstream(error);
  if (isCatalogueError(error)) {
    const parsing = PARSING.includes(error.exception) || STANDARD_ENVELOPE.includes(error.code);
    const { retryAfterMs = 1000 } = error as { retryAfterMs?: number };
    const cause = reportCause(error.cause);
    return {
      status: error.statusCode,
      exception: error.exception,
      reason: error.message,
      parsing,
      bug: false,
      ...(error.statusCode === 503 || error.statusCode === 429
        ? { retryAfterSeconds: Math.max(1, Math.ceil(retryAfterMs / 1000)) }
        : {}),
      ...(cause === undefined ? {} : { cause }),
    };
  }
  const { code, validation, statusCode } = (error ?? {}) as {
    code?: unknown;
    validation?: readonly ValidationFault[];
    statusCode?: unknown;
  };
  if (validation?.[0]) return reportValidation(validation[0]);
  if (typeof code === 'string' && code.startsWith('FST_ERR_')) {
    const known = SERVER_ERRORS[code];
    if (known) return { ...known, parsing: true, bug: false };
    if (typeof statusCode === 'number' && statusCode < 500) {
      const reason = (error as Error).message;
      return { exception: 'OpenSearchStatusException', status: statusCode, reason, parsing: true, bug: false };
    }
  }
  const reason = 'Internal error. The log of the server has the details';
  return { exception: 'OpenSearchException', status: 500, reason, parsing: false, bug: true };
}

function reportUpstream(error: UpstreamError): ErrorReport {
  const stop = /[.!?…]$/.test(error.message) ? '' : '.';
  const remedy = error.remedy !== undefined && !error.message.includes(error.remedy) ? ` ${error.remedy}` : '';
  const planned = error.nextRetryTime === undefined ? undefined : error.nextRetryTime - Date.now();
  // A call that may have run is not to be made again, by no client that obeys a header.
  const retry = error.retryAfterMs ?? (error.delivered === 'unknown' ? undefined : planned);
  const cause = reportCause(error.cause);
  return {
    status: error.statusCode,
    exception: error.exception,
    reason:
      error.remedy === undefined ? error.message : `${error.message}${stop}${remedy}${causeOf(error.code, planned)}`,
    parsing: false,
    bug: false,
    ...(error.action === undefined ? {} : { action: error.action }),
    ...(retry === undefined ? {} : { retryAfterSeconds: Math.max(1, Math.ceil(retry / 1000)) }),
    ...(cause === undefined ? {} : { cause }),
  };
}

/** The cause code, and when it is tried again by itself. */
function causeOf(code: CauseCode, plannedMs: number | undefined): string {
  const next =
    plannedMs === undefined || plannedMs < 1 ? '' : `, next attempt to connect in ${Math.ceil(plannedMs / 1000)} s`;
  return ` [${code}${next}]`;
}

/** Only causes that were written for a caller are shown; what a library threw below stays in the log. */
function reportCause(cause: unknown): ErrorReport | undefined {
  return cause instanceof UpstreamError || isCatalogueError(cause) ? reportError(cause) : undefined;
}

interface ValidationFault {
  readonly keyword: string;
  readonly instancePath: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly message?: string;
}

function reportValidation(fault: ValidationFault): ErrorReport {
  const field = fault.instancePath.slice(1).replaceAll('/', '.');
  if (fault.keyword === 'type') {
    const reason = `[${field || 'body'}] ${fault.message ?? 'has the wrong type'}`;
    return { exception: 'ParsingException', status: 400, reason, parsing: true, bug: false };
  }
  const missing = fault.params['missingProperty'];
  const reason =
    typeof missing === 'string'
      ? `[${field === '' ? missing : `${field}.${missing}`}] is required`
      : `[${field || 'body'}] ${fault.message ?? 'is not valid'}`;
  return { exception: 'IllegalArgumentException', status: 400, reason, parsing: true, bug: false };
}

/** The `type` of an E1 envelope: `OpenSearchStatusException` is `status_exception`, `IOException` `i_o_exception`. */
export function wireType(exception: ExceptionName): string {
  return exception
    .replace(/^OpenSearch/, '')
    .replace(/[A-Z]/g, (letter, at: number) => (at === 0 ? '' : '_') + letter.toLowerCase());
}
