import { readFileSync } from 'node:fs';
import {
  createServer as createHttp,
  type Server as HttpServer,
  type IncomingMessage,
  type RequestListener,
} from 'node:http';
import { createServer as createHttps } from 'node:https';
import { type AddressInfo, createServer as createTcp, type Server, type Socket } from 'node:net';
import { compilePatterns } from '../../src/outbound/address-guard.ts';
import type { EndpointPolicy, OutboundRequest } from '../../src/outbound/types.ts';

export interface TestServer {
  readonly port: number;
  readonly origin: string;
  /** Sockets accepted so far, and those still open. */
  readonly sockets: Set<Socket>;
  accepted(): number;
  readonly requests: { method: string; url: string; rawHeaders: string[]; body: string }[];
  close(): Promise<void>;
}

async function listen(
  server: Server | HttpServer,
  scheme: string,
  requests: TestServer['requests'],
): Promise<TestServer> {
  const sockets = new Set<Socket>();
  let accepted = 0;
  server.on('connection', (socket: Socket) => {
    accepted += 1;
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => {});
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    origin: `${scheme}://127.0.0.1:${port}`,
    sockets,
    accepted: () => accepted,
    requests,
    close: () =>
      new Promise((done) => {
        server.close(() => done());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

function recording(requests: TestServer['requests'], handler: RequestListener): RequestListener {
  return (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', rawHeaders } = request;
      requests.push({ method, url, rawHeaders, body: Buffer.concat(chunks).toString() });
      handler(request, response);
    });
  };
}

export function httpServer(handler: RequestListener): Promise<TestServer> {
  const requests: TestServer['requests'] = [];
  return listen(createHttp(recording(requests, handler)), 'http', requests);
}

export function httpsServer(handler: RequestListener): Promise<TestServer> {
  const requests: TestServer['requests'] = [];
  const file = (name: string) => readFileSync(new URL(`./fixtures/${name}`, import.meta.url));
  const keys = { key: file('self-signed.key.pem'), cert: file('self-signed.cert.pem') };
  return listen(createHttps(keys, recording(requests, handler)), 'https', requests);
}

/** Hands each accepted socket over as it is. */
export function rawServer(handler: (socket: Socket) => void): Promise<TestServer> {
  return listen(createTcp(handler), 'http', []);
}

export function headerLines(message: { rawHeaders: string[] } | IncomingMessage, name: string): string[] {
  const { rawHeaders } = message;
  return rawHeaders.filter((_, index) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === name);
}

export const openPolicy: EndpointPolicy = {
  trusted: undefined,
  trustedPrivate: [],
  privateIpEnabled: false,
  loopbackAllowed: true,
  restrictedIps: [],
};

export function listedPolicy(...patterns: string[]): EndpointPolicy {
  return { ...openPolicy, loopbackAllowed: false, trustedPrivate: compilePatterns(patterns) };
}

export function ask(url: string, more: Partial<OutboundRequest> = {}): OutboundRequest {
  return {
    url,
    method: 'GET',
    headers: {},
    destination: 'connector "test"',
    policy: openPolicy,
    connectTimeoutMs: 2000,
    responseTimeoutMs: 2000,
    idleTimeoutMs: 2000,
    maxResponseBytes: 1_000_000,
    redirect: 'same-origin',
    ...more,
  };
}

export async function until(condition: () => boolean): Promise<void> {
  for (let round = 0; round < 400 && !condition(); round++) await new Promise((done) => setTimeout(done, 10));
  if (!condition()) throw new Error('it did not come about in 4 s');
}
