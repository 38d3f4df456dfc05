import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { Server as SessionEraServer } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { createMcpHandler, Server as StatelessServer } from '@modelcontextprotocol/server';

/** A real MCP server on a free port of 127.0.0.1. */
export interface McpPeer {
  /** Full address of the endpoint: `http://127.0.0.1:<port>/mcp`. */
  readonly url: string;
  /** Stops it; no process of it is left. */
  stop(): Promise<void>;
  /** The same without a chance to say goodbye. */
  kill(): Promise<void>;
}

const require = createRequire(import.meta.url);
const START_MS = 30_000;
const STOP_MS = 3000;

const NUMBER = { type: 'number' };
const ADD = {
  name: 'add',
  description: 'Adds.',
  inputSchema: { type: 'object' as const, properties: { a: NUMBER, b: NUMBER }, required: ['a', 'b'] },
  outputSchema: { type: 'object' as const, properties: { sum: NUMBER }, required: ['sum'] },
};

function add({ a, b }: Record<string, unknown> = {}): {
  content: { type: 'text'; text: string }[];
  structuredContent?: { sum: number };
  isError?: boolean;
} {
  if (typeof a !== 'number' || typeof b !== 'number') {
    return { content: [{ type: 'text', text: 'a and b must be numbers' }], isError: true };
  }
  return { content: [{ type: 'text', text: String(a + b) }], structuredContent: { sum: a + b } };
}

/** Keeps every server of the process on the loopback interface and tells the port it got. */
const LOOPBACK_ONLY = `data:text/javascript,${encodeURIComponent(`
  import net from 'node:net';
  const listen = net.Server.prototype.listen;
  net.Server.prototype.listen = function (where, ...rest) {
    const given = typeof where === 'object' && where !== null ? where : { port: Number(where) };
    if (given.path !== undefined || Number.isNaN(given.port)) return listen.call(this, where, ...rest);
    this.once('listening', () => process.stderr.write('LISTENING ' + this.address()?.port + '\\n'));
    return listen.call(this, { ...given, host: '127.0.0.1' }, rest.find((item) => typeof item === 'function'));
  };
`)}`;

/** The everything server of the protocol's own repository: session era, 13 tools, 400 for a session it does not know. */
export function startEverythingServer(port = 0): Promise<McpPeer> {
  return startProcess([packageFile('@modelcontextprotocol/server-everything', 'dist/index.js'), 'streamableHttp'], {
    PORT: String(port),
  });
}

/** The memory server (stdio) behind supergateway: session era, `server/discover` is a 404. */
export async function startMemoryServer(port = 0): Promise<McpPeer> {
  return withMemoryFile((file) => {
    const command = `"${process.execPath}" "${packageFile('@modelcontextprotocol/server-memory', 'dist/index.js')}"`;
    const options = ['--stdio', command, '--outputTransport', 'streamableHttp', '--port', String(port), '--stateful'];
    return startProcess([packageFile('supergateway', 'dist/index.js'), ...options], { MEMORY_FILE_PATH: file });
  });
}

/** The memory server behind mcp-proxy, which speaks the stateless era (2026-07-28). */
export async function startStatelessMemoryServer(port = 0): Promise<McpPeer> {
  return withMemoryFile((file) => {
    const server = packageFile('@modelcontextprotocol/server-memory', 'dist/index.js');
    const listening = ['--host', '127.0.0.1', '--port', String(port), '--server', 'stream'];
    const options = [...listening, '--', process.execPath, server];
    return startProcess([join(dirname(require.resolve('mcp-proxy')), 'bin/mcp-proxy.mjs'), ...options], {
      MEMORY_FILE_PATH: file,
    });
  });
}

/** The git server: session era; it answers `server/discover` with 500. */
export async function startGitServer(port = 0): Promise<McpPeer> {
  const home = await mkdtemp(join(tmpdir(), 'tenon-git-server-'));
  const peer = await startProcess([packageFile('@cyanheads/git-mcp-server', 'dist/index.js')], {
    MCP_TRANSPORT_TYPE: 'http',
    MCP_HTTP_HOST: '127.0.0.1',
    MCP_HTTP_PORT: String(port || (await freePort())),
    MCP_SESSION_MODE: 'stateful',
    MCP_AUTH_MODE: 'none',
    MCP_LOG_LEVEL: 'error',
    LOGS_DIR: home,
    HOME: home,
  });
  await answering(peer.url);
  return cleaning(peer, () => rm(home, { recursive: true, force: true }));
}

/** The debug server of the MCP Apps repository: session era without sessions, a refusal that lists the versions. */
export function startDebugServer(port = 0): Promise<McpPeer> {
  return startProcess([packageFile('@modelcontextprotocol/server-debug', 'dist/index.js')], { PORT: String(port) });
}

/** The documentation server of Context7: stateless era (2026-07-28). Its library is a page of ours. */
export async function startDocumentationServer(port = 0): Promise<McpPeer> {
  const library = await startLibrary();
  const options = ['--transport', 'http', '--port', String(port || (await freePort()))];
  const peer = await startProcess([packageFile('@upstash/context7-mcp', 'dist/index.js'), ...options], {
    CONTEXT7_API_URL: library.origin,
    OTEL_SDK_DISABLED: 'true',
  });
  return cleaning(peer, library.stop);
}

/** What the documentation server asks. */
export async function startLibrary(): Promise<{ readonly origin: string; stop(): Promise<void> }> {
  const { url, stop } = await serve(async (_request, response) => {
    const results = [{ id: '/acme/widgets', title: 'Widgets', description: 'All of them.', totalSnippets: 1 }];
    response.setHeader('Content-Type', 'application/json').end(JSON.stringify({ results }));
  });
  return { origin: new URL(url).origin, stop };
}

/** A server of the first SDK generation: knows nothing of 2026-07-28. One tool, `add`. */
export async function startSessionEraServer(port = 0): Promise<McpPeer> {
  const transports = new Map<string, StreamableHTTPServerTransport>();
  return serve(async (request, response) => {
    const known = transports.get(String(request.headers['mcp-session-id']));
    if (known !== undefined) return known.handleRequest(request, response);
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (id) => void transports.set(id, transport),
    });
    const server = new SessionEraServer({ name: 'session-era', version: '1' }, { capabilities: { tools: {} } });
    server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [ADD] }));
    server.setRequestHandler(CallToolRequestSchema, ({ params }) => add(params.arguments));
    await server.connect(transport as unknown as Parameters<typeof server.connect>[0]);
    return transport.handleRequest(request, response);
  }, port);
}

/** A server of the second SDK generation: both eras at one endpoint. One tool, `add`. */
export function startStatelessServer(port = 0): Promise<McpPeer> {
  const handler = createMcpHandler(() => {
    const server = new StatelessServer({ name: 'stateless', version: '1' }, { capabilities: { tools: {} } });
    server.setRequestHandler('tools/list', () => ({ tools: [ADD] }));
    server.setRequestHandler('tools/call', ({ params }) => add(params.arguments));
    return server;
  });
  const handle = toNodeHandler(handler);
  return serve((request, response) => handle(request as Parameters<typeof handle>[0], response), port);
}

export async function serve(
  handle: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
  port = 0,
): Promise<McpPeer> {
  const server = createServer((request, response) => {
    handle(request, response).catch(() => response.destroy());
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const stop = async (): Promise<void> => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`, stop, kill: stop };
}

async function withMemoryFile(start: (file: string) => Promise<McpPeer>): Promise<McpPeer> {
  const directory = await mkdtemp(join(tmpdir(), 'tenon-memory-server-'));
  const remove = (): Promise<void> => rm(directory, { recursive: true, force: true });
  try {
    return cleaning(await start(join(directory, 'memory.jsonl')), remove);
  } catch (error) {
    await remove();
    throw error;
  }
}

/** The peer, and what has to be cleared away after it. */
function cleaning(peer: McpPeer, clear: () => Promise<void>): McpPeer {
  return {
    url: peer.url,
    stop: () => peer.stop().then(clear),
    kill: () => peer.kill().then(clear),
  };
}

/** The server tries its port before it opens it: an answer tells that it did. */
async function answering(url: string): Promise<void> {
  for (const end = Date.now() + START_MS; ; await sleep(50)) {
    const answer = await fetch(url, { signal: AbortSignal.timeout(1000) }).catch(() => undefined);
    await answer?.body?.cancel();
    if (answer !== undefined) return;
    if (Date.now() > end) throw new Error(`no answer at ${url} after ${START_MS} ms`);
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** A file of an installed package, whatever its `exports` allow. */
export function packageFile(name: string, file: string): string {
  const directories = require.resolve.paths(name) ?? [];
  const home = directories.map((directory) => join(directory, name)).find((path) => isPackage(path));
  if (home === undefined) throw new Error(`${name} is not installed`);
  return join(home, file);
}

function isPackage(path: string): boolean {
  try {
    return dirname(require.resolve(join(path, 'package.json'))) !== '';
  } catch {
    return false;
  }
}

async function startProcess(args: readonly string[], env: Readonly<Record<string, string>>): Promise<McpPeer> {
  const child = spawn(process.execPath, ['--import', LOOPBACK_ONLY, ...args], {
    detached: true,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const said: string[] = [];
  const lines = createInterface({ input: child.stderr });
  const listening = new Promise<number>((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new Error(`no MCP server after ${START_MS} ms: ${said.join('\n')}`)),
      START_MS,
    );
    lines.on('line', (line) => {
      said.push(line);
      const port = /^LISTENING (\d+)$/.exec(line)?.[1];
      if (port !== undefined) resolve(Number(port));
    });
    child.once('exit', (code) => reject(new Error(`the MCP server ended with ${code}: ${said.join('\n')}`)));
    const settled = (): void => clearTimeout(timer);
    lines.once('close', settled);
    child.once('exit', settled);
  });
  try {
    const port = await listening;
    return {
      url: `http://127.0.0.1:${port}/mcp`,
      stop: () => endGroup(child, 'SIGTERM'),
      kill: () => endGroup(child, 'SIGKILL'),
    };
  } catch (error) {
    await endGroup(child, 'SIGKILL');
    throw error;
  }
}

/** Ends the process and all it started: they are a group of their own. */
async function endGroup(child: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  const { pid } = child;
  if (pid === undefined) return;
  const exited = child.exitCode !== null || child.signalCode !== null ? Promise.resolve() : once(child, 'exit');
  signalGroup(pid, signal);
  const force = setTimeout(signalGroup, STOP_MS, pid, 'SIGKILL');
  await exited;
  clearTimeout(force);
  signalGroup(pid, 'SIGKILL');
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
