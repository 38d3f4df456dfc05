import type { McpEndpoint } from '../../connectors/types.ts';
import type { Outbound, OutboundResponse } from '../../outbound/types.ts';
import type { Side } from '../failures.ts';

export interface SenderDeps {
  readonly outbound: Outbound;
  readonly endpoint: McpEndpoint;
  readonly side: Side;
  readonly connectTimeoutMs: number;
  readonly skipTlsVerification: boolean;
}

/** What one HTTP request is made of beside its method. Times in milliseconds. */
export interface Sending {
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  readonly body?: string;
  readonly responseTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly maxResponseBytes: number;
}

export type Send = (method: 'GET' | 'POST' | 'DELETE', sending: Sending) => Promise<OutboundResponse>;

/** Sends to the one address of a server, through the guarded client. */
export function createSender(deps: SenderDeps): Send {
  return (method, sending) =>
    deps.outbound.request({
      url: deps.endpoint.url,
      method,
      destination: deps.side.destination,
      policy: deps.endpoint.policy,
      origins: deps.endpoint.origins,
      connectTimeoutMs: deps.connectTimeoutMs,
      redirect: 'same-origin',
      ...(deps.skipTlsVerification && { skipTlsVerification: true }),
      ...sending,
    });
}
