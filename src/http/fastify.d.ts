import type { Principal } from '../identity/principal.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by `plugins/auth.ts` before any handler runs. */
    principal: Principal;
    /** The caller's header fields that a connector may be given; set by `plugins/caller-headers.ts`. */
    callerHeaders?: Readonly<Record<string, string>>;
    /** The request was read and checked; what fails from now on fails while it runs. */
    running: boolean;
  }
  interface FastifyInstance {
    /** Ends the requests that still run while the server closes. */
    cutRequests(): void;
  }
  interface FastifyContextConfig {
    /** What the route does, as `<noun>:<verb>`; the role table is keyed by it. */
    permission?: string;
    /** What an empty body gets: `allowed`, or the error to throw. Default: 400 `request body is required`. */
    emptyBody?: 'allowed' | (() => Error);
    /** Failures while the request runs use the execute envelope (E3); failures while it is read use E1. */
    executeEnvelope?: boolean;
    /** Failures of the handler use the envelope of the security API. */
    securityEnvelope?: boolean;
    /** Failures use the profile envelope (E4). */
    profileEnvelope?: boolean;
    /** The route reads a body on GET (searches). */
    bodyOnGet?: boolean;
    /** Query parameters beyond the server-wide ones; any other is a 400. */
    queryParameters?: readonly string[];
    /** Header fields of the caller may go on to MCP servers. */
    passesHeaders?: boolean;
    /** Answers without a key, for probes. */
    public?: boolean;
  }
}
