import type { CauseCode } from '../errors.ts';
import type { Principal } from '../identity/principal.ts';
import type { JsonObject, JsonValue } from '../json.ts';

export type ConnectionStatus = 'idle' | 'connecting' | 'connected' | 'failed' | 'auth_required' | 'disabled';

/** A tool as its server defines it, after tolerant reading; `hash` covers name, description, schemas, annotations. */
export interface DiscoveredTool {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: JsonObject;
  readonly outputSchema?: JsonObject;
  readonly annotations?: JsonObject;
  readonly hash: string;
}

export interface LeftOutTool {
  readonly name: string;
  readonly reason: string;
}

export interface ToolList {
  readonly tools: readonly DiscoveredTool[];
  readonly leftOut: readonly LeftOutTool[];
  readonly warnings: readonly string[];
}

export interface ConnectionError {
  readonly code: CauseCode;
  readonly message: string;
  readonly remedy: string;
  readonly attempts?: number;
  readonly next_retry_time?: number;
}

/** `GET /connectors/{id}/_status`: the last known truth. Times are epoch milliseconds. */
export interface ConnectionReport {
  readonly connector_id: string;
  readonly name: string;
  readonly origin: 'api' | 'config';
  readonly transport: 'remote' | 'local';
  readonly status: ConnectionStatus;
  readonly since: number;
  readonly tool_count: number;
  readonly tools: readonly { name: string; offered_as: string; state: string; reason?: string }[];
  readonly protocol_version?: string;
  readonly last_success_time?: number;
  readonly error?: ConnectionError;
  readonly breaker: { state: 'closed' | 'open' | 'half_open'; failures: number; retry_time?: number };
  readonly warnings?: readonly string[];
  readonly left_out?: readonly LeftOutTool[];
  /** Open sessions of callers whose own headers are passed on; present where the connector names such headers. */
  readonly caller_sessions?: number;
  readonly actions: readonly ConnectionAction[];
}

/** What a person can do to a connection; which of them, says its status. */
export type ConnectionAction = 'reconnect' | 'disable' | 'enable';

/** Who a session is used for. */
export interface McpCaller {
  readonly principal: Principal;
  /** The caller's own header fields, names in lower case; a connector is given those it names. Never logged. */
  readonly headers?: Readonly<Record<string, string>>;
}

export interface McpCall {
  readonly tool: string;
  /** JSON text of the arguments object, digits as they were written. */
  readonly argumentsText: string;
  readonly principal: Principal;
  /** As `McpCaller.headers`. */
  readonly callerHeaders?: Readonly<Record<string, string>>;
  readonly agentId?: string;
  readonly runId?: string;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: { progress: number; total?: number; message?: string }) => void;
}

export interface McpCallResult {
  readonly content: readonly JsonObject[];
  readonly structuredContent?: JsonValue;
  readonly isError: boolean;
  /** Octets of the answer as received. */
  readonly bytes: number;
  readonly warnings: readonly string[];
}

/**
 * The pool of sessions: one per connector, opened by the first use, shared by all; and one for each caller whose own
 * headers a connector passes on, which nobody else uses. The report of a connector is about the shared one, and counts
 * the others.
 */
export interface McpSessions {
  /** Cached list while it is fresh; else lists, opening the session when there is none. @throws UpstreamError */
  tools(connectorId: string, options?: { signal?: AbortSignal; caller?: McpCaller }): Promise<ToolList>;
  /** @throws UpstreamError; `delivered: 'unknown'` when the tool may have run. A tool's own failure is a result. */
  call(connectorId: string, call: McpCall): Promise<McpCallResult>;
  report(connectorId: string, options?: { probe?: boolean; signal?: AbortSignal }): Promise<ConnectionReport>;
  /** The connections that were ever used, by connector id, without asking any server. */
  reports(): Promise<ConnectionReport[]>;
  /** The server's own name of a tool named so, or offered so; lists the tools if need be. @throws UpstreamError */
  toolNamed(
    connectorId: string,
    name: string,
    options?: { signal?: AbortSignal; caller?: McpCaller },
  ): Promise<string | undefined>;
  /**
   * Does what `actions` of the report offers and reports the state after it. `reconnect` and `enable` wait for the
   * outcome of the attempt; `disable` cuts calls under way and lasts until `enable`, over restarts too.
   * @throws CONFLICT when the state does not offer the action
   */
  act(connectorId: string, action: ConnectionAction, principal: Principal): Promise<ConnectionReport>;
  /** Closes the session (DELETE to the server) so that the next use opens a new one. */
  reset(connectorId: string, cause: string): Promise<void>;
  /** Closes everything; in-flight calls end or are cut at `deadlineMs` from now. */
  close(deadlineMs: number): Promise<void>;
}
