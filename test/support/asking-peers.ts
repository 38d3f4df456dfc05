import { randomUUID } from 'node:crypto';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { Server as SessionEraServer } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, ElicitResultSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { createMcpHandler, inputRequired, Server as StatelessServer } from '@modelcontextprotocol/server';
import { type McpPeer, serve } from './mcp-peers.ts';

const BOOK = { name: 'book', description: 'Books a journey.', inputSchema: { type: 'object' as const } };
const FORM = {
  type: 'object' as const,
  properties: { city: { type: 'string' as const, default: 'Bergen' } },
  required: ['city'],
};
const text = (said: string): { content: { type: 'text'; text: string }[] } => ({
  content: [{ type: 'text', text: said }],
});

/** A server of the first SDK generation whose tool `book` asks for a city while it runs. */
export async function startAskingSessionServer(): Promise<McpPeer> {
  const transports = new Map<string, StreamableHTTPServerTransport>();
  return serve(async (request, response) => {
    const known = transports.get(String(request.headers['mcp-session-id']));
    if (known !== undefined) return known.handleRequest(request, response);
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (id) => void transports.set(id, transport),
    });
    const server = new SessionEraServer({ name: 'asking', version: '1' }, { capabilities: { tools: {} } });
    server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [BOOK] }));
    server.setRequestHandler(CallToolRequestSchema, async (_request, { sendRequest }) => {
      const params = { message: 'Where to?', requestedSchema: FORM };
      const { action, content } = await sendRequest({ method: 'elicitation/create', params }, ElicitResultSchema);
      return text(`${action} ${JSON.stringify(content)}`);
    });
    await server.connect(transport as unknown as Parameters<typeof server.connect>[0]);
    return transport.handleRequest(request, response);
  });
}

/** A server of the second SDK generation whose tool `book` asks for a city before it runs. */
export function startAskingStatelessServer(): Promise<McpPeer> {
  const handler = createMcpHandler(() => {
    const server = new StatelessServer({ name: 'asking', version: '1' }, { capabilities: { tools: {} } });
    server.setRequestHandler('tools/list', () => ({ tools: [BOOK] }));
    server.setRequestHandler('tools/call', (_request, { mcpReq }) => {
      const answer = mcpReq.inputResponses?.where;
      if (answer !== undefined) return text(JSON.stringify(answer));
      return inputRequired({
        inputRequests: { where: inputRequired.elicit({ message: 'Where to?', requestedSchema: FORM }) },
      });
    });
    return server;
  });
  const handle = toNodeHandler(handler);
  return serve((request, response) => handle(request as Parameters<typeof handle>[0], response));
}
