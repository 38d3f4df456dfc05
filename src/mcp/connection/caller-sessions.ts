import { createHmac, randomBytes } from 'node:crypto';
import { passedHeaders } from '../../connectors/passthrough.ts';
import type { Connector, McpEndpoint } from '../../connectors/types.ts';
import { canonicalJson } from '../../json.ts';
import type { McpToolStore } from '../../store/mcp-tools.ts';
import type { Redactor } from '../../telemetry/redactor.ts';
import type { McpCaller } from '../types.ts';
import { type Connection, type ConnectionDeps, createConnection } from './connection.ts';
import type { SharedServer } from './connection-health.ts';
import { createConnectionStates } from './status.ts';

/** A connection, and the newest version of its connector. */
interface CallerConnection {
  readonly connection: Connection;
  readonly connector: Connector;
}

export interface CallerSessionsDeps
  extends Omit<
    ConnectionDeps,
    'states' | 'mcpTools' | 'onTools' | 'wanted' | 'onOpened' | 'onGone' | 'before' | 'server'
  > {
  readonly redactor: Pick<Redactor, 'clean' | 'cleanContent' | 'taint'>;
  readonly onOpened: (connection: Connection) => void;
  /** What all callers of a connector share: that its server cannot be reached, or is there again. */
  readonly serverOf: (connector: Connector) => SharedServer;
  /** Callers with a connection of their own; beyond it the one unused the longest is closed. */
  readonly maxCallers: number;
}

/** Connections that carry headers of their caller: one for each connector, principal and set of values. */
export interface CallerSessions {
  /** `undefined`: nothing of this caller goes on to this connector, the shared connection serves it. */
  use<T>(
    connector: Connector,
    caller: McpCaller | undefined,
    work: (connection: Connection) => Promise<T>,
  ): Promise<T> | undefined;
  all(): readonly CallerConnection[];
  /** Closes those of one connector. */
  retire(connectorId: string, cause: string): Promise<void>;
  /** Closes those of one connector and cuts their calls. */
  cut(connectorId: string, cause: string): Promise<void>;
  /** Ends those of a connector that is gone. */
  dispose(connectorId: string): Promise<void>;
  /** Forgets those that have no session and were not used for so long, in milliseconds. */
  forgetUnused(idleMs: number): void;
}

/** Headers of ML Commons that say where a request goes, not who makes it: they may be read in logs and errors. */
const NO_SECRET: readonly string[] = ['aws-region', 'aws-service-name', 'opensearch-url'];

/**
 * Nothing of these connections is shared or stored: header values live in memory while a session does, and are told apart
 * by a keyed hash whose key is this process's own. Their status and tool lists are not the connector's, which others see.
 */
export function createCallerSessions(deps: CallerSessionsDeps): CallerSessions {
  const secret = randomBytes(32);
  const entries = new Map<string, { connection: Connection; connector: Connector; users: number }>();

  function connect(connector: Connector, caller: McpCaller, headers: Record<string, string>): Connection {
    const log = deps.log.child({ caller: caller.principal.id });
    const mcpEndpoint = async (current: Connector): Promise<McpEndpoint> => {
      const endpoint = await deps.connectors.mcpEndpoint(current);
      return {
        ...endpoint,
        headers: { ...headers, ...endpoint.headers },
        get policy() {
          return endpoint.policy;
        },
      };
    };
    const connection: Connection = createConnection(connector, {
      ...deps,
      log,
      states: createConnectionStates({ connections: NOT_STORED, log, now: deps.now }),
      mcpTools: NO_TOOLS,
      connectors: { load: deps.connectors.load, localServer: deps.connectors.localServer, mcpEndpoint },
      server: deps.serverOf(connector),
      onOpened: () => deps.onOpened(connection),
      onGone: () => undefined,
    });
    return connection;
  }

  /** The map is in the order of use. */
  function trim(): void {
    for (const [key, { connection, users }] of entries) {
      if (entries.size <= deps.maxCallers) return;
      if (users > 0) continue;
      entries.delete(key);
      void connection.retire('too many callers');
    }
  }

  return {
    use(connector, caller, work) {
      const headers = passedHeaders(connector, caller?.headers ?? {});
      const fields = Object.entries(headers);
      if (caller === undefined || fields.length === 0) return undefined;
      deps.redactor.taint(fields.flatMap(([name, value]) => (NO_SECRET.includes(name) ? [] : textsOf(value))));
      const hmac = createHmac('sha256', secret).update(canonicalJson([connector.id, caller.principal.id, headers]));
      const key = hmac.digest('base64url');
      const known = entries.get(key);
      const entry = known ?? { connection: connect(connector, caller, headers), connector, users: 0 };
      if (connector.revision > entry.connector.revision) entry.connector = connector;
      entry.users += 1;
      entries.delete(key);
      entries.set(key, entry);
      trim();
      return work(entry.connection).finally(() => {
        entry.users -= 1;
      });
    },
    all: () => [...entries.values()],
    async retire(connectorId, cause) {
      const retired = [...entries].filter(([, { connector }]) => connector.id === connectorId);
      for (const [key, { users }] of retired) if (users === 0) entries.delete(key);
      await Promise.all(retired.map(([, { connection }]) => connection.retire(cause)));
    },
    async cut(connectorId, cause) {
      const cut = [...entries].filter(([, { connector }]) => connector.id === connectorId);
      for (const [key] of cut) entries.delete(key);
      await Promise.all(cut.map(([, { connection }]) => connection.disable(cause)));
    },
    async dispose(connectorId) {
      const gone = [...entries].filter(([, { connector }]) => connector.id === connectorId);
      for (const [key] of gone) entries.delete(key);
      await Promise.all(gone.map(([, { connection }]) => connection.dispose()));
    },
    forgetUnused(idleMs) {
      for (const [key, { connection, users }] of entries) {
        const unused = users === 0 && connection.current() === undefined;
        if (unused && deps.now() - connection.lastUsed() >= idleMs) entries.delete(key);
      }
    },
  };
}

/** The octets as they came, and the UTF-8 text they may be. */
function textsOf(octets: string): string[] {
  return [octets, Buffer.from(octets, 'latin1').toString('utf8')];
}

const NOT_STORED = Object.freeze({
  save: async () => undefined,
  state: async () => undefined,
  states: async () => [],
  deleteOf: async () => undefined,
});
const NO_TOOLS: Pick<McpToolStore, 'replace' | 'list'> = Object.freeze({
  replace: async () => undefined,
  list: async () => [],
});
