import { visible } from './definition-difference.ts';
import type { ToolVerdict } from './verdicts.ts';

const SHOWN = 5;

/**
 * What a person should know about the pins of one connector in an agent: at most one sentence about tools that are offered
 * though they changed, and one about those that are blocked.
 */
export function pinWarnings(
  agentId: string,
  connector: { readonly id: string; readonly name: string },
  tools: readonly { readonly name: string; readonly verdict: ToolVerdict }[],
): string[] {
  const from = `of connector "${connector.name}" (${connector.id})`;
  const pins = `/_plugins/_ml/agents/${agentId}/_pins`;
  const changed = tools.flatMap(({ name, verdict: { changed: members } }) =>
    members === undefined ? [] : `${shown(name)} (${members.join(', ')})`,
  );
  const blocked = tools.flatMap(({ name, verdict: { withheld } }) =>
    withheld === undefined || withheld.code === 'denied_by_policy'
      ? []
      : `${shown(name)} (${withheld.code === 'pin_new' ? 'new' : 'changed'})`,
  );
  return [
    ...(changed.length === 0
      ? []
      : [`Tools ${from} changed since they were pinned: ${listed(changed)}. GET ${pins} shows how`]),
    ...(blocked.length === 0
      ? []
      : [
          `Tools ${from} are blocked until they are approved: ${listed(blocked)}. Approve them by POST ${pins}/_approve`,
        ]),
  ];
}

function shown(name: string): string {
  return visible(name).slice(0, 64);
}

function listed(items: readonly string[]): string {
  const more = items.length - SHOWN;
  return more > 0 ? `${items.slice(0, SHOWN).join(', ')} and ${more} more` : items.join(', ');
}
