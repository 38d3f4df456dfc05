import { keepersFirst, offeredName, prefixOf } from '../mcp/tool-names.ts';
import { UniqueViolation } from '../store/database.ts';
import type { McpToolStore, OfferedName } from '../store/mcp-tools.ts';

export interface ToolToName {
  readonly connectorId: string;
  readonly connectorName: string;
  readonly tool: string;
  /** Of a declared server: offered as `<server>_<tool>` always. */
  readonly declared?: boolean;
}

/** Names of tools towards the model of one agent. */
export interface OfferedNames {
  of(connectorId: string, tool: string): string | undefined;
}

const ROUNDS = 5;

/**
 * Gives every tool its name in the agent: the stored one, or a new one that is stored now. Stored names stay, so the
 * newcomer of a collision gets the prefix and a name means the same after a restart. A tool whose own name begins with the
 * prefix of another connector gets that of its own.
 * @throws UniqueViolation when other processes kept taking the same names at the same time.
 */
export async function nameTools(
  agentId: string,
  tools: readonly ToolToName[],
  store: Pick<McpToolStore, 'offeredNames' | 'claimName'>,
): Promise<OfferedNames> {
  const pretends = pretendsAmong(tools);
  for (let round = 1; ; round += 1) {
    const stored = await store.offeredNames(agentId);
    const names = new Map(stored.map((name) => [key(name.connectorId, name.tool), name.offeredAs]));
    const taken = new Set(stored.map((name) => name.offeredAs));
    try {
      for (const { connectorId, connectorName, tool, declared = false } of inTurn(tools, pretends)) {
        if (names.has(key(connectorId, tool))) continue;
        const offeredAs = offeredName({
          connectorName,
          tool,
          forcePrefix: declared || pretends({ connectorId, connectorName, tool }),
          isTaken: (name) => taken.has(name),
        });
        const claim: OfferedName = { offeredAs, connectorId, tool };
        await store.claimName(agentId, claim);
        names.set(key(connectorId, tool), offeredAs);
        taken.add(offeredAs);
      }
      return { of: (connectorId, tool) => names.get(key(connectorId, tool)) };
    } catch (error) {
      if (!(error instanceof UniqueViolation) || round === ROUNDS) throw error;
    }
  }
}

/** Names that are given whatever else there is come first, altered ones last. */
function inTurn(tools: readonly ToolToName[], pretends: (tool: ToolToName) => boolean): ToolToName[] {
  const rest = tools.filter((tool) => !tool.declared && !pretends(tool));
  const pretenders = tools.filter((tool) => !tool.declared && pretends(tool));
  return [...tools.filter(({ declared }) => declared), ...keepersFirst(rest, ({ tool }) => tool), ...pretenders];
}

/** Whether a tool is named as if it belonged to another of the connectors. */
function pretendsAmong(tools: readonly ToolToName[]): (tool: ToolToName) => boolean {
  const prefixes = new Map(tools.map(({ connectorId, connectorName }) => [connectorId, prefixOf(connectorName)]));
  return ({ connectorId, tool }) => {
    const own = prefixes.get(connectorId);
    const name = tool.toLowerCase();
    return [...new Set(prefixes.values())].some((prefix) => prefix !== own && name.startsWith(prefix));
  };
}

function key(connectorId: string, tool: string): string {
  return `${connectorId}\0${tool}`;
}
