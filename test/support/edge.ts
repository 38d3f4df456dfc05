import { connect } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { createServer } from '../../src/http/server.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { createRedactor, type Redactor } from '../../src/telemetry/redactor.ts';
import { startIdentity } from './identity.ts';

export interface Edge {
  readonly app: FastifyInstance;
  readonly port: number;
  readonly url: string;
  readonly lines: string[];
  readonly redactor: Redactor;
  /** Sends octets as they are and resolves with everything that comes back until the server closes. */
  raw(octets: string | Buffer): Promise<string>;
  close(): Promise<void>;
}

/** The HTTP edge alone, with the routes a test gives it, on a real socket. */
export async function startEdge(
  routes: (app: FastifyInstance) => Promise<void>,
  options: { apiKey?: string } = {},
): Promise<Edge> {
  const lines: string[] = [];
  const redactor = createRedactor();
  const log = createLogger({ level: 'trace', redactor, stream: { write: (line: string) => void lines.push(line) } });
  const identity = await startIdentity({ staticKey: options.apiKey });
  const app = await createServer({
    log,
    redactor,
    authenticator: identity.authenticator,
    authorization: identity.authorization,
    routes,
  });
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  const port = Number(new URL(url).port);
  return {
    app,
    port,
    url,
    lines,
    redactor,
    raw: (octets) => exchange(port, octets),
    async close() {
      await app.close();
      await identity.close();
    },
  };
}

/** One raw exchange with a local port; resolves when the other side closes or has been silent for 5 s. */
export function exchange(port: number, octets: string | Buffer): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    let answer = '';
    socket.setEncoding('utf8');
    socket.setTimeout(5000, () => socket.destroy());
    socket.on('data', (text) => {
      answer += text;
    });
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ECONNRESET' && error.code !== 'EPIPE') reject(error);
    });
    socket.on('close', () => resolve(answer));
    socket.write(octets);
  });
}
