// A Streamable HTTP MCP server of the session era with plain JSON answers, hand-written so that it costs little.
import { randomUUID } from 'node:crypto';
import { serve } from './serve.mjs';

const VERSIONS = ['2025-11-25', '2025-06-18', '2025-03-26'];
const TOOLS = [
  {
    name: 'get_current_weather',
    description: 'Get the current weather of a place.',
    inputSchema: {
      type: 'object',
      properties: { location: { type: 'string', description: 'City name' } },
      required: ['location'],
    },
  },
];
const sessions = new Set();
let opened = 0;
/** Whether the addresses below `/flap/` come and go. */
let flapping = false;

function result(method, params = {}) {
  switch (method) {
    case 'initialize':
      return {
        protocolVersion: VERSIONS.includes(params.protocolVersion) ? params.protocolVersion : VERSIONS[0],
        capabilities: { tools: { listChanged: false } },
        serverInfo: { name: 'bench', version: '1.0.0' },
      };
    case 'ping':
      return {};
    case 'tools/list':
      return { tools: TOOLS };
    case 'tools/call': {
      const { location } = params.arguments;
      return {
        content: [{ type: 'text', text: JSON.stringify({ location, temperature_f: 68, sky: 'partly cloudy' }) }],
      };
    }
    default:
      return undefined;
  }
}

/** Half of the time, each address in its own rhythm of half a second to two. */
function isDown(n) {
  return Math.floor(Date.now() / (500 + (n % 4) * 500)) % 2 === n % 2;
}

function rpcError(status, id, code, message) {
  return { status, body: { jsonrpc: '2.0', id: id ?? null, error: { code, message } } };
}

const [, keepAliveMs] = /^--keep-alive-ms=(\d+)$/.exec(process.argv[2] ?? '') ?? [];
const options = keepAliveMs === undefined ? {} : { keepAliveMs: Number(keepAliveMs) };
const server = serve(async (request, text) => {
  if (request.url === '/counts') {
    const sockets = await new Promise((resolve) => server.getConnections((_error, count) => resolve(count)));
    return { body: { opened, sessions: sessions.size, sockets } };
  }
  if (request.url.startsWith('/flap?')) {
    flapping = request.url.endsWith('on=true');
    return { body: { flapping } };
  }
  if (flapping && request.url.startsWith('/flap/') && isDown(Number(request.url.slice(6)))) {
    return Math.random() < 0.5 ? 'reset' : { status: 503 };
  }
  const session = request.headers['mcp-session-id'];
  if (request.method === 'DELETE') return { status: sessions.delete(session) ? 200 : 404 };
  if (request.method !== 'POST')
    return { ...rpcError(405, null, -32000, 'Method not allowed.'), headers: { allow: 'POST' } };
  const message = JSON.parse(text);
  const headers = {};
  if (message.method === 'initialize') {
    headers['mcp-session-id'] = randomUUID();
    sessions.add(headers['mcp-session-id']);
    opened += 1;
  } else if (!session) {
    return rpcError(400, message.id, -32000, 'Bad Request: Mcp-Session-Id header is required');
  } else if (!sessions.has(session)) {
    return rpcError(404, message.id, -32001, 'Session not found');
  }
  if (message.id === undefined) return { status: 202, headers };
  const value = result(message.method, message.params);
  if (value === undefined) return rpcError(200, message.id, -32601, `Method not found: ${message.method}`);
  return { headers, body: { jsonrpc: '2.0', id: message.id, result: value } };
}, options);
