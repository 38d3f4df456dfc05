import type { JsonObject } from '../json.ts';

export interface McpToolRow {
  readonly name: string;
  readonly definition: JsonObject;
  readonly hash: string;
  readonly present: boolean;
  readonly firstSeenTime: number;
  readonly lastSeenTime: number;
}

export interface OfferedName {
  readonly offeredAs: string;
  readonly connectorId: string;
  readonly tool: string;
}

export interface McpToolStore {
  /** Registers a freshly read list: new rows appear, changed ones are rewritten, missing ones become absent. */
  replace(connectorId: string, tools: readonly { name: string; definition: JsonObject; hash: string }[]): Promise<void>;
  /** In the order of the server's list; absent ones last. */
  list(connectorId: string): Promise<McpToolRow[]>;
  deleteOf(connectorId: string): Promise<void>;
  offeredNames(agentId: string): Promise<OfferedName[]>;
  /** @throws UniqueViolation when the name or the tool already has a row in this agent. */
  claimName(agentId: string, name: OfferedName): Promise<void>;
  deleteNames(agentId: string): Promise<void>;
}
