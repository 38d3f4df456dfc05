import type { CauseCode } from '../errors.ts';

const unreachable = ['connection_refused', 'dns_failed', 'tls_failed', 'connect_timeout'] as const;
const doubtful = ['response_timeout', 'stream_broken', 'server_error'] as const;
const unusable = ['address_refused', 'wrong_path', 'method_not_allowed', 'version_unsupported'] as const;
const refused = ['not_mcp', 'forbidden', 'insufficient_scope', 'invalid_response'] as const;

/** Nothing can be told to the server any more, not even that its session ends. */
export const UNREACHABLE: ReadonlySet<CauseCode> = new Set<CauseCode>([...unreachable, 'address_refused']);
/** The server cannot be used as it is: its session is of no use any more. */
export const BROKEN: ReadonlySet<CauseCode> = new Set<CauseCode>([...unreachable, ...unusable]);
/** It may be the one request or the whole server: a round trip tells. */
export const DOUBTFUL: ReadonlySet<CauseCode> = new Set<CauseCode>([...doubtful, ...refused]);
/** What the breaker counts; any refusal shows that the server is there. */
export const COUNTED: ReadonlySet<CauseCode> = new Set<CauseCode>([...unreachable, ...doubtful]);
