import {
  Client,
  type DiscoverResult,
  type ElicitResult,
  type PriorDiscovery,
  ProtocolError,
  type VersionNegotiationOptions,
} from '@modelcontextprotocol/client';
import packageJson from '../../../package.json' with { type: 'json' };
import { type CauseCode, UpstreamError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { failure, NoReply, passedOn, rpcFailure, type Side, seconds, timeoutFailure, withRemedy } from '../failures.ts';
import type { Limit } from '../remedies.ts';
import type { Channel, ChannelListener, OpenChannel } from './channel.ts';
import type { QuestionRules } from './elicitation.ts';
import { isStateless, KNOWN_VERSIONS } from './exchange.ts';
import { createLiveQuestions, type LiveQuestions } from './live-questions.ts';

/** How the protocol version is settled with one server. */
export type VersionPlan =
  | { readonly kind: 'auto' }
  /** The handshake of the session era, without asking. */
  | { readonly kind: 'legacy' }
  /** This revision, without asking. */
  | { readonly kind: 'revision'; readonly version: string };

/** The protocol library, connected. */
export interface Connected {
  readonly client: Client;
  /** Questions asked while calls are under way. */
  readonly questions: LiveQuestions;
  readonly channel: Channel;
  readonly protocolVersion: string;
}

export interface ConnectDeps extends Pick<ChannelListener, 'onClosing' | 'onListChanged' | 'onMissed'> {
  readonly side: Side;
  /** How the questions of the server are answered. */
  readonly questions: Pick<QuestionRules, 'policy' | 'onDeclined'>;
  readonly openChannel: OpenChannel;
  readonly signal: AbortSignal;
  /** For each request of the handshake, in milliseconds. */
  readonly limitMs: number;
  /** What sets it. */
  readonly limit?: Limit;
  /** For `server/discover`, where silence means that the server does not know it. */
  readonly probeMs?: number;
}

const CLIENT_INFO = { name: packageJson.name, version: packageJson.version };
/** Output schemas are not given to the SDK, so that it has nothing to compile. */
const NO_VALIDATION = {
  getValidator: () => (input: unknown) => ({ valid: true as const, data: input as never, errorMessage: undefined }),
};

/** Reads `client_config.protocol_version`. */
export function versionPlan(setting: string): VersionPlan {
  if (setting === 'auto' || setting === 'legacy') return { kind: setting };
  return { kind: 'revision', version: setting };
}

/**
 * Connects to one server by its plan. `auto` asks with `server/discover` and falls back to `initialize`; a probe that
 * fails with 5xx or a broken connection is tried once as session era; a server that names other versions is tried once
 * with the newest both sides know.
 * @throws UpstreamError
 */
export async function connect(deps: ConnectDeps, plan: VersionPlan): Promise<Connected> {
  if (plan.kind === 'revision' && !KNOWN_VERSIONS.includes(plan.version)) {
    throw failure(
      deps.side,
      'version_unsupported',
      `is to be spoken to in ${plan.version}; this client speaks ${KNOWN_VERSIONS.join(', ')}`,
      {
        delivered: 'no',
      },
    );
  }
  const first = await attempt(deps, plan);
  if (!(first instanceof FailedAttempt)) return first;
  const next = plan.kind === 'revision' ? undefined : secondPlan(plan, first);
  if (next === undefined || deps.signal.aborted) throw explained(deps.side, first, []);
  const second = await attempt(deps, next);
  if (second instanceof FailedAttempt) throw explained(deps.side, second, first.supported);
  return second;
}

/** What is left of a connection that did not come about. */
class FailedAttempt {
  readonly error: UpstreamError;
  readonly supported: readonly string[];
  readonly probed: boolean;
  constructor(error: UpstreamError, supported: readonly string[], probed: boolean) {
    this.error = error;
    this.supported = supported;
    this.probed = probed;
  }
}

function secondPlan(plan: VersionPlan, failed: FailedAttempt): VersionPlan | undefined {
  const common = KNOWN_VERSIONS.find((version) => failed.supported.includes(version));
  if (common !== undefined && !(plan.kind === 'legacy' && isStateless(common)))
    return { kind: 'revision', version: common };
  const { code, retryAfterMs, cause } = failed.error;
  const broke = PROBE_BROKE.has(code) || cause instanceof NoReply;
  const probeBroke = failed.probed && broke && retryAfterMs === undefined;
  return plan.kind === 'auto' && probeBroke ? { kind: 'legacy' } : undefined;
}

/** Servers there are that answer an unknown method so, or end. */
const PROBE_BROKE: ReadonlySet<CauseCode> = new Set<CauseCode>(['server_error', 'stream_broken', 'process_exited']);

function explained(side: Side, failed: FailedAttempt, before: readonly string[]): UpstreamError {
  const named = failed.supported.length > 0 ? failed.supported : before;
  if (named.length === 0) return failed.error;
  const theirs = named.map((version) => passedOn(side, version)).join(', ');
  return failure(
    side,
    'version_unsupported',
    `speaks protocol version ${theirs}; this client speaks ${KNOWN_VERSIONS.join(', ')}, and the two could not agree`,
    {
      delivered: 'no',
      cause: failed.error,
    },
  );
}

async function attempt(deps: ConnectDeps, plan: VersionPlan): Promise<Connected | FailedAttempt> {
  const channel = deps.openChannel();
  const { supported, negotiation, prior } = optionsOf(plan, deps.probeMs);
  const client = new Client(CLIENT_INFO, {
    capabilities: { elicitation: { form: {}, url: {} } },
    inputRequired: { autoFulfill: false },
    jsonSchemaValidator: NO_VALIDATION,
    ...(supported && { supportedProtocolVersions: supported }),
    ...(negotiation && { versionNegotiation: negotiation }),
  });
  const questions = createLiveQuestions({
    ...deps.questions,
    side: deps.side,
    exchangeOf: (id) => channel.exchangeOf?.(id),
  });
  client.setRequestHandler('elicitation/create', async ({ params }, { mcpReq }) => {
    const answer = await questions.answer({ id: mcpReq.id, params: params as unknown as JsonObject }, mcpReq.signal);
    return { ...answer } as ElicitResult;
  });
  const abandon = (): void => deps.onClosing(channel.close());
  deps.signal.addEventListener('abort', abandon, { once: true });
  try {
    deps.signal.throwIfAborted();
    await client.connect(channel.transport, {
      timeout: deps.limitMs,
      signal: deps.signal,
      ...(prior && { prior }),
    });
    return { client, channel, questions, protocolVersion: client.getNegotiatedProtocolVersion() ?? 'unknown' };
  } catch (error) {
    deps.onClosing(Promise.all([channel.terminate(), channel.close()]));
    await client.close().catch(() => undefined);
    if (deps.signal.aborted) throw error;
    const probed = channel.facts.requested.has('server/discover') && !channel.facts.requested.has('initialize');
    const step = probed ? 'server/discover' : 'initialize';
    return new FailedAttempt(
      asFailure(deps.side, step, error, deps.limitMs, probed && deps.probeMs !== undefined ? undefined : deps.limit),
      channel.facts.supportedVersions ?? [],
      probed,
    );
  } finally {
    deps.signal.removeEventListener('abort', abandon);
  }
}

function optionsOf(
  plan: VersionPlan,
  probeMs: number | undefined,
): {
  supported?: string[];
  negotiation?: VersionNegotiationOptions;
  prior?: PriorDiscovery;
} {
  if (plan.kind === 'auto') {
    return { negotiation: { mode: 'auto', ...(probeMs !== undefined && { probe: { timeoutMs: probeMs } }) } };
  }
  if (plan.kind === 'legacy') return { prior: { kind: 'legacy' } };
  if (!isStateless(plan.version)) return { supported: [plan.version], prior: { kind: 'legacy' } };
  const discover: DiscoverResult = {
    supportedVersions: [plan.version],
    capabilities: { tools: {}, resources: {}, prompts: {} },
    ttlMs: 0,
    cacheScope: 'private',
  };
  return { prior: { kind: 'modern', discover } };
}

/** The failure behind an error of the SDK. `method`, `limitMs` and what sets it are for the sentence about silence. */
export function asFailure(
  side: Side,
  method: string,
  error: unknown,
  limitMs: number,
  limit?: Limit | undefined,
): UpstreamError {
  for (let cause: unknown = error, depth = 0; cause instanceof Error && depth < 6; cause = cause.cause, depth += 1) {
    if (cause instanceof UpstreamError) return withRemedy(side, cause, limit);
  }
  if (error instanceof ProtocolError) return rpcFailure(side, method, { code: error.code, message: error.message });
  const code = (error as { code?: unknown }).code;
  if (code === 'REQUEST_TIMEOUT') {
    return timeoutFailure(side, `did not answer ${method} within ${seconds(limitMs)}`, limit, { retryable: true });
  }
  const text = error instanceof Error ? passedOn(side, error.message) : 'an unknown failure';
  return failure(side, 'invalid_response', `could not be understood in answer to ${method}: ${text}`, { cause: error });
}
