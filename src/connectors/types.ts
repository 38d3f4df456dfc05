import type { CauseCode } from '../errors.ts';
import type { Ownership, Viewer } from '../identity/ownership.ts';
import type { Principal } from '../identity/principal.ts';
import type { JsonObject } from '../json.ts';
import type { EndpointPolicy } from '../outbound/types.ts';
import type { WriteOutcome } from '../store/documents.ts';

/** `mcp_stdio`: a local process; only the operator's configuration file declares one. */
export type ConnectorProtocol = 'http' | 'mcp_streamable_http' | 'mcp_stdio';

export interface ConnectorAction {
  readonly action_type: string;
  readonly name?: string;
  readonly method: string;
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly request_body?: string;
  readonly pre_process_function?: string;
  readonly post_process_function?: string;
}

/** All members filled in: seconds where the API says seconds, milliseconds where the name says so. */
export interface ClientConfig {
  readonly max_connection: number;
  readonly connection_timeout: number;
  readonly read_timeout: number;
  readonly retry_backoff_policy: 'constant' | 'exponential_equal_jitter' | 'exponential_full_jitter';
  readonly max_retry_times: number;
  readonly retry_backoff_millis: number;
  readonly retry_timeout_seconds: number;
  readonly skip_ssl_verification: boolean;
  readonly max_total_timeout: number;
  readonly protocol_version: string;
  readonly elicitation: 'decline' | 'accept_defaults' | 'ask';
}

/** A connector as the rooms above see it. No credential, sealed or plain. */
export interface Connector {
  readonly id: string;
  readonly name: string;
  readonly protocol: ConnectorProtocol;
  readonly parameters: Readonly<Record<string, string>>;
  readonly url?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Names of the caller's headers that go on to this server. */
  readonly passthroughHeaders?: readonly string[];
  readonly actions?: readonly ConnectorAction[];
  /** As it is in force, defaults of the protocol filled in. */
  readonly clientConfig: ClientConfig;
  /** Grows with each update, also when it is deleted and made anew: a session of an older revision is stale. */
  readonly revision: number;
  /** Absent for one that nobody owns. */
  readonly ownership?: Ownership;
  /** Of a server that the operator's configuration file declares: its record is read-only. Absent for stored ones. */
  readonly declared?: DeclaredServer;
}

/** What a configuration file says about a server beside its connector. */
export interface DeclaredServer {
  /** Connects at start. Whoever disables or enables it later does so until the restart. */
  readonly enabled: boolean;
  /** Names or ids of agents that get its tools without naming it; `*` is all of them. */
  readonly agents: readonly string[];
  /** Why it cannot be used at all: a name that is taken, a variable that is not set, an entry that is not valid. */
  readonly problem?: { readonly code: CauseCode; readonly message: string; readonly remedy: string };
  /** What does not keep it from working. */
  readonly warnings?: readonly string[];
  /** Members of `client_config` that `timeout` of the entry sets. */
  readonly limitsOfTimeout?: readonly ('connection_timeout' | 'read_timeout')[];
}

/** A child process as it is started: no shell, this environment and no other. Never logged. */
export interface LocalServer {
  readonly command: string;
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly cwd: string;
}

/** A ready request of one action: placeholders filled, credentials in the headers. Never logged. */
export interface RenderedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly origins: readonly string[];
}

/** Everything needed to reach an MCP server, rendered anew for each session. Never logged. */
export interface McpEndpoint {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly origins: readonly string[];
  /** As it is in force when it is read. */
  readonly policy: EndpointPolicy;
}

export interface ActionRequest {
  readonly actionType: string;
  /** Overlay the connector's own parameters. */
  readonly parameters: Readonly<Record<string, string>>;
  /** Platform fragments that go into the template verbatim and that callers cannot set. */
  readonly fragments?: Readonly<Record<string, string>>;
  /** Members merged into the rendered JSON body when the template has no placeholder for them. */
  readonly merge?: (body: JsonObject) => JsonObject;
  readonly signal?: AbortSignal;
}

export interface ActionResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** What became of a stored connector. */
export type ConnectorChange = 'created' | 'updated' | 'deleted';

export interface Connectors {
  create(principal: Principal, body: JsonObject): Promise<{ connector_id: string }>;
  /** The document as `GET` shows it. @throws CONNECTOR_NOT_FOUND, FORBIDDEN */
  get(principal: Principal, id: string): Promise<JsonObject>;
  /** @throws CONNECTOR_NOT_FOUND, INVALID_ARGUMENT, FORBIDDEN (another's) */
  update(principal: Principal, id: string, body: JsonObject): Promise<WriteOutcome>;
  /** An unknown id is a `not_found` outcome, with access control CONNECTOR_NOT_FOUND. @throws CONFLICT, FORBIDDEN */
  delete(principal: Principal, id: string): Promise<WriteOutcome>;
  /** Whether the principal may see and use it. */
  visible(principal: Viewer, connector: Connector): boolean;
  /** @throws FORBIDDEN where `visible` is false */
  requireVisible(principal: Viewer, connector: Connector): void;
  /** @throws FORBIDDEN naming what was to be done; only the owner and administrators change a connector */
  requireOwned(principal: Principal, verb: 'disable' | 'enable', connector: Connector): void;
  /** @throws CONNECTOR_NOT_FOUND */
  load(id: string): Promise<Connector>;
  /** Every connector of its own, in order of creation; inline ones of models are not among them. */
  list(): Promise<Connector[]>;
  /** `undefined` where `load` throws. */
  find(id: string): Promise<Connector | undefined>;
  /**
   * Checks an inline connector (of a model registration) and returns its document and sealed credential. With the
   * document that is stored now, `body` is an update of it; `sealed: undefined` then keeps the stored credential.
   */
  prepareInline(
    owner: string,
    body: JsonObject,
    current?: JsonObject,
  ): Promise<{ document: JsonObject; sealed: string | undefined }>;
  /** The connector stored inside a document of another noun. */
  inline(owner: string, document: JsonObject, revision: number): Connector;
  /** Of a remote server. @throws INVALID_ARGUMENT, UpstreamError (`declared.problem`) */
  mcpEndpoint(connector: Connector): Promise<McpEndpoint>;
  /** Of a local server (protocol `mcp_stdio`). @throws UpstreamError (`declared.problem`) */
  localServer(connector: Connector): Promise<LocalServer>;
  /** Ids of the declared servers that join an agent which does not name them, in the order of their declaration. */
  joinedTo(agent: { readonly id: string; readonly name: string }): readonly string[];
  /** Whether one of them is a declared server that joins agents. */
  joinsAgents(connectorIds: readonly string[]): boolean;
  /** Whether the template of an action holds a placeholder of that parameter name. */
  hasPlaceholder(connector: Connector, actionType: string, parameter: string): boolean;
  /** Renders and sends one action, retries by `clientConfig`. Answers of any status are returned, not thrown. */
  execute(connector: Connector, request: ActionRequest): Promise<ActionResponse>;
  /** Called after a change has been stored, and before it is answered. */
  onChange(listener: (id: string, change: ConnectorChange) => void | Promise<void>): void;
}
