import type { FastifyReply, FastifyRequest } from 'fastify';

const TOP = { type: 'exception', reason: 'Internal error. The log of the server has the details' };
const BODY = JSON.stringify({ error: { root_cause: [TOP], ...TOP }, status: 500 });

/**
 * The outermost error handler: it answers when the envelope of an error could not be made or sent, so that the HTTP
 * server's own answer, which repeats the message of any error, is never used. No hook runs for it any more.
 */
export function answerAtLast(error: Error, request: FastifyRequest, reply: FastifyReply): void {
  reply.hijack();
  request.log.error({ err: error, req: request }, `${request.method} request could not be answered`);
  const { raw } = reply;
  if (raw.headersSent || raw.destroyed) return void raw.destroy();
  raw.writeHead(500, {
    'content-type': 'application/json; charset=UTF-8',
    'content-length': Buffer.byteLength(BODY),
    connection: 'close',
  });
  raw.end(BODY);
}
