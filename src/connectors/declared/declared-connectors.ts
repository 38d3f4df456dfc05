import { CONNECTOR_NOT_FOUND, FORBIDDEN, INVALID_ARGUMENT } from '../../errors.ts';
import type { EndpointPolicy } from '../../outbound/types.ts';
import type { Audit } from '../../telemetry/audit.ts';
import { policyForOrigin } from '../endpoint-policy.ts';
import type { Connector, Connectors, DeclaredServer } from '../types.ts';
import type { DeclaredServers } from './declared-servers.ts';

export interface DeclaredConnectorsDeps {
  readonly declared: DeclaredServers;
  /** As it is in force. */
  readonly policy: () => EndpointPolicy;
  readonly audit: Audit;
}

/** Who starts the servers of the configuration file, for the audit. */
const SYSTEM = 'system';

/**
 * The stored connectors with those of the configuration file beside them: read-only, visible to all, switched by
 * administrators. A stored connector keeps its id; the server of that name is then reported by `list` with a problem.
 */
export function withDeclared(
  stored: Omit<Connectors, 'localServer' | 'joinedTo' | 'joinsAgents'>,
  { declared, policy, audit }: DeclaredConnectorsDeps,
): Connectors {
  const joining = new Set(declared.all.filter(({ declared: entry }) => entry?.agents.length).map(({ id }) => id));
  /** Names of declared servers that stored connectors hold, as it was seen last. */
  const taken = new Set<string>();

  function noted(id: string, isTaken: boolean): void {
    if (isTaken) taken.add(id);
    else taken.delete(id);
  }

  async function find(id: string): Promise<Connector | undefined> {
    const kept = await stored.find(id);
    const own = declared.find(id);
    if (own !== undefined) noted(id, kept !== undefined);
    return kept ?? own;
  }

  /** @throws INVALID_ARGUMENT where it is the file that says what this connector is */
  async function requireStored(id: string): Promise<void> {
    if (declared.find(id) === undefined || (await find(id))?.declared === undefined) return;
    throw new INVALID_ARGUMENT(
      `Connector ${id} is declared in the configuration file. Change it there, and restart the server.`,
    );
  }

  return {
    ...stored,
    find,
    async get(principal, id) {
      const own = (await find(id))?.declared && declared.document(id);
      return own ?? stored.get(principal, id);
    },
    async update(principal, id, body) {
      await requireStored(id);
      return stored.update(principal, id, body);
    },
    async delete(principal, id) {
      await requireStored(id);
      return stored.delete(principal, id);
    },
    requireOwned(principal, verb, connector) {
      if (connector.declared === undefined) return stored.requireOwned(principal, verb, connector);
      if (principal.access.admin) return;
      throw new FORBIDDEN(
        `You don't have permission to ${verb} the connector, connector id: ${connector.id}. It is declared in the configuration file: administrators switch it.`,
      );
    },
    async load(id) {
      const connector = await find(id);
      if (connector === undefined) throw new CONNECTOR_NOT_FOUND(id);
      return connector;
    },
    async list() {
      const all = await stored.list();
      const ids = new Set(all.map(({ id }) => id));
      for (const { id } of declared.all) noted(id, ids.has(id));
      return [...all, ...declared.all.map((connector) => (ids.has(connector.id) ? withoutName(connector) : connector))];
    },
    async mcpEndpoint(connector) {
      if (connector.declared === undefined) return stored.mcpEndpoint(connector);
      const { url, headers } = declared.endpoint(connector);
      const { origin } = new URL(url);
      let judged = policy();
      let ofOrigin = policyForOrigin(judged, origin);
      return {
        url,
        headers,
        origins: [origin],
        get policy() {
          if (judged !== policy()) {
            judged = policy();
            ofOrigin = policyForOrigin(judged, origin);
          }
          return ofOrigin;
        },
      };
    },
    async localServer(connector) {
      const local = declared.local(connector);
      await audit.record({
        principal: SYSTEM,
        action: 'process.start',
        outcome: 'attempted',
        connectorId: connector.id,
        detail: JSON.stringify({ argv: [local.command, ...local.args], cwd: local.cwd }),
      });
      return local;
    },
    joinsAgents: (ids) => ids.some((id) => joining.has(id) && !taken.has(id)),
    joinedTo: ({ id, name }) =>
      declared.all
        .filter((connector) => !taken.has(connector.id))
        .filter(({ declared: entry }) => entry?.agents.some((agent) => agent === '*' || agent === id || agent === name))
        .map((connector) => connector.id),
  };
}

function withoutName(connector: Connector): Connector {
  const problem = {
    code: 'id_taken',
    message: `Server ${JSON.stringify(connector.name)} of the configuration file is not served: a stored connector has that id.`,
    remedy: 'Give the server another name in the configuration file and restart, or delete the stored connector.',
  } as const;
  const declared: DeclaredServer = { enabled: connector.declared?.enabled ?? true, agents: [], problem };
  return { ...connector, declared };
}
