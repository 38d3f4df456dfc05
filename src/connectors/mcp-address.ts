const DEFAULT_ENDPOINT = '/mcp';

/**
 * Address of an MCP server: `url` and the parameter `endpoint` (default `/mcp`) with exactly one slash between and
 * nothing added at the end. A query belongs into `endpoint`; validation refuses one in `url`.
 */
export function mcpAddress(url: string, endpoint: string | undefined): string {
  const path = endpoint === undefined || endpoint === '' ? DEFAULT_ENDPOINT : endpoint;
  return `${url.replace(/\/+$/, '')}/${path.replace(/^\/+/, '')}`;
}
