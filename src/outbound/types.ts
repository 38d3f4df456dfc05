import type { Pattern } from './pattern.ts';

/** Where requests may go: built from the cluster settings and the mode of the server, handed in with every request. */
export interface EndpointPolicy {
  /** `undefined`: any public https address. Otherwise exactly what one of the patterns fully matches. */
  readonly trusted: readonly Pattern[] | undefined;
  /** Private or loopback addresses, http too, that one of the patterns fully matches. */
  readonly trustedPrivate: readonly Pattern[];
  readonly privateIpEnabled: boolean;
  /** Open mode: `localhost`, `127.0.0.1` and `[::1]` are allowed, over http too. */
  readonly loopbackAllowed: boolean;
  /** Address patterns (`connector.restricted_ip_patterns`) that are refused whatever else allows them. */
  readonly restrictedIps: readonly Pattern[];
}

export interface OutboundRequest {
  readonly url: string;
  readonly method: string;
  /** Field values are latin1-decoded octets: UTF-8 text goes in as `Buffer.from(text, 'utf8').toString('latin1')`. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  readonly signal?: AbortSignal;
  /** Name of the remote side as its owner knows it, for messages: `connector "weather"`. */
  readonly destination: string;
  readonly policy: EndpointPolicy;
  /** Origins this request may reach, redirects included. `undefined` means the origin of `url` alone. */
  readonly origins?: readonly string[];
  readonly connectTimeoutMs: number;
  /** From the request being sent to the status line. */
  readonly responseTimeoutMs: number;
  /** Longest silence inside the body. */
  readonly idleTimeoutMs: number;
  /** Decoded bytes; one more and the body errors. */
  readonly maxResponseBytes: number;
  /** `same-origin`: 307 and 308 inside the origin are followed with method, body and headers. Others are failures. */
  readonly redirect: 'same-origin' | 'refuse';
  readonly skipTlsVerification?: boolean;
}

export interface OutboundResponse {
  readonly status: number;
  /** Lower-case names; repeated fields joined with `, `. */
  readonly headers: Readonly<Record<string, string>>;
  /** Address that answered, after redirects. */
  readonly url: string;
  /** Body octets after content decoding, bounded by `maxResponseBytes`. Errors are `UpstreamError`s. */
  readonly body: AsyncIterable<Uint8Array>;
  text(): Promise<string>;
  /** Frees the connection without reading the rest. */
  discard(): void;
}

/** The one HTTP client. Every failure is an `UpstreamError` whose `code` says what happened and whether it was sent. */
export interface Outbound {
  request(request: OutboundRequest): Promise<OutboundResponse>;
  close(): Promise<void>;
}
