import type { Connector } from './types.ts';

/** Whether a connector is an MCP server, remote or local: it has tools and a connection. */
export function speaksMcp({ protocol }: Pick<Connector, 'protocol'>): boolean {
  return protocol !== 'http';
}
