import type { Connector, Connectors } from '../connectors/types.ts';
import { UpstreamError } from '../errors.ts';
import { retry } from '../outbound/resilience.ts';
import type { Outbound } from '../outbound/types.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Redactor } from '../telemetry/redactor.ts';
import { amended, seconds } from './failures.ts';
import type { ListAnswer, ListLimits, Session } from './session.ts';

export interface OpeningDeps {
  readonly connectors: Pick<Connectors, 'mcpEndpoint'>;
  readonly outbound: Outbound;
  readonly redactor: Pick<Redactor, 'clean' | 'cleanContent'>;
  readonly log: Logger;
  readonly now: () => number;
  readonly random: () => number;
}

export interface Opened {
  readonly session: Session;
  readonly answer: ListAnswer;
}

interface OpeningHooks {
  readonly signal: AbortSignal;
  readonly onHeard: () => void;
  readonly onListChanged: () => void;
  /** Takes the end of a session that nobody waits for: it is awaited at shutdown. */
  readonly onClosing: (closed: Promise<unknown>) => void;
  /** The era an earlier session of the same address was in: spoken again without asking. */
  readonly knownLegacy: boolean;
}

/**
 * Opens a session and reads its list, retried by the connector's `client_config`. A session that stands is kept while
 * only its list fails; one that is lost meanwhile is replaced.
 * @throws UpstreamError after the last try; errors of the connector itself (its address, its credential)
 */
export async function openWithRetry(connector: Connector, deps: OpeningDeps, hooks: OpeningHooks): Promise<Opened> {
  const { clientConfig } = connector;
  const destination = `connector "${connector.name}"`;
  let session: Session | undefined;

  async function listOf(open: Session, limits: ListLimits): Promise<ListAnswer> {
    try {
      return await open.list(limits, hooks.signal);
    } catch (error) {
      const lost = error instanceof UpstreamError && error.code === 'session_lost';
      if (!(error instanceof UpstreamError) || error.code === 'rate_limited') throw error;
      session = undefined;
      hooks.onClosing(open.close({ terminate: !lost }));
      throw lost ? amended(error, { retryable: true }) : error;
    }
  }

  try {
    return await retry(
      async (_attempt, remainingMs) => {
        const until = performance.now() + remainingMs;
        const limitMs = Math.max(1, Math.min(clientConfig.connection_timeout * 1000, remainingMs));
        session ??= await open(connector, destination, limitMs, deps, hooks);
        const totalMs = Math.max(1, until - performance.now());
        return { session, answer: await listOf(session, { pageMs: limitMs, totalMs }) };
      },
      {
        ...retryOptions(connector, deps.random),
        signal: hooks.signal,
        onRetry: ({ attempt, delayMs, error }) =>
          deps.log.warn(
            { connectorId: connector.id, code: error.code, attempt, delayMs },
            `MCP retry of ${destination} in ${seconds(delayMs)}: ${error.message}`,
          ),
      },
    );
  } catch (error) {
    if (session !== undefined) hooks.onClosing(session.close());
    throw error;
  }
}

/** What `client_config` says about retries of connect and list. */
export function retryOptions(connector: Connector, random: () => number): Omit<Parameters<typeof retry>[1], 'signal'> {
  const { clientConfig } = connector;
  return {
    policy: clientConfig.retry_backoff_policy,
    maxRetryTimes: clientConfig.max_retry_times,
    backoffMillis: clientConfig.retry_backoff_millis,
    totalMs: clientConfig.retry_timeout_seconds * 1000,
    random,
  };
}

/** The protocol library is a quarter of the program: it is loaded when the first server is connected. */
async function open(
  connector: Connector,
  destination: string,
  limitMs: number,
  deps: OpeningDeps,
  hooks: OpeningHooks,
): Promise<Session> {
  const [{ openSession }, { versionPlan }] = await Promise.all([import('./session.ts'), import('./connect.ts')]);
  const endpoint = await deps.connectors.mcpEndpoint(connector);
  const wanted = versionPlan(connector.clientConfig.protocol_version);
  return openSession(
    {
      outbound: deps.outbound,
      endpoint,
      side: {
        destination,
        url: endpoint.url,
        clean: (text) => deps.redactor.clean(text),
        cleanContent: (content) => deps.redactor.cleanContent(content),
      },
      connectTimeoutMs: connector.clientConfig.connection_timeout * 1000,
      limitMs,
      skipTlsVerification: connector.clientConfig.skip_ssl_verification,
      now: deps.now,
      signal: hooks.signal,
      onHeard: hooks.onHeard,
      onListChanged: hooks.onListChanged,
      onClosing: hooks.onClosing,
    },
    wanted.kind === 'auto' && hooks.knownLegacy ? { kind: 'legacy' } : wanted,
  );
}
