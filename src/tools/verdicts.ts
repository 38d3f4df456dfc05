import type { JsonObject } from '../json.ts';
import type { PinReview } from './pins.ts';
import {
  type PermissionVerdict,
  permissionOf,
  strictest,
  type ToolPermission,
  type ToolPolicy,
} from './tool-policy.ts';

/** Why a tool that an agent wants is not offered. */
export type WithheldCode = 'denied_by_policy' | 'pin_changed' | 'pin_new';

export interface ToolToJudge {
  /** Connector the agent names. */
  readonly connectorId: string;
  /** Connector that calls go to. */
  readonly target: string;
  /** Connector that calls may go to when they fail there. */
  readonly fallbackConnectorId?: string | undefined;
  readonly name: string;
  readonly offeredAs: string | undefined;
  readonly annotations: JsonObject | undefined;
}

export interface ToolVerdict extends PermissionVerdict {
  readonly withheld?: { readonly code: WithheldCode; readonly message: string };
  /** Offered, though it is not as it was pinned: the members that differ. */
  readonly changed?: readonly string[];
}

/**
 * What an agent may do with a tool. A rule that names one of the connectors a call may go to holds for all of them; what a
 * server changed in its annotations loosens nothing until it is approved: the strictest permission counts.
 */
export function judge(tool: ToolToJudge, policy: ToolPolicy, byDefault: ToolPermission, pins: PinReview): ToolVerdict {
  const pin = pins.of(tool.target, tool.name);
  const said = pin.state === 'changed' ? [tool.annotations, pin.annotations] : [tool.annotations];
  const connectorIds = new Set([tool.connectorId, tool.target, tool.fallbackConnectorId ?? tool.target]);
  const verdicts = [...connectorIds].flatMap((connectorId) =>
    said.map((annotations) => permissionOf({ ...tool, connectorId, annotations }, policy, byDefault)),
  );
  const [first = { permission: byDefault }, ...others] = verdicts;
  const verdict = strictest([first, ...others]);
  if (verdict.permission === 'deny') {
    return { ...verdict, withheld: { code: 'denied_by_policy', message: deniedBy(verdict) } };
  }
  if (pin.state === 'unchanged') return verdict;
  if (policy.trust === 'block') {
    const code = pin.state === 'new' ? 'pin_new' : 'pin_changed';
    return { ...verdict, withheld: { code, message: blockedBecause(pin.members) } };
  }
  return pin.state === 'changed' ? { ...verdict, changed: pin.members } : verdict;
}

/** Where a denial comes from, as a person is told. */
function deniedBy({ rule }: PermissionVerdict): string {
  return rule === undefined
    ? 'it is denied by the setting plugins.ml_commons.tool_permission_default'
    : `it is denied by tool_permissions[${rule}] of the agent`;
}

function blockedBecause(members: readonly string[]): string {
  const why =
    members.length === 0
      ? 'it appeared after the tools of its connector were pinned'
      : `its ${members.join(', ')} changed`;
  return `it is blocked until somebody approves it: ${why}`;
}
