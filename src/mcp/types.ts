import type { Connector } from '../connectors/types.ts';
import type { CauseCode } from '../errors.ts';
import type { Principal } from '../identity/principal.ts';
import type { JsonObject, JsonValue } from '../json.ts';

export type ConnectionStatus = 'idle' | 'connecting' | 'connected' | 'failed' | 'auth_required' | 'disabled';

/** A tool as its server defines it, after tolerant reading; `hash` covers name, description, schemas, annotations. */
export interface DiscoveredTool {
  readonly name: string;
  /** The server's own name, where it holds characters that nobody sees; `name` is without them. */
  readonly calledAs?: string;
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
  /** The last lines a local process wrote to its standard error, oldest first; cleaned and cut. */
  readonly stderr?: readonly string[];
  /** Agents that name this connector, or are joined by it; at most 100. */
  readonly agents: readonly { readonly agent_id: string; readonly name: string }[];
  readonly actions: readonly ConnectionAction[];
}

/** One change of a connection's status, as `_history` shows it. */
export interface ConnectionChange {
  readonly from: ConnectionStatus;
  readonly to: ConnectionStatus;
  readonly cause: string;
  readonly code?: CauseCode;
  readonly message?: string;
  readonly time: number;
}

/** What a person can do to a connection; which of them, says its status. */
export type ConnectionAction = 'reconnect' | 'disable' | 'enable';

/** Who a session is used for. */
export interface McpCaller {
  readonly principal: Principal;
  /** The caller's own header fields, names in lower case; a connector is given those it names. Never logged. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** What a server wants to know from a person before it goes on (MCP, Elicitation). All of it is the server's own text. */
export interface ServerQuestion {
  readonly mode: 'form' | 'url';
  readonly message: string;
  /** Of a form: an object schema of flat fields. */
  readonly schema?: JsonObject;
  /** To be shown, never fetched. */
  readonly url?: string;
}

export interface QuestionAnswer {
  readonly action: 'accept' | 'decline' | 'cancel';
  /** Of an accepted form. */
  readonly content?: JsonObject;
}

/** Questions or answers by the key the server gave each. */
export type ByKey<T> = Readonly<Record<string, T>>;

/**
 * A call the server has answered with questions and nothing else (2026-07-28, `input_required`): nothing of it is under way,
 * any process can go on with it once the answers are there.
 */
export interface PausedCall {
  readonly questions: ByKey<ServerQuestion>;
  /** Questions of the same answer that were answered without a person. */
  readonly settled?: ByKey<QuestionAnswer>;
  /** Opaque, sent back byte for byte. */
  readonly requestState?: string;
  /** Rounds of questions so far, this one included. */
  readonly round: number;
  /** Which server asked, as `serverKey` tells them apart: at no other the call goes on. */
  readonly server?: string;
}

/**
 * Puts questions to whoever can answer them. `paused` is absent where the call is under way while it waits, and ends with
 * its process: a server of the session era asks so. `withdrawn` ends when nobody can use an answer any more, its reason a
 * clause that says why; what is left unanswered then counts as cancelled.
 */
export type AskPerson = (
  questions: ByKey<ServerQuestion>,
  paused: PausedCall | undefined,
  withdrawn?: AbortSignal,
) => Promise<ByKey<QuestionAnswer>>;

export interface CallProgress {
  readonly progress: number;
  readonly total?: number;
  readonly message?: string;
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
  readonly onProgress?: (progress: CallProgress) => void;
  /** Asked where `client_config.elicitation` is `ask`; without it every question is declined. */
  readonly ask?: AskPerson;
  /** Goes on with a call that was paused, perhaps by another process. */
  readonly resume?: { readonly paused: PausedCall; readonly answers: ByKey<QuestionAnswer> };
}

export interface PauseWatch {
  /** Ends when the call cannot go on, its reason a sentence that says why. */
  readonly signal: AbortSignal;
  end(): void;
}

export interface McpCallResult {
  readonly content: readonly JsonObject[];
  readonly structuredContent?: JsonValue;
  readonly isError: boolean;
  /** Octets of the answer as received. */
  readonly bytes: number;
  readonly warnings: readonly string[];
}

/** Prompts and resources of a server, as it gives them, cleaned. @throws UpstreamError, INVALID_ARGUMENT */
export interface ServerContent {
  resources(connectorId: string, options?: UseOptions): Promise<JsonObject[]>;
  readResource(connectorId: string, uri: string, options?: UseOptions): Promise<JsonObject[]>;
  prompts(connectorId: string, options?: UseOptions): Promise<JsonObject[]>;
  prompt(
    connectorId: string,
    name: string,
    values: Readonly<Record<string, string>>,
    options?: UseOptions,
  ): Promise<{ readonly description?: string; readonly messages: JsonObject[] }>;
}

export interface UseOptions {
  readonly signal?: AbortSignal;
  readonly caller?: McpCaller;
}

/**
 * The pool of sessions: one per connector, opened by the first use, shared by all; and one for each caller whose own
 * headers a connector passes on, which nobody else uses. The report of a connector is about the shared one, and counts
 * the others.
 */
export interface McpSessions extends ServerContent {
  /** Cached list while it is fresh; else lists, opening the session when there is none. @throws UpstreamError */
  tools(connectorId: string, options?: UseOptions): Promise<ToolList>;
  /**
   * @throws UpstreamError; `delivered: 'unknown'` when the tool may have run. A tool's own failure is a result. CONFLICT
   * when a paused call would go on at another server than the one that asked.
   */
  call(connectorId: string, call: McpCall): Promise<McpCallResult>;
  /** Watches whether a paused call can go on at the server of that connector; looks once before it answers. */
  watchPause(connectorId: string, paused: PausedCall): Promise<PauseWatch>;
  report(connectorId: string, options?: { probe?: boolean; signal?: AbortSignal }): Promise<ConnectionReport>;
  /** Of every MCP server, used or not, or of those; asks none. */
  reports(only?: (connector: Connector) => boolean): Promise<ConnectionReport[]>;
  /** The server's own name of a tool named so, or offered so; lists the tools if need be. @throws UpstreamError */
  toolNamed(connectorId: string, name: string, options?: UseOptions): Promise<string | undefined>;
  /**
   * Does what `actions` of the report offers and reports the state after it. `reconnect` and `enable` wait for the
   * outcome of the attempt; `disable` cuts calls under way and lasts until `enable`, over restarts too.
   * @throws CONFLICT when the state does not offer the action
   */
  act(connectorId: string, action: ConnectionAction, principal: Principal): Promise<ConnectionReport>;
  /** Newest first; at most `limit`. */
  history(connectorId: string, limit: number): Promise<ConnectionChange[]>;
  /** Connects every enabled declared server, in parallel; returns at once. A failure is a status. */
  start(): void;
  /** Closes the session (DELETE to the server) so that the next use opens a new one. */
  reset(connectorId: string, cause: string): Promise<void>;
  /** Closes everything; in-flight calls end or are cut at `deadlineMs` from now. */
  close(deadlineMs: number): Promise<void>;
}
