import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { localhostHostValidation, localhostOriginValidation, toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, fromJsonSchema, McpServer } from '@modelcontextprotocol/server';

export interface WeatherServer {
  /** `http://127.0.0.1:<port>`; the MCP endpoint is `/mcp` below it. */
  readonly url: string;
  /** Ends open requests and frees the port. */
  close(): Promise<void>;
}

const REPORTS: Readonly<Record<string, string>> = {
  seattle: 'partly cloudy, 68°F (20°C), wind 6 mph from the northwest',
  reykjavik: 'rain, 50°F (10°C), wind 22 mph from the east',
};

function report(location: string): string {
  const [city = ''] = location.split(',');
  return `${location}: ${REPORTS[city.trim().toLowerCase()] ?? 'clear sky, 72°F (22°C), hardly any wind'}.`;
}

function weatherMcpServer(): McpServer {
  const server = new McpServer({ name: 'weather', version: '1.0.0' });
  server.registerTool(
    'get_current_weather',
    {
      description: 'Current weather of a place.',
      inputSchema: fromJsonSchema<{ location: string }>({
        type: 'object',
        properties: { location: { type: 'string', description: 'City, for example Seattle' } },
        required: ['location'],
      }),
      annotations: { readOnlyHint: true },
    },
    ({ location }) => ({ content: [{ type: 'text', text: report(location) }] }),
  );
  return server;
}

function refuse(response: ServerResponse, status: number, error: string): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ error }));
}

/**
 * A weather service as an MCP server over Streamable HTTP, on loopback. Every request needs `apiKey` in the header
 * `X-Weather-API-Key`; any other gets 401, and any path but `/mcp` 404. `port` 0 takes a free one.
 */
export async function startWeatherServer(options: { apiKey: string; port?: number }): Promise<WeatherServer> {
  const handle = toNodeHandler(createMcpHandler(weatherMcpServer));
  const hostIsLocal = localhostHostValidation();
  const originIsLocal = localhostOriginValidation();
  const server = createServer((request, response) => {
    if (!hostIsLocal(request, response) || !originIsLocal(request, response)) return;
    if (request.url?.split('?', 1)[0] !== '/mcp') return refuse(response, 404, 'The MCP endpoint is /mcp');
    if (request.headers['x-weather-api-key'] !== options.apiKey) {
      return refuse(response, 401, 'X-Weather-API-Key is missing or wrong');
    }
    handle(request as IncomingMessage & { method: string; url: string }, response).catch((error: unknown) =>
      response.destroy(error as Error),
    );
  });
  server.listen(options.port ?? 0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      if (!server.listening) return;
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
