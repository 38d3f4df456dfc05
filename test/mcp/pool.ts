import type {
  ClientConfig,
  Connector,
  ConnectorChange,
  Connectors,
  DeclaredServer,
  LocalServer,
  McpEndpoint,
} from '../../src/connectors/types.ts';
import { CONNECTOR_NOT_FOUND, UpstreamError } from '../../src/errors.ts';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import { createMcpSessions, type McpSessionsDeps, type PoolLimits } from '../../src/mcp/sessions.ts';
import type { McpCall, McpCallResult, McpSessions } from '../../src/mcp/types.ts';
import { createOutbound } from '../../src/outbound/fetch.ts';
import type { AuditEntry } from '../../src/schemas/audit.ts';
import { type ConnectionStore, createConnectionStore } from '../../src/store/connections.ts';
import { createMcpToolStore, type McpToolStore } from '../../src/store/mcp-tools.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { createRedactor, type Redactor } from '../../src/telemetry/redactor.ts';
import { sqliteDatabase } from '../support/databases.ts';

const POLICY: McpEndpoint['policy'] = {
  trusted: undefined,
  trustedPrivate: [],
  privateIpEnabled: false,
  loopbackAllowed: true,
  restrictedIps: [],
};

const CONFIG: ClientConfig = {
  max_connection: 30,
  connection_timeout: 5,
  read_timeout: 5,
  retry_backoff_policy: 'exponential_full_jitter',
  max_retry_times: 3,
  retry_backoff_millis: 20,
  retry_timeout_seconds: 10,
  skip_ssl_verification: false,
  max_total_timeout: 20,
  protocol_version: 'auto',
  elicitation: 'decline',
};

export interface Pool {
  readonly sessions: McpSessions;
  /** Replaceable members: what the pool asks for is looked up at each use. */
  readonly connectors: {
    -readonly [M in
      | 'load'
      | 'find'
      | 'visible'
      | 'requireVisible'
      | 'requireOwned'
      | 'mcpEndpoint'
      | 'localServer'
      | 'onChange']: Connectors[M];
  };
  readonly connections: ConnectionStore;
  readonly mcpTools: McpToolStore;
  readonly lines: string[];
  readonly redactor: Redactor;
  readonly audited: AuditEntry[];
  /** Adds a connector to an address; its id is its name. */
  add(
    name: string,
    url: string,
    options?: {
      headers?: Record<string, string>;
      passthroughHeaders?: readonly string[];
      config?: Partial<ClientConfig>;
      protocol?: 'http';
      /** A server of the configuration file. */
      declared?: DeclaredServer;
    },
  ): void;
  /** Adds a local server; its id is its name. Without a command it is Node.js, with no environment but PATH. */
  addLocal(
    name: string,
    args: readonly string[],
    options?: Partial<Omit<LocalServer, 'args'>> & { config?: Partial<ClientConfig> },
  ): void;
  /** A change of a stored connector: a new revision, announced. */
  update(name: string, change: Partial<{ url: string; headers: Record<string, string> }>): Promise<void>;
  remove(name: string): Promise<void>;
  setEnabled(enabled: boolean): void;
  call(name: string, tool: string, values?: unknown, more?: Partial<McpCall>): Promise<McpCallResult>;
  /** A second pool on the same database, as after a restart. */
  restarted(): McpSessions;
  dispose(): Promise<void>;
}

/** The pool of sessions on a real client and a real store; connectors are plain records. */
export async function openPool(
  limits: Partial<PoolLimits> = {},
  now?: () => number,
  more: Partial<Pick<McpSessionsDeps, 'events' | 'metrics' | 'agentsOf' | 'random' | 'shared'>> = {},
): Promise<Pool> {
  const { database, dispose } = await sqliteDatabase();
  const outbound = createOutbound();
  const redactor = createRedactor();
  const lines: string[] = [];
  const log = createLogger({ level: 'trace', redactor, stream: { write: (line: string) => void lines.push(line) } });
  const connections = createConnectionStore(database);
  const mcpTools = createMcpToolStore(database);
  const audited: AuditEntry[] = [];
  const records = new Map<string, { connector: Connector; url: string; headers: Record<string, string> }>();
  const locals = new Map<string, LocalServer>();
  const listeners: ((id: string, change: ConnectorChange) => void | Promise<void>)[] = [];
  let enabled = true;

  const connectors = {
    async load(id: string): Promise<Connector> {
      const record = records.get(id);
      if (!record) throw new CONNECTOR_NOT_FOUND(id);
      return record.connector;
    },
    find: async (id: string) => records.get(id)?.connector,
    visible: () => true,
    requireVisible: () => undefined,
    requireOwned: () => undefined,
    list: async () => [...records.values()].map(({ connector }) => connector),
    async mcpEndpoint(connector: Connector): Promise<McpEndpoint> {
      const record = records.get(connector.id);
      if (!record) throw new CONNECTOR_NOT_FOUND(connector.id);
      const { problem } = connector.declared ?? {};
      if (problem) throw new UpstreamError({ ...problem, destination: connector.name, statusCode: 502 });
      return { url: record.url, headers: record.headers, origins: [new URL(record.url).origin], policy: POLICY };
    },
    async localServer(connector: Connector): Promise<LocalServer> {
      const server = locals.get(connector.id);
      if (!server) throw new CONNECTOR_NOT_FOUND(connector.id);
      return server;
    },
    onChange: (listener: (typeof listeners)[number]) => void listeners.push(listener),
  };
  const create = (): McpSessions =>
    createMcpSessions({
      connectors,
      outbound,
      connections,
      mcpTools,
      settings: { flag: (name) => enabled && name.endsWith('.mcp_connector_enabled') },
      audit: { record: async (entry) => void audited.push(entry) },
      redactor,
      log,
      limits,
      ...(now && { now }),
      ...more,
    });
  const sessions = create();
  const others: McpSessions[] = [];

  return {
    sessions,
    connectors,
    connections,
    mcpTools,
    lines,
    redactor,
    audited,
    add(name, url, options = {}) {
      const connector: Connector = {
        id: name,
        name,
        protocol: options.protocol ?? 'mcp_streamable_http',
        parameters: {},
        url,
        ...(options.passthroughHeaders && { passthroughHeaders: options.passthroughHeaders }),
        ...(options.declared && { declared: options.declared }),
        clientConfig: { ...CONFIG, ...options.config },
        revision: 1,
      };
      redactor.taint(Object.values(options.headers ?? {}));
      records.set(name, { connector, url, headers: options.headers ?? {} });
    },
    addLocal(name, args, { config, command, cwd, environment } = {}) {
      const connector: Connector = {
        id: name,
        name,
        protocol: 'mcp_stdio',
        parameters: {},
        clientConfig: { ...CONFIG, ...config },
        revision: 1,
        declared: { enabled: true, agents: [] },
      };
      records.set(name, { connector, url: '', headers: {} });
      locals.set(name, {
        command: command ?? process.execPath,
        args,
        cwd: cwd ?? process.cwd(),
        environment: environment ?? { PATH: process.env.PATH ?? '' },
      });
    },
    async update(name, change) {
      const record = records.get(name);
      if (!record) throw new Error(`no connector ${name}`);
      const { url } = change;
      const connector = { ...record.connector, ...(url && { url }), revision: record.connector.revision + 1 };
      records.set(name, { ...record, ...change, connector });
      for (const listener of listeners) await listener(name, 'updated');
    },
    async remove(name) {
      records.delete(name);
      for (const listener of listeners) await listener(name, 'deleted');
    },
    setEnabled(value) {
      enabled = value;
    },
    call: (name, tool, values = {}, more = {}) =>
      sessions.call(name, { tool, argumentsText: JSON.stringify(values), principal: OPEN_PRINCIPAL, ...more }),
    restarted() {
      const next = create();
      others.push(next);
      return next;
    },
    async dispose() {
      for (const open of [sessions, ...others]) await open.close(200);
      await outbound.close();
      await dispose();
    },
  };
}

/** Text of the first content part. */
export function textOf(result: McpCallResult): unknown {
  return result.content[0]?.text;
}
