import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Server as SecureServer } from 'node:tls';
import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { rawAnswer } from '../raw-answer.ts';

const FLUSH_MS = 250;
const UNAVAILABLE = rawAnswer(
  503,
  'Service Unavailable',
  {
    type: 'status_exception',
    reason: 'The server is shutting down, and the request did not end in time. What it had begun may have taken effect',
  },
  ['Retry-After: 1'],
);

/**
 * A server that closes waits for the requests that run, not for clients that hold a connection open: connections
 * without a request end at once, the others with their answer. `app.cutRequests()` ends the waiting: whoever has no
 * answer yet gets a 503, and the connection closes under the request, as if its caller had gone.
 */
export const closingPlugin = fastifyPlugin(async (app: FastifyInstance) => {
  const running = new Map<Socket, Set<ServerResponse>>();
  const shakingHands = new Map<string, Socket>();
  const secure = app.server instanceof SecureServer;
  let closing = false;

  if (secure) {
    app.server.on('connection', (socket: Socket) => {
      if (closing) return void socket.destroy();
      const peer = peerOf(socket);
      shakingHands.set(peer, socket);
      socket.once('close', () => shakingHands.delete(peer));
    });
  }
  app.server.on(secure ? 'secureConnection' : 'connection', (socket: Socket) => {
    shakingHands.delete(peerOf(socket));
    if (closing) return void socket.destroy();
    running.set(socket, new Set());
    socket.once('close', () => running.delete(socket));
  });
  app.server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    const responses = running.get(socket) ?? new Set();
    responses.add(response);
    response.once('close', () => {
      responses.delete(response);
      if (closing && responses.size === 0) socket.destroySoon();
    });
  });

  app.decorate('cutRequests', () => {
    for (const [socket, [first]] of running) {
      if (first === undefined || first.headersSent || !socket.writable) {
        socket.destroy();
        continue;
      }
      socket.write(UNAVAILABLE);
      socket.destroySoon();
      setTimeout(() => socket.destroy(), FLUSH_MS).unref();
    }
  });

  app.addHook('preClose', async () => {
    closing = true;
    for (const socket of shakingHands.values()) socket.destroy();
    for (const [socket, responses] of running) if (responses.size === 0) socket.destroy();
  });
  app.addHook('onSend', async (_request, reply) => {
    if (closing) reply.header('connection', 'close');
  });
});

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
