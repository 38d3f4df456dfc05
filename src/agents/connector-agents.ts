import type { Connectors } from '../connectors/types.ts';
import type { Documents } from '../store/documents.ts';

export interface ConnectorAgentsDeps {
  readonly documents: Pick<Documents, 'namesReferencing' | 'names'>;
  readonly connectors: Pick<Connectors, 'joinedTo' | 'joinsAgents'>;
}

/** An agent as the status of a connector names it. */
export interface ConnectorAgent {
  readonly agent_id: string;
  readonly name: string;
}

const MAX_AGENTS = 100;

/**
 * Which agents get tools of which connectors: those that name one, then those that a declaration joins it to; at most 100 of
 * each connector. A fixed number of queries, however many connectors are asked for; all agents are read only where a declaration
 * joins some.
 */
export function createConnectorAgents({
  documents,
  connectors,
}: ConnectorAgentsDeps): (connectorIds: readonly string[]) => Promise<ReadonlyMap<string, readonly ConnectorAgent[]>> {
  return async (connectorIds) => {
    const [naming, all] = await Promise.all([
      documents.namesReferencing('agent', { kind: 'connector', ids: connectorIds }),
      connectors.joinsAgents(connectorIds) ? documents.names('agent') : [],
    ]);
    const agents = new Map(connectorIds.map((id) => [id, new Map<string, string>()]));
    for (const [connectorId, named] of naming) for (const { id, name } of named) agents.get(connectorId)?.set(id, name);
    for (const agent of all) {
      for (const connectorId of connectors.joinedTo(agent)) agents.get(connectorId)?.set(agent.id, agent.name);
    }
    return new Map([...agents].map(([connectorId, named]) => [connectorId, shown(named)]));
  };
}

function shown(named: ReadonlyMap<string, string>): ConnectorAgent[] {
  return [...named].slice(0, MAX_AGENTS).map(([agent_id, name]) => ({ agent_id, name }));
}
