import type { Settings } from '../settings/types.ts';
import type { McpToolStore } from '../store/mcp-tools.ts';
import { nameTools } from './offered-names.ts';
import type { ToolPins } from './pins.ts';
import type { FoundTool, SourceTools } from './source-tools.ts';
import { PERMISSION_DEFAULT, permissionDefault, type ToolPolicy } from './tool-policy.ts';
import { judge, type ToolVerdict } from './verdicts.ts';

/** Tools that a model takes. */
export const MAX_OFFERED = 128;

export interface PlanDeps {
  readonly mcpTools: Pick<McpToolStore, 'offeredNames' | 'claimName'>;
  readonly settings: Pick<Settings, 'text'>;
  readonly pins: Pick<ToolPins, 'review'>;
}

/** A found tool with its name and what the agent may do with it. */
export interface PlannedTool {
  readonly found: FoundTool;
  readonly offeredAs: string;
  readonly verdict: ToolVerdict;
}

/** Names and judges what was found; of tools that several entries name, as the first of them says. */
export async function planTools(
  agentId: string,
  lists: readonly SourceTools[],
  policy: ToolPolicy,
  { mcpTools, settings, pins }: PlanDeps,
): Promise<PlannedTool[]> {
  const found = distinct(lists.flatMap((list) => list.found));
  const met = distinct(lists.flatMap((list) => list.met));
  const byDefault = permissionDefault(settings.text(PERMISSION_DEFAULT));
  const [names, review] = await Promise.all([
    nameTools(
      agentId,
      found.map(({ source, from, tool }) => ({
        connectorId: source.connectorId,
        connectorName: from.name,
        tool: tool.name,
        declared: from.declared,
      })),
      mcpTools,
    ),
    pins.review(
      agentId,
      policy.trust,
      met.map(({ target, tool }) => ({ connectorId: target, tool })),
    ),
  ]);
  return found.flatMap((each) => {
    const { source, target, tool } = each;
    const { connectorId, fallbackConnectorId } = source;
    const offeredAs = names.of(connectorId, tool.name);
    if (offeredAs === undefined) return [];
    const { name, annotations } = tool;
    const subject = { connectorId, target, fallbackConnectorId, name, offeredAs, annotations };
    return { found: each, offeredAs, verdict: judge(subject, policy, byDefault, review) };
  });
}

/** Whether a run offers a tool: `selected` holds offered or own names, `undefined` selects all. */
export function isSelected({ found, offeredAs }: PlannedTool, selected: readonly string[] | undefined): boolean {
  return selected === undefined || selected.includes(offeredAs) || selected.includes(found.tool.name);
}

function distinct(tools: readonly FoundTool[]): FoundTool[] {
  const byKey = new Map<string, FoundTool>();
  for (const found of tools) {
    const key = `${found.source.connectorId}\0${found.tool.name}`;
    if (!byKey.has(key)) byKey.set(key, found);
  }
  return [...byKey.values()];
}
