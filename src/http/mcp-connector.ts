import type { Connector, Connectors } from '../connectors/types.ts';
import { CONNECTOR_NOT_FOUND, INVALID_ARGUMENT } from '../errors.ts';
import type { Principal } from '../identity/principal.ts';

/** Finds a connector to an MCP server that the caller may see. `missing` makes the error of a route that has its own. */
export type RequireMcp = (principal: Principal, id: string, missing?: () => Error) => Promise<Connector>;

/** @throws the error for a connector that is missing, hidden, or no MCP server */
export function mcpConnectors(connectors: Pick<Connectors, 'find' | 'requireVisible'>): RequireMcp {
  return async (principal, id, missing = () => new CONNECTOR_NOT_FOUND(id)) => {
    const connector = await connectors.find(id);
    if (connector === undefined) throw missing();
    connectors.requireVisible(principal, connector);
    if (connector.protocol !== 'http') return connector;
    throw new INVALID_ARGUMENT(`Connector with ID ${id} is not of type McpConnector or McpStreamableHttpConnector`);
  };
}
