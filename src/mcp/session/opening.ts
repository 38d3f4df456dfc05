import type { Connector, Connectors } from '../../connectors/types.ts';
import { type CauseCode, UpstreamError } from '../../errors.ts';
import { retry } from '../../outbound/resilience.ts';
import type { Outbound } from '../../outbound/types.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Redactor } from '../../telemetry/redactor.ts';
import { amended, localPlace, type Side, seconds } from '../failures.ts';
import type { LocalProcesses } from '../process/local-process.ts';
import { limitNameOf, remediesOf } from '../remedies.ts';
import type { ChannelListener, OpenChannel } from './channel.ts';
import type { ListAnswer, ListLimits, Session } from './session.ts';

export interface OpeningDeps {
  readonly connectors: Pick<Connectors, 'mcpEndpoint' | 'localServer'>;
  readonly outbound: Outbound;
  /** Where the processes of local servers are started. */
  readonly processes: LocalProcesses;
  readonly redactor: Pick<Redactor, 'clean' | 'cleanContent'>;
  readonly log: Logger;
  readonly now: () => number;
  readonly random: () => number;
}

export interface Opened {
  readonly session: Session;
  readonly answer: ListAnswer;
}

/** What an opening, and the session that comes of it, tell their owner. */
export interface OpeningHooks extends ChannelListener {
  readonly signal: AbortSignal;
  /** A process of a local server is about to start: `lines` reads the last of its standard error, also when it is gone. */
  readonly onStderr: (lines: () => readonly string[]) => void;
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
      const lost = error instanceof UpstreamError && LOST.has(error.code);
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
            `MCP retry of ${destination} ${delayMs < 1 ? 'at once' : `in ${seconds(delayMs)}`}: ${error.message}`,
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

/** Nothing more can be asked in that session: a new one is opened, or the process started anew. */
const LOST: ReadonlySet<CauseCode> = new Set<CauseCode>(['session_lost', 'process_exited']);

/** How long a local server may take to say whether it knows `server/discover`; many know nothing and keep silent. */
const PROBE_MS = 5000;

/** The protocol library is a quarter of the program: it is loaded when the first server is connected. */
async function open(
  connector: Connector,
  destination: string,
  limitMs: number,
  deps: OpeningDeps,
  hooks: OpeningHooks,
): Promise<Session> {
  const [{ openSession }, { versionPlan }] = await Promise.all([import('./session.ts'), import('./connect.ts')]);
  const local = connector.protocol === 'mcp_stdio';
  const { side, openChannel } = await (local ? localPeer : remotePeer)(connector, destination, deps, hooks);
  const wanted = versionPlan(connector.clientConfig.protocol_version);
  return openSession(
    {
      side,
      limitMs,
      limit:
        limitMs < connector.clientConfig.connection_timeout * 1000 ? 'retry_timeout_seconds' : 'connection_timeout',
      signal: hooks.signal,
      onListChanged: hooks.onListChanged,
      onMissed: hooks.onMissed,
      onClosing: hooks.onClosing,
      openChannel,
      questions: {
        policy: connector.clientConfig.elicitation,
        onDeclined: (reason) =>
          deps.log.info({ connectorId: connector.id }, `MCP question of ${destination} declined: ${reason}`),
      },
      ...(local && { probeMs: Math.min(PROBE_MS, limitMs) }),
    },
    wanted.kind === 'auto' && hooks.knownLegacy ? { kind: 'legacy' } : wanted,
  );
}

/** A server, and how one attempt to reach it begins. */
interface Peer {
  readonly side: Side;
  readonly openChannel: OpenChannel;
}

async function remotePeer(
  connector: Connector,
  destination: string,
  deps: OpeningDeps,
  hooks: OpeningHooks,
): Promise<Peer> {
  const { createHttpChannel } = await import('../http/http-channel.ts');
  const endpoint = await deps.connectors.mcpEndpoint(connector);
  const side = sideOf(destination, endpoint.url, connector, deps);
  const { connection_timeout, skip_ssl_verification } = connector.clientConfig;
  const openChannel: OpenChannel = () =>
    createHttpChannel({
      outbound: deps.outbound,
      endpoint,
      side,
      connectTimeoutMs: connection_timeout * 1000,
      skipTlsVerification: skip_ssl_verification,
      now: deps.now,
      onHeard: hooks.onHeard,
      onListChanged: hooks.onListChanged,
      onMissed: hooks.onMissed,
      onClosing: hooks.onClosing,
    });
  return { side, openChannel };
}

async function localPeer(
  connector: Connector,
  destination: string,
  deps: OpeningDeps,
  hooks: OpeningHooks,
): Promise<Peer> {
  const { createProcessChannel } = await import('../process/process-channel.ts');
  const server = await deps.connectors.localServer(connector);
  const side = sideOf(destination, localPlace(server.command), connector, deps);
  const openChannel: OpenChannel = () => {
    const channel = createProcessChannel({
      processes: deps.processes,
      connectorId: connector.id,
      server,
      side,
      log: deps.log,
      now: deps.now,
      onHeard: hooks.onHeard,
      onListChanged: hooks.onListChanged,
      onMissed: hooks.onMissed,
      onClosing: hooks.onClosing,
      onGone: hooks.onGone,
    });
    hooks.onStderr(channel.stderr);
    return channel;
  };
  return { side, openChannel };
}

function sideOf(destination: string, url: string, connector: Connector, { redactor }: OpeningDeps): Side {
  return {
    destination,
    url,
    clean: (text) => redactor.clean(text),
    cleanContent: (content) => redactor.cleanContent(content),
    remedies: remediesOf(connector),
    limitName: (limit) => limitNameOf(connector, limit),
  };
}
