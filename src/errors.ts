import createError from '@fastify/error';

/**
 * Simple names of the exception classes the compatible API documents. The `type` of an E1 envelope and the `type` of an
 * E3 envelope are both derived from this name (contract: leading `OpenSearch` dropped, upper case to `_` + lower case).
 */
export type ExceptionName =
  | 'OpenSearchStatusException'
  | 'IllegalArgumentException'
  | 'OpenSearchParseException'
  | 'ParsingException'
  | 'JsonParseException'
  | 'ActionRequestValidationException'
  | 'ResourceNotFoundException'
  | 'IndexNotFoundException'
  | 'IllegalStateException'
  | 'IOException'
  | 'OpenSearchException'
  | 'MLException'
  | 'OpenSearchRejectedExecutionException'
  | 'OpenSearchSecurityException';

/** An error of the catalogue below: the caller's mistake, or a failure whose status and text the API documents. */
export interface CatalogueError extends Error {
  readonly code: string;
  readonly statusCode: number;
  readonly exception: ExceptionName;
}

type CatalogueErrorConstructor = new (...values: unknown[]) => CatalogueError;

function define(
  code: string,
  exception: ExceptionName,
  statusCode: number,
  message: string,
): CatalogueErrorConstructor {
  const Constructor = createError(code, message, statusCode);
  Object.defineProperty(Constructor.prototype, 'exception', { value: exception, enumerable: false });
  return Constructor as unknown as CatalogueErrorConstructor;
}

export function isCatalogueError(error: unknown): error is CatalogueError {
  return error instanceof Error && typeof (error as { exception?: unknown }).exception === 'string';
}

// Requests ------------------------------------------------------------------------------------------------------------
/** 400: a value the caller gave cannot be used; the text names the field and the remedy. */
export const INVALID_ARGUMENT = define('TENON_INVALID_ARGUMENT', 'IllegalArgumentException', 400, '%s');
/** 400: the body is missing or has the wrong shape. */
export const PARSE_FAILED = define('TENON_PARSE_FAILED', 'OpenSearchParseException', 400, '%s');
/** 400: well-formed JSON whose shape is not the expected one (an array in place of an object). */
export const WRONG_SHAPE = define('TENON_WRONG_SHAPE', 'ParsingException', 400, '%s');
/** 400: well-formed but not acceptable as a whole; `%s` is the numbered list of the contract, `1: ...;2: ...;`. */
export const VALIDATION_FAILED = define(
  'TENON_VALIDATION_FAILED',
  'ActionRequestValidationException',
  400,
  'Validation Failed: %s',
);
/** 400: the body is not JSON. */
export const BROKEN_JSON = define('TENON_BROKEN_JSON', 'JsonParseException', 400, '%s');
/** 500: an empty body on the routes whose documented answer is an I/O exception. */
export const EMPTY_BODY = define('TENON_EMPTY_BODY', 'IOException', 500, '%s');
/** 500: a feature is switched off by a cluster setting; the text names the setting. */
export const FEATURE_DISABLED = define('TENON_FEATURE_DISABLED', 'IllegalStateException', 500, '%s');
/** 500: MCP is switched off by a cluster setting (the documented class differs from the other switches). */
export const MCP_DISABLED = define(
  'TENON_MCP_DISABLED',
  'OpenSearchException',
  500,
  'The MCP connector is not enabled. To enable, please update the setting plugins.ml_commons.mcp_connector_enabled',
);
/** 403: the caller may not do this; the text says what to configure. */
export const FORBIDDEN = define('TENON_FORBIDDEN', 'OpenSearchStatusException', 403, '%s');
/** 403: nobody may do this now, because it is switched off; the text says what. */
export const SWITCHED_OFF = define('TENON_SWITCHED_OFF', 'OpenSearchStatusException', 403, '%s');
/** 401: the caller is not known. */
export const UNAUTHORIZED = define('TENON_UNAUTHORIZED', 'OpenSearchStatusException', 401, '%s');
/** 401: the caller did not show who it is, or not rightly. */
export const NOT_SIGNED_IN = define('TENON_NOT_SIGNED_IN', 'OpenSearchSecurityException', 401, '%s');
/** 403: the roles of the caller do not allow it. */
export const NO_PERMISSION = define('TENON_NO_PERMISSION', 'OpenSearchSecurityException', 403, '%s');
/** 429: too many sign-ins failed; carries `retryAfterMs`. */
export const TOO_MANY_SIGN_INS = define('TENON_TOO_MANY_SIGN_INS', 'OpenSearchSecurityException', 429, '%s');
/** 503: the OpenID provider does not answer, so nobody knows who calls; carries `retryAfterMs`. */
export const SIGN_IN_UNAVAILABLE = define('TENON_SIGN_IN_UNAVAILABLE', 'OpenSearchSecurityException', 503, '%s');
/** 409: the record or the connection is in a state that does not allow the action. */
export const CONFLICT = define('TENON_CONFLICT', 'OpenSearchStatusException', 409, '%s');
/** 404 with the documented text of the noun. */
export const NOT_FOUND = define('TENON_NOT_FOUND', 'OpenSearchStatusException', 404, '%s');
/** 404 of the legacy memory routes. */
export const RESOURCE_NOT_FOUND = define('TENON_RESOURCE_NOT_FOUND', 'ResourceNotFoundException', 404, '%s');
/** 404 of the legacy memory routes while nothing was ever stored. */
export const INDEX_NOT_FOUND = define('TENON_INDEX_NOT_FOUND', 'IndexNotFoundException', 404, 'no such index [%s]');
/** 429: too many requests or calls in flight. */
export const THROTTLED = define('TENON_THROTTLED', 'OpenSearchRejectedExecutionException', 429, '%s');
/** 429: a limit of the caller or of the agent, set by the operator; carries `retryAfterMs`. */
export const LIMIT_EXCEEDED = define('TENON_LIMIT_EXCEEDED', 'OpenSearchRejectedExecutionException', 429, '%s');
/** 503: the store could not take the write in time; nothing was stored, the caller may try again. */
export const STORE_BUSY = define('TENON_STORE_BUSY', 'OpenSearchStatusException', 503, '%s');

// Connectors ----------------------------------------------------------------------------------------------------------
export const CONNECTOR_NOT_FOUND = define(
  'TENON_CONNECTOR_NOT_FOUND',
  'OpenSearchStatusException',
  404,
  'Failed to find connector with the provided connector id: %s',
);
export const ENDPOINT_NOT_TRUSTED = define(
  'TENON_ENDPOINT_NOT_TRUSTED',
  'IllegalArgumentException',
  400,
  'Connector URL is not matching the trusted connector endpoint regex%s',
);
export const ID_TAKEN = define('TENON_ID_TAKEN', 'OpenSearchStatusException', 409, "%s id '%s' already exists");

// Models, agents, tasks -----------------------------------------------------------------------------------------------
export const MODEL_NOT_FOUND = define(
  'TENON_MODEL_NOT_FOUND',
  'OpenSearchStatusException',
  404,
  'Failed to find model with the provided model id: %s',
);
/** Carries `retryAfterMs`. */
export const MODEL_THROTTLED = define(
  'TENON_MODEL_THROTTLED',
  'OpenSearchStatusException',
  429,
  'Request is throttled at model level.',
);
export const AGENT_NOT_FOUND = define(
  'TENON_AGENT_NOT_FOUND',
  'OpenSearchStatusException',
  404,
  'Failed to find agent with the provided agent id: %s',
);
export const TASK_NOT_FOUND = define('TENON_TASK_NOT_FOUND', 'OpenSearchStatusException', 404, 'Failed to find task');
/** 500, as the API documents it: a running task is not deleted. */
export const TASK_RUNNING = define(
  'TENON_TASK_RUNNING',
  'OpenSearchException',
  500,
  'Task cannot be deleted in running state. Try after some time.',
);

// Start-up: the process refuses to start with this one line -----------------------------------------------------------
/** The configuration, the key or the database does not allow a start. The message is the whole explanation. */
export class StartupError extends Error {
  override name = 'StartupError';
}

// Remote sides --------------------------------------------------------------------------------------------------------
/** Why a remote side failed. A name never changes its meaning; new ones may come (docs/status-and-errors.md). */
export type CauseCode =
  | 'connection_refused'
  | 'dns_failed'
  | 'tls_failed'
  | 'connect_timeout'
  | 'response_timeout'
  | 'stream_broken'
  | 'wrong_path'
  | 'method_not_allowed'
  | 'not_mcp'
  | 'auth_required'
  | 'forbidden'
  | 'insufficient_scope'
  | 'session_lost'
  | 'rate_limited'
  | 'server_error'
  | 'version_unsupported'
  | 'invalid_response'
  | 'tools_invalid'
  | 'address_refused'
  | 'breaker_open'
  | 'disabled'
  | 'spawn_failed'
  | 'process_exited'
  | 'id_taken'
  | 'invalid_config'
  | 'outcome_unknown';

export interface UpstreamFailure {
  readonly code: CauseCode;
  /** The connector, model or address that failed, as its owner knows it. Never holds a credential. */
  readonly destination: string;
  /** Full sentence: which side, what it answered, whether it will be tried again. */
  readonly message: string;
  /** What a person can do about it. */
  readonly remedy?: string;
  /** Status for our own caller when the failure ends the request. */
  readonly statusCode: number;
  /** HTTP status the remote side answered, if any. */
  readonly upstreamStatus?: number;
  /** Whether the same request may be sent again by a retry policy. */
  readonly retryable?: boolean;
  /** `no`: the request surely was not processed; `unknown`: it may have been. */
  readonly delivered?: 'no' | 'unknown';
  /** Wait named by the remote side, in milliseconds. */
  readonly retryAfterMs?: number;
  /** Next step for the caller, shown as `error.action`. */
  readonly action?: 'authenticate';
  readonly attempts?: number;
  readonly nextRetryTime?: number;
  readonly cause?: unknown;
}

/** A failure of a remote side (MCP server, model provider, authorization server). */
export class UpstreamError extends Error {
  override name = 'UpstreamError';
  readonly exception: ExceptionName = 'OpenSearchStatusException';
  readonly code: CauseCode;
  readonly statusCode: number;
  readonly destination: string;
  readonly remedy: string | undefined;
  readonly upstreamStatus: number | undefined;
  readonly retryable: boolean;
  readonly delivered: 'no' | 'unknown';
  readonly retryAfterMs: number | undefined;
  readonly action: 'authenticate' | undefined;
  readonly attempts: number | undefined;
  readonly nextRetryTime: number | undefined;

  constructor(failure: UpstreamFailure) {
    super(failure.message, failure.cause === undefined ? undefined : { cause: failure.cause });
    this.code = failure.code;
    this.statusCode = failure.statusCode;
    this.destination = failure.destination;
    this.remedy = failure.remedy;
    this.upstreamStatus = failure.upstreamStatus;
    this.retryable = failure.retryable ?? false;
    this.delivered = failure.delivered ?? 'unknown';
    this.retryAfterMs = failure.retryAfterMs;
    this.action = failure.action;
    this.attempts = failure.attempts;
    this.nextRetryTime = failure.nextRetryTime;
  }
}
