import { LRUCache } from 'lru-cache';
import { INVALID_ARGUMENT, UpstreamError } from '../errors.ts';
import { type Bulkhead, createBulkhead, retry } from '../outbound/resilience.ts';
import { retryAfterMs } from '../outbound/retry-after.ts';
import type { EndpointPolicy, Outbound } from '../outbound/types.ts';
import type { Logger } from '../telemetry/logger.ts';
import { mcpUrl, originsOf } from './blueprint.ts';
import type { Credentials } from './credentials.ts';
import { changeJson } from './digits.ts';
import { policyForAddress } from './endpoint-policy.ts';
import { renderHeaders } from './headers.ts';
import { mcpAddress } from './mcp-address.ts';
import { compileBody, compileText, placeholderNames, renderBody, type Template } from './template.ts';
import type {
  ActionRequest,
  ActionResponse,
  Connector,
  ConnectorAction,
  Connectors,
  RenderedRequest,
} from './types.ts';
import { renderUrl } from './url-template.ts';

const MAX_RESPONSE_BYTES = 8 * 1024 * 1024;
const CACHED_TEMPLATES = 2000;
const CACHED_BULKHEADS = 1000;
const WAITING_CALLS = 1000;

export interface ExecutorDeps {
  readonly credentials: Credentials;
  readonly outbound: Outbound;
  readonly policy: () => EndpointPolicy;
  readonly log: Logger;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

type Executor = Pick<Connectors, 'execute' | 'hasPlaceholder' | 'mcpEndpoint'>;

/** Turns stored blueprints into requests and sends them; templates are compiled once per text. */
export function createExecutor({ credentials, outbound, policy, log, now }: ExecutorDeps): Executor {
  const bodies = cached(CACHED_TEMPLATES, compileBody);
  const texts = cached(CACHED_TEMPLATES, compileText);
  const bulkheads = new LRUCache<string, Bulkhead>({ max: CACHED_BULKHEADS });

  async function render(connector: Connector, request: ActionRequest): Promise<RenderedRequest> {
    const action = actionOf(connector, request.actionType);
    const parameters = { ...connector.parameters, ...request.parameters };
    const url = renderUrl(texts(action.url), connector.parameters, request.parameters);
    const body = renderAction(bodies, action, parameters, request);
    const headers = renderHeaders(
      action.headers ?? {},
      { credential: await credentials.open(connector), parameters },
      'http',
      texts,
    );
    const named = Object.keys(headers).some((name) => name.toLowerCase() === 'content-type');
    return {
      method: action.method,
      url,
      headers: body === undefined || named ? headers : { ...headers, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body }),
      origins: originsOf(connector),
    };
  }

  async function send(connector: Connector, rendered: RenderedRequest, signal?: AbortSignal): Promise<ActionResponse> {
    const { connection_timeout, read_timeout, skip_ssl_verification, max_total_timeout } = connector.clientConfig;
    const destination = `connector "${connector.name}"`;
    const totalSeconds = Math.max(max_total_timeout, connection_timeout, read_timeout);
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(overdue(destination, totalSeconds)), totalSeconds * 1000);
    const request = {
      ...rendered,
      destination,
      policy: policy(),
      connectTimeoutMs: connection_timeout * 1000,
      responseTimeoutMs: read_timeout * 1000,
      idleTimeoutMs: read_timeout * 1000,
      maxResponseBytes: MAX_RESPONSE_BYTES,
      redirect: 'same-origin',
      skipTlsVerification: skip_ssl_verification,
      signal: signal === undefined ? deadline.signal : AbortSignal.any([signal, deadline.signal]),
    } as const;
    try {
      const response = await outbound.request(request);
      return { status: response.status, headers: response.headers, body: await response.text() };
    } finally {
      clearTimeout(timer);
    }
  }

  function bulkheadOf({ id, revision, name, clientConfig }: Connector): Bulkhead {
    const key = `${id} ${revision}`;
    const bulkhead =
      bulkheads.get(key) ?? createBulkhead(clientConfig.max_connection, WAITING_CALLS, `connector "${name}"`);
    bulkheads.set(key, bulkhead);
    return bulkhead;
  }

  return {
    execute: async (connector, request) => {
      const rendered = await render(connector, request);
      const attempt = () => bulkheadOf(connector).run(() => send(connector, rendered, request.signal), request.signal);
      return retried(connector, attempt, { log, now, signal: request.signal });
    },
    hasPlaceholder: (connector, actionType, parameter) => {
      const action = findAction(connector, actionType);
      return placeholderNames(bodies(action?.request_body ?? ''), 'parameters').includes(parameter);
    },
    mcpEndpoint: async (connector) => {
      const url = mcpUrl(connector);
      const address = mcpAddress(url, connector.parameters.endpoint);
      const credential = await credentials.open(connector);
      let judged = policy();
      let ofAddress = policyForAddress(judged, url, address);
      return {
        url: address,
        headers: renderHeaders(connector.headers ?? {}, { credential, parameters: {} }, 'mcp', texts),
        origins: originsOf(connector),
        get policy() {
          if (judged !== policy()) {
            judged = policy();
            ofAddress = policyForAddress(judged, url, address);
          }
          return ofAddress;
        },
      };
    },
  };
}

function renderAction(
  bodies: (text: string) => Template,
  action: ConnectorAction,
  parameters: Readonly<Record<string, string>>,
  { fragments, merge }: ActionRequest,
): string | undefined {
  if (action.method === 'GET' || (action.request_body === undefined && merge === undefined)) return undefined;
  const template = bodies(action.request_body ?? '{}');
  const text = renderBody(template, { parameters, ...(fragments === undefined ? {} : { fragments }) });
  return merge === undefined ? text : changeJson(text, merge);
}

/**
 * Repeats what surely was not processed, and what the remote side asked to repeat (429 or 503 with `Retry-After`), as
 * `client_config` says. A last answer of any status is returned.
 */
async function retried(
  { name, clientConfig }: Connector,
  attempt: () => Promise<ActionResponse>,
  { log, now, signal }: { log: Logger; now: () => number; signal: AbortSignal | undefined },
): Promise<ActionResponse> {
  let asked: ActionResponse | undefined;
  const work = async (): Promise<{ response: ActionResponse } | { failure: unknown }> => {
    asked = undefined;
    try {
      const response = await attempt();
      const wait = retryAfterMs(response.headers['retry-after'], now());
      if (clientConfig.max_retry_times === 0 || wait === undefined) return { response };
      if (response.status !== 429 && response.status !== 503) return { response };
      asked = response;
      throw busy(name, response.status, wait);
    } catch (error) {
      if (error instanceof UpstreamError && error.delivered === 'no') throw error;
      return { failure: error };
    }
  };
  try {
    const outcome = await retry(work, {
      policy: clientConfig.retry_backoff_policy,
      maxRetryTimes: clientConfig.max_retry_times,
      backoffMillis: clientConfig.retry_backoff_millis,
      totalMs: clientConfig.retry_timeout_seconds * 1000,
      onRetry: ({ attempt: tried, delayMs, error }) =>
        log.warn({ connector: name, attempt: tried, delayMs, code: error.code }, `connector ${name} is tried again`),
      ...(signal === undefined ? {} : { signal }),
    });
    if ('failure' in outcome) throw outcome.failure;
    return outcome.response;
  } catch (error) {
    if (asked !== undefined && error instanceof UpstreamError) return asked;
    throw error;
  }
}

/** The read timeout bounds silences; a side that drips octets is bounded by this. */
function overdue(destination: string, seconds: number): UpstreamError {
  return new UpstreamError({
    code: 'response_timeout',
    destination,
    message: `${destination} did not finish its answer within ${seconds} s.`,
    statusCode: 504,
    delivered: 'unknown',
  });
}

function busy(name: string, status: number, wait: number): UpstreamError {
  return new UpstreamError({
    code: 'rate_limited',
    destination: `connector "${name}"`,
    message: `connector "${name}" answered ${status} and asked to wait.`,
    statusCode: 503,
    upstreamStatus: status,
    retryable: true,
    delivered: 'no',
    retryAfterMs: wait,
  });
}

function findAction(connector: Connector, actionType: string): ConnectorAction | undefined {
  const wanted = actionType.toUpperCase();
  return connector.actions?.find((action) => action.action_type === wanted);
}

function actionOf(connector: Connector, actionType: string): ConnectorAction {
  const action = findAction(connector, actionType);
  if (action !== undefined) return action;
  throw new INVALID_ARGUMENT(`no ${actionType} action found`);
}

function cached<T extends object>(max: number, compile: (text: string) => T): (text: string) => T {
  const kept = new LRUCache<string, T>({ max });
  return (text) => {
    const known = kept.get(text);
    if (known !== undefined) return known;
    const compiled = compile(text);
    kept.set(text, compiled);
    return compiled;
  };
}
