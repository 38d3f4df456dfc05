import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { FORBIDDEN, INVALID_ARGUMENT, UNAUTHORIZED } from '../../errors.ts';
import type { Principal } from '../../identity/principal.ts';
import { refusalInOpenMode } from '../open-mode.ts';

export interface AuthOptions {
  /** The one static key; `undefined` is open mode. */
  readonly apiKey: string | undefined;
  readonly principals: { readonly open: Principal; readonly apiKey: Principal };
}

/** Who is calling (product.md, "Who may call"): the holder of the static key, or anybody on loopback in open mode. */
export const authPlugin = fastifyPlugin<AuthOptions>(async (app: FastifyInstance, { apiKey, principals }) => {
  app.decorateRequest('principal', null as unknown as Principal);

  // Node keeps the first of several and says nothing; whoever reads another one would see another request (RFC 9112 3.2).
  app.addHook('onRequest', async ({ raw }) => {
    const hosts = raw.rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === 'host');
    if (hosts.length > 1) throw new INVALID_ARGUMENT('The request has more than one Host header');
  });

  if (apiKey === undefined) {
    app.addHook('onRequest', async (request) => {
      request.principal = principals.open;
      const refusal = refusalInOpenMode({
        method: request.method,
        target: request.url,
        headers: request.headers,
        peer: request.socket.remoteAddress,
        localPort: request.socket.localPort,
      });
      if (refusal !== undefined) throw new FORBIDDEN(refusal);
    });
    return;
  }

  const expected = digest(apiKey);
  app.addHook('onRequest', async (request, reply) => {
    request.principal = principals.apiKey;
    if (request.routeOptions.config.public) return;
    const given = presentedKey(request);
    if (given !== undefined && timingSafeEqual(digest(given), expected)) return;
    reply.header('www-authenticate', 'Bearer realm="tenon"');
    throw new UNAUTHORIZED(
      given === undefined
        ? 'Authentication is required: send the API key as "Authorization: Bearer <key>"'
        : 'The API key is not valid',
    );
  });
});

function presentedKey(request: FastifyRequest): string | undefined {
  return /^(?:Bearer|ApiKey) +(\S+) *$/i.exec(request.headers.authorization ?? '')?.[1];
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
