import type { FastifyInstance, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import {
  FORBIDDEN,
  INVALID_ARGUMENT,
  NO_PERMISSION,
  NOT_SIGNED_IN,
  SIGN_IN_UNAVAILABLE,
  TOO_MANY_SIGN_INS,
  UNAUTHORIZED,
} from '../../errors.ts';
import type { Principal } from '../../identity/principal.ts';
import type { Authenticator, Authorization } from '../../identity/types.ts';
import { refusalInOpenMode } from '../open-mode.ts';

export interface AuthOptions {
  readonly authenticator: Authenticator;
  readonly authorization: Authorization;
}

const SIGN_IN_RETRY_MS = 5000;

/**
 * Who is calling, and whether they may do what the route is for, both before the body is read (product.md, "Who may
 * call"). Routes marked `public` answer anybody, but in open mode loopback alone.
 */
export const authPlugin = fastifyPlugin<AuthOptions>(async (app: FastifyInstance, options) => {
  const { authenticator, authorization } = options;
  app.decorateRequest('principal', null as unknown as Principal);

  // Node keeps the first of several and says nothing; whoever reads another one would see another request (RFC 9112 3.2).
  app.addHook('onRequest', async ({ raw }) => {
    const hosts = raw.rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === 'host');
    if (hosts.length > 1) throw new INVALID_ARGUMENT('The request has more than one Host header');
  });

  app.addHook('onRequest', async (request, reply) => {
    const { config } = request.routeOptions;
    if (config.public) {
      if (authenticator.mode() === 'open') refuseElsewhere(request);
      return;
    }
    const { authorization: presented } = request.headers;
    const signIn = await authenticator.signIn({ authorization: presented, peer: request.socket.remoteAddress });
    if (!signIn.ok) {
      const { reason, retryAfterMs, unavailable } = signIn;
      if (unavailable) throw Object.assign(new SIGN_IN_UNAVAILABLE(reason), { retryAfterMs: SIGN_IN_RETRY_MS });
      if (retryAfterMs !== undefined) throw Object.assign(new TOO_MANY_SIGN_INS(reason), { retryAfterMs });
      reply.header('www-authenticate', [...authenticator.challenges(presented)]);
      throw new NOT_SIGNED_IN(reason);
    }
    request.principal = signIn.principal;
    if (signIn.principal.kind === 'open') refuseElsewhere(request);
  });

  // After every onRequest hook, so that what is refused here has counted against the limits of the caller.
  app.addHook('preParsing', async ({ principal, routeOptions }) => {
    const { permission } = routeOptions.config;
    if (principal === null || permission === undefined) return;
    const refusal = authorization.refusal(principal, permission);
    if (refusal !== undefined) throw new NO_PERMISSION(refusal);
  });

  app.addHook('onError', async ({ principal, routeOptions, params }, _reply, error) => {
    const { permission } = routeOptions.config;
    if (principal === null || principal.kind === 'open' || permission === undefined) return;
    if (!(error instanceof FORBIDDEN || error instanceof UNAUTHORIZED)) return;
    const { connector_id: connectorId } = params as { connector_id?: string };
    const about = connectorId === undefined ? {} : { connectorId };
    authorization.refused(principal, permission, { reason: error.message, ...about });
  });
});

/** @throws FORBIDDEN for a caller that open mode does not answer */
function refuseElsewhere({ method, url, headers, socket, protocol }: FastifyRequest): void {
  const refusal = refusalInOpenMode({
    method,
    target: url,
    headers,
    peer: socket.remoteAddress,
    localPort: socket.localPort,
    secure: protocol === 'https',
  });
  if (refusal !== undefined) throw new FORBIDDEN(refusal);
}
