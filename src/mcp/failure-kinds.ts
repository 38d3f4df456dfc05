import { type CauseCode, UpstreamError } from '../errors.ts';

const unreachable = ['connection_refused', 'dns_failed', 'tls_failed', 'connect_timeout', 'process_exited'] as const;
const ended = ['spawn_failed', 'process_exited'] as const;
const doubtful = ['response_timeout', 'stream_broken', 'server_error'] as const;
const unusable = ['address_refused', 'wrong_path', 'method_not_allowed', 'version_unsupported'] as const;
const refused = ['not_mcp', 'forbidden', 'invalid_response'] as const;

/** A person has to sign in, again or with more scope. */
export const SIGN_IN: ReadonlySet<CauseCode> = new Set<CauseCode>(['auth_required', 'insufficient_scope']);
/** Nothing can be told to the server any more, not even that its session ends. */
export const UNREACHABLE: ReadonlySet<CauseCode> = new Set<CauseCode>([...unreachable, 'spawn_failed']);
/** The server cannot be used as it is: its session is of no use any more. */
export const BROKEN: ReadonlySet<CauseCode> = new Set<CauseCode>([...unreachable, ...ended, ...unusable]);
/** It may be the one request or the whole server: a round trip tells. */
export const DOUBTFUL: ReadonlySet<CauseCode> = new Set<CauseCode>([...doubtful, ...refused]);
/** What the breaker counts; any refusal shows that the server is there. */
export const COUNTED: ReadonlySet<CauseCode> = new Set<CauseCode>([...unreachable, ...ended, ...doubtful]);

const passing: ReadonlySet<CauseCode> = new Set<CauseCode>([...COUNTED, 'session_lost', 'rate_limited']);

/** A failure that passes by itself: the server, the way to it or its process may be back. Others wait for a person. */
export function passes(error: unknown): error is UpstreamError {
  return error instanceof UpstreamError && passing.has(error.code);
}
