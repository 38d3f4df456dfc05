import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { isJsonObject, type JsonObject, type JsonValue, parseJson } from '../../src/json.ts';

/** One request as it arrived. */
export interface RecordedRequest {
  /** Milliseconds of a monotonic clock. */
  readonly time: number;
  readonly method: string;
  /** Path with query, as on the request line. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** The body as JSON-RPC, when it is a JSON object. */
  readonly message: JsonObject | undefined;
  /** JSON-RPC method, `(response)` for an answer to a request of ours, `GET`, `DELETE`. */
  readonly rpc: string;
}

/**
 * What one request gets. `ID` in texts stands for the request's id as JSON, `<C3>` and the like for one raw octet.
 * `'normal'` is the well-behaved answer.
 */
export interface ScriptedReply {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Raw body text, or a value sent as JSON. */
  readonly body?: JsonValue;
  /** A JSON-RPC result or error with the request's id. */
  readonly result?: JsonValue;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: JsonValue };
  /** Members laid over a normal result. */
  readonly patch?: JsonObject;
  /** Events of an SSE answer: each text is the data of one event; numbers are pauses in milliseconds. */
  readonly sse?: readonly (string | number | (() => Promise<string | undefined>))[];
  /** Raw writes, each flushed; numbers are pauses in milliseconds. */
  readonly chunks?: readonly (string | number | Uint8Array)[];
  readonly delayMs?: number;
  /** `never`: no answer at all. `open`: the headers and what was written, then silence. */
  readonly hold?: 'never' | 'open';
  /** Reset the socket: before an answer, or after the chunks. */
  readonly reset?: boolean;
  /** Echo the id as a string, or answer under another id. */
  readonly id?: 'string' | JsonValue;
}
export type Reply =
  | 'normal'
  | ScriptedReply
  | ((request: RecordedRequest, server: FakeMcpServer) => Reply | Promise<Reply>);

export interface FakeMcpScript {
  /** JSON-RPC method, `GET`, `DELETE`, `POST /path` or `*` to one reply, or to replies in turn (the last repeats). */
  readonly on?: Readonly<Record<string, Reply | readonly Reply[]>>;
  readonly tools?: readonly JsonObject[];
  /** Default true: hands out `s-1`, `s-2`, … and answers 404 to ids it does not know. */
  readonly sessions?: boolean;
  readonly protocolVersion?: string;
  readonly capabilities?: JsonObject;
  /** Speaks the stateless era (2026-07-28): answers `server/discover`, knows no sessions. */
  readonly modern?: boolean;
  /** Path that serves MCP; any other path is a 404. Default: every path. */
  readonly path?: string;
  /** Speaks HTTPS with this pair. */
  readonly tls?: { readonly cert: string; readonly key: string };
}

export interface FakeMcpServer {
  /** `http://127.0.0.1:<port>`, without a path; `https` with `tls`. */
  readonly origin: string;
  readonly port: number;
  readonly requests: RecordedRequest[];
  /** Recorded requests of one JSON-RPC method, or `GET`, `DELETE`, `(response)`. */
  of(rpc: string): RecordedRequest[];
  /** Changes the script from now on. */
  on(key: string, reply: Reply | readonly Reply[]): void;
  tools(definitions: readonly JsonObject[]): void;
  /** Resolves with the next request of that method (or a past one). */
  seen(rpc: string, count?: number): Promise<RecordedRequest>;
  /** Forgets every session, as a restart does. */
  forget(): void;
  /** Sessions handed out and not ended. */
  openSessions(): string[];
  /** Sockets of clients, idle ones too. */
  openSockets(): number;
  /** Requests whose answer has neither ended nor been cut. */
  unanswered(): number;
  /** Stops listening and resets every socket. */
  stop(): Promise<void>;
  /** Listens again on the same port, with all sessions forgotten. */
  start(): Promise<void>;
}

const ECHO: JsonObject = {
  name: 'echo',
  description: 'Says it back.',
  inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
};
const COMPLETE: JsonObject = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };

const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

function octets(chunk: string | Uint8Array, id: JsonValue): Buffer {
  if (typeof chunk !== 'string') return Buffer.from(chunk);
  const parts = chunk.replaceAll('ID', JSON.stringify(id)).split(/<([0-9A-F]{2})>/);
  return Buffer.concat(parts.map((part, index) => Buffer.from(part, index % 2 ? 'hex' : 'utf8')));
}

/** Starts a scriptable MCP server on a free port of 127.0.0.1. Stop it with `stop()`. */
export async function startFakeMcpServer(script: FakeMcpScript = {}): Promise<FakeMcpServer> {
  const replies = new Map<string, Reply | readonly Reply[]>(Object.entries(script.on ?? {}));
  const turns = new Map<string, number>();
  const sockets = new Set<Socket>();
  const sessions = new Set<string>();
  const waiting = new Set<() => void>();
  const answering = new Set<ServerResponse>();
  let tools = script.tools ?? [ECHO];
  let issued = 0;
  let port = 0;

  function normalResult(request: RecordedRequest): ScriptedReply {
    const params = isJsonObject(request.message?.params) ? request.message.params : {};
    const closing = script.modern ? COMPLETE : {};
    switch (request.rpc) {
      case 'initialize':
        return script.modern
          ? unsupported(params)
          : {
              result: {
                protocolVersion: script.protocolVersion ?? '2025-11-25',
                capabilities: script.capabilities ?? { tools: {} },
                serverInfo: { name: 'fake', version: '1' },
              },
            };
      case 'server/discover':
        if (!script.modern) break;
        return {
          result: {
            supportedVersions: ['2026-07-28'],
            capabilities: script.capabilities ?? { tools: {} },
            _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'fake', version: '1' } },
            ...closing,
          },
        };
      case 'ping':
        if (script.modern) break;
        return { result: {} };
      case 'tools/list':
        return { result: { tools: [...tools], ...closing } };
      case 'tools/call':
        return {
          result: {
            content: [{ type: 'text', text: `${String(params.name)}: ${JSON.stringify(params.arguments ?? {})}` }],
            ...(script.modern ? { resultType: 'complete' } : {}),
          },
        };
    }
    return { ...(script.modern ? { status: 404 } : {}), error: { code: -32601, message: 'Method not found' } };
  }

  function unsupported(params: JsonObject): ScriptedReply {
    const data = { supported: ['2026-07-28'], requested: params.protocolVersion ?? '' };
    return { status: 400, error: { code: -32022, message: 'Unsupported protocol version', data } };
  }

  function normal(request: RecordedRequest): ScriptedReply {
    if (request.method === 'GET') return { status: 405 };
    const session = request.headers['mcp-session-id'];
    const keepsSessions = script.sessions !== false && !script.modern;
    if (keepsSessions && session !== undefined && request.rpc !== 'initialize' && !sessions.has(String(session))) {
      return { status: 404, error: { code: -32001, message: 'Session not found' } };
    }
    if (request.method === 'DELETE') {
      sessions.delete(String(session));
      return { status: 200 };
    }
    if (request.message === undefined) return { status: 400, error: { code: -32700, message: 'Parse error' } };
    if (request.message.id === undefined || request.rpc === '(response)') return { status: 202 };
    const reply = normalResult(request);
    if (request.rpc !== 'initialize' || !keepsSessions || reply.error) return reply;
    issued += 1;
    sessions.add(`s-${issued}`);
    return { ...reply, headers: { 'Mcp-Session-Id': `s-${issued}` } };
  }

  async function scripted(request: RecordedRequest): Promise<ScriptedReply> {
    const key = [request.rpc, `${request.method} ${request.path}`, request.method, '*'].find((k) => replies.has(k));
    const entry = key === undefined ? 'normal' : (replies.get(key) ?? 'normal');
    let reply: Reply | undefined;
    if (Array.isArray(entry)) {
      const turn = turns.get(key ?? '') ?? 0;
      turns.set(key ?? '', turn + 1);
      reply = entry[Math.min(turn, entry.length - 1)] as Reply | undefined;
    } else reply = entry as Reply;
    while (typeof reply === 'function') reply = await reply(request, server);
    if (reply === undefined || reply === 'normal') return normal(request);
    const given = reply as ScriptedReply;
    const { body, sse, chunks, hold, reset, status, result, error } = given;
    const answersItself = [body, sse, chunks, hold, reset, status, result, error].some((part) => part !== undefined);
    if (answersItself) return given;
    const usual = normal(request);
    const patched = isJsonObject(usual.result) ? { result: { ...usual.result, ...given.patch } } : {};
    return { ...usual, ...given, ...patched };
  }

  async function send(reply: ScriptedReply, request: RecordedRequest, response: ServerResponse): Promise<void> {
    if (reply.delayMs) await sleep(reply.delayMs);
    if (reply.hold === 'never') return;
    const streams = reply.sse !== undefined || reply.chunks !== undefined;
    if (reply.reset && !streams) {
      response.socket?.resetAndDestroy();
      return;
    }
    const own = request.message?.id ?? null;
    const id = reply.id === 'string' ? String(own) : reply.id === undefined ? own : reply.id;
    const rpcBody: JsonObject | undefined =
      reply.error !== undefined
        ? { jsonrpc: '2.0', id, error: reply.error as unknown as JsonObject }
        : reply.result !== undefined
          ? { jsonrpc: '2.0', id, result: reply.result }
          : undefined;
    const type = reply.sse ? 'text/event-stream' : rpcBody || isJsonObject(reply.body) ? 'application/json' : undefined;
    response.writeHead(reply.status ?? 200, { ...(type ? { 'Content-Type': type } : {}), ...reply.headers });
    if (!streams) {
      const text = rpcBody ? JSON.stringify(rpcBody) : bodyText(reply.body, own);
      if (reply.hold === 'open') response.write(text || '\n');
      else response.end(text);
      return;
    }
    response.flushHeaders();
    for (const part of reply.chunks ?? reply.sse ?? []) {
      if (typeof part === 'number') await sleep(part);
      else {
        const text = typeof part === 'function' ? await part() : part;
        if (text === undefined) continue;
        if (response.destroyed) return;
        response.write(octets(reply.sse && typeof text === 'string' ? `data: ${text}\n\n` : text, id));
        if (reply.chunks) await sleep(3);
      }
    }
    if (reply.reset) response.socket?.resetAndDestroy();
    else if (reply.hold !== 'open') response.end();
  }

  function bodyText(body: JsonValue | undefined, id: JsonValue): string {
    if (body === undefined) return '';
    if (typeof body === 'string') return body;
    return JSON.stringify(body).replaceAll('"<same>"', JSON.stringify(id));
  }

  async function take(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString('utf8');
    const parsed = parseJson(body);
    const message = isJsonObject(parsed) ? parsed : undefined;
    const method = incoming.method ?? '';
    const rpc = typeof message?.method === 'string' ? message.method : message ? '(response)' : method;
    const path = incoming.url ?? '';
    const request: RecordedRequest = {
      time: performance.now(),
      method,
      path,
      headers: incoming.headers,
      body,
      message,
      rpc,
    };
    requests.push(request);
    for (const wake of [...waiting]) wake();
    if (script.path !== undefined && path !== script.path) {
      response.writeHead(404).end('not found');
      return;
    }
    await send(await scripted(request), request, response);
  }

  const listener = (incoming: IncomingMessage, response: ServerResponse): void => {
    response.on('error', () => undefined);
    answering.add(response);
    response.on('close', () => answering.delete(response));
    take(incoming, response).catch(() => response.destroy());
  };
  const http = script.tls ? createTlsServer(script.tls, listener) : createServer(listener);
  http.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
  });

  const requests: RecordedRequest[] = [];
  const of = (rpc: string): RecordedRequest[] => requests.filter((request) => request.rpc === rpc);
  const listen = (at: number): Promise<void> =>
    new Promise((done, fail) => {
      http.once('error', fail);
      http.listen(at, '127.0.0.1', () => {
        http.off('error', fail);
        port = (http.address() as AddressInfo).port;
        done();
      });
    });

  const server: FakeMcpServer = {
    get origin() {
      return `${script.tls ? 'https' : 'http'}://127.0.0.1:${port}`;
    },
    get port() {
      return port;
    },
    requests,
    of,
    on: (key, reply) => {
      replies.set(key, reply);
      turns.delete(key);
    },
    tools: (definitions) => {
      tools = definitions;
    },
    seen: (rpc, count = 1) =>
      new Promise((done) => {
        const look = (): void => {
          const request = of(rpc)[count - 1];
          if (request === undefined) return;
          waiting.delete(look);
          done(request);
        };
        waiting.add(look);
        look();
      }),
    forget: () => sessions.clear(),
    openSessions: () => [...sessions],
    openSockets: () => sockets.size,
    unanswered: () => answering.size,
    stop: () =>
      new Promise((done) => {
        http.close(() => done());
        for (const socket of sockets) socket.resetAndDestroy();
      }),
    start: () => {
      sessions.clear();
      return listen(port);
    },
  };
  await listen(0);
  return server;
}
