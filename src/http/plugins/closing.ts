import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';

/**
 * A server that closes waits for the requests that run, not for clients that hold a connection open: connections
 * without a request end at once, the others with their answer.
 */
export const closingPlugin = fastifyPlugin(async (app: FastifyInstance) => {
  const running = new Map<Socket, number>();
  let closing = false;

  app.server.on('connection', (socket: Socket) => {
    if (closing) return void socket.destroy();
    running.set(socket, 0);
    socket.once('close', () => running.delete(socket));
  });
  app.server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    running.set(socket, (running.get(socket) ?? 0) + 1);
    response.once('close', () => {
      const left = (running.get(socket) ?? 1) - 1;
      if (!socket.destroyed) running.set(socket, left);
      if (closing && left === 0) socket.destroySoon();
    });
  });

  app.addHook('preClose', async () => {
    closing = true;
    for (const [socket, requests] of running) if (requests === 0) socket.destroy();
  });
  app.addHook('onSend', async (_request, reply) => {
    if (closing) reply.header('connection', 'close');
  });
});
