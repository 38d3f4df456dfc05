import { INVALID_ARGUMENT } from '../errors.ts';
import type { Principal } from '../identity/principal.ts';
import type { JsonObject } from '../json.ts';

/** In whose name a run is made, and by which agent. */
export interface Standing {
  readonly principal: Principal;
  /** The agent's document. */
  readonly agent: JsonObject;
}

export interface StandingsDeps {
  /** Somebody with the rights they have now; `undefined`: they cannot be known without signing in. */
  readonly principalOf: (id: string) => Promise<Principal | undefined>;
  /** @throws AGENT_NOT_FOUND, INVALID_ARGUMENT, FORBIDDEN */
  readonly agentFor: (principal: Principal, agentId: string) => Promise<JsonObject>;
}

/** Looks up again what a run was begun with: whoever waits may find other rights, or another agent. */
export interface Standings {
  /** As it is now, for a caller who is known by an id only. @throws what `renewed` throws */
  of(principalId: string, agentId: string): Promise<Standing>;
  /**
   * As it is now. A caller who signed in with a token of a provider keeps the rights that came with it: nothing else is
   * known of them. @throws INVALID_ARGUMENT (the caller is gone, or may not execute agents), AGENT_NOT_FOUND, FORBIDDEN
   */
  renewed(principal: Principal, agentId: string): Promise<Standing>;
}

/** Why a run ends whose standing is lost, as callers are told. */
export const CANNOT_GO_ON = 'The run cannot go on';

export function createStandings({ principalOf, agentFor }: StandingsDeps): Standings {
  async function standing(id: string, principal: Principal | undefined, agentId: string): Promise<Standing> {
    if (principal === undefined) {
      throw new INVALID_ARGUMENT(
        `${CANNOT_GO_ON}: its caller ${id} is gone, or is only known by a token. Ask again with an API key`,
      );
    }
    if (!principal.access.allows('agent:execute')) {
      throw new INVALID_ARGUMENT(`${CANNOT_GO_ON}: its caller ${id} may not execute agents any more`);
    }
    return { principal, agent: await agentFor(principal, agentId) };
  }

  return {
    of: async (id, agentId) => standing(id, await principalOf(id), agentId),
    async renewed(principal, agentId) {
      const { id, kind } = principal;
      return standing(id, kind === 'token' ? principal : await principalOf(id), agentId);
    },
  };
}
