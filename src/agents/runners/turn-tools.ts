import type { Principal } from '../../identity/principal.ts';
import type { ResolvedTools } from '../../tools/tool.ts';
import type { Standing } from '../standing.ts';
import type { ConversationalDeps, OpenedTurn } from './turn.ts';

/** What a turn may call and in whose name, as it was looked up last. */
export interface TurnTools {
  readonly principal: Principal;
  readonly resolved: ResolvedTools;
  /** Looks it up again, with the caller, the agent and the rights of now. @throws why the turn cannot go on */
  renew(): Promise<void>;
}

/** Enough for a run that has its answer already. */
const NO_TOOLS: ResolvedTools = { tools: [], missing: [], withheld: [], warnings: [] };

/** `answered`: the final answer is there, and no tool is missed. @throws as `ToolRegistry.resolve` */
export async function openTurnTools(
  opened: OpenedTurn,
  { registry }: Pick<ConversationalDeps, 'registry'>,
  { answered }: { readonly answered: boolean },
): Promise<TurnTools> {
  const { agentId, settings, callerHeaders, signal, renewed } = opened;
  const resolve = ({ principal, agent }: Standing): Promise<ResolvedTools> =>
    registry.resolve({
      agentId,
      agent,
      parameters: settings.parameters,
      ...(settings.selectedTools ? { selected: settings.selectedTools } : {}),
      caller: { principal, ...(callerHeaders && { headers: callerHeaders }) },
      signal,
    });
  const resolving = resolve(opened);
  const resolved = await (answered ? resolving.catch(() => NO_TOOLS) : resolving);
  let current = { principal: opened.principal, resolved };
  let begun = 0;
  let newest = 0;
  return {
    get principal() {
      return current.principal;
    },
    get resolved() {
      return current.resolved;
    },
    async renew() {
      if (renewed === undefined) return;
      begun += 1;
      const turn = begun;
      const standing = await renewed();
      const again = { principal: standing.principal, resolved: await resolve(standing) };
      // Of several at the same time the one that began last knows best.
      if (turn < newest) return;
      newest = turn;
      current = again;
    },
  };
}
