import type { FastifyReply } from 'fastify';

/** Aborted when the connection closes before the answer was sent: the caller went away, or the server had to end. */
export function callerGone(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) gone.abort(new Error('the client closed the connection'));
  });
  return gone.signal;
}
