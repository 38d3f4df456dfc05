import { UpstreamError } from '../errors.ts';
import { amended } from '../mcp/failures.ts';
import type { DiscoveredTool, McpSessions } from '../mcp/types.ts';
import type { Settings } from '../settings/types.ts';
import type { ToolPins } from './pins.ts';
import type { FoundTool } from './source-tools.ts';
import { isWanted } from './sources.ts';
import type { ToolContext } from './tool.ts';
import { PERMISSION_DEFAULT, permissionDefault, type ToolPolicy } from './tool-policy.ts';
import { judge } from './verdicts.ts';

/**
 * Says at the moment of a call why it must not be made; `undefined` when it may. @throws UpstreamError (nothing was sent)
 * when the definition has to be looked at and cannot be.
 */
export type CallGuard = (target: string, context: ToolContext) => Promise<string | undefined>;

export interface CallGuardDeps {
  readonly sessions: Pick<McpSessions, 'tools'>;
  readonly settings: Pick<Settings, 'text'>;
  readonly pins: Pick<ToolPins, 'check'>;
}

/** How a tool was offered. */
interface Offer {
  readonly offeredAs: string;
  readonly permission: 'allow' | 'ask';
}

/**
 * Between offer and call a definition may change, and so may the default permission. The definition is looked at again only
 * where something hangs on it: the pins when they block, the annotations when a rule names them. What nothing is pinned of is
 * refused where pins block, never pinned here: the agent may be gone, or want the connector no more.
 */
export function createCallGuard(
  agentId: string,
  found: FoundTool,
  offer: Offer,
  policy: ToolPolicy,
  { sessions, settings, pins }: CallGuardDeps,
): CallGuard {
  const { source, tool } = found;
  const looksAgain = policy.trust === 'block' || policy.usesAnnotations;

  async function listed(target: string, context: ToolContext): Promise<readonly DiscoveredTool[]> {
    const { principal, callerHeaders: headers, signal } = context;
    try {
      return (await sessions.tools(target, { signal, caller: { principal, ...(headers && { headers }) } })).tools;
    } catch (error) {
      throw error instanceof UpstreamError ? amended(error, { delivered: 'no' }) : error;
    }
  }

  return async (target, context) => {
    const tools = looksAgain ? await listed(target, context) : [tool];
    const current = tools.find(({ name }) => name === tool.name);
    if (current === undefined) {
      return policy.trust === 'block'
        ? `the tool ${offer.offeredAs} is blocked: its server no longer lists it, so nobody can tell what it does now`
        : undefined;
    }
    const met = tools
      .filter(({ name }) => isWanted(name, source.filters))
      .map((each) => ({ connectorId: target, tool: each }));
    const review = policy.trust === 'block' ? await pins.check(agentId, policy.trust, met) : TRUSTED;
    const { permission, withheld } = judge(
      {
        connectorId: source.connectorId,
        target,
        name: tool.name,
        offeredAs: offer.offeredAs,
        annotations: current.annotations,
      },
      policy,
      permissionDefault(settings.text(PERMISSION_DEFAULT)),
      review,
    );
    if (withheld !== undefined) return `the tool ${offer.offeredAs} was not called: ${withheld.message}`;
    if (permission === 'ask' && offer.permission !== 'ask') {
      return `the tool ${offer.offeredAs} was not called: it needs the approval of a person since this run began`;
    }
    return undefined;
  };
}

const TRUSTED = { of: () => ({ state: 'unchanged', members: [] }) as const };
