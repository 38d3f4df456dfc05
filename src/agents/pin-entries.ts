import type { JsonObject } from '../json.ts';
import type { FullToolPin } from '../store/tool-pins.ts';
import { type DefinitionDifference, definitionDifferences, pinnedDefinition } from '../tools/definition-difference.ts';
import type { KnownTools } from '../tools/known-tools.ts';
import { isWanted } from '../tools/sources.ts';

/** `absent`: its server does not list it any more. */
type PinnedState = 'unchanged' | 'changed' | 'new' | 'absent';

/** One tool of `GET /agents/{id}/_pins`; times are epoch milliseconds. */
export interface ToolPinEntry {
  readonly connector_id: string;
  readonly connector_name: string;
  /** The server's own name. */
  readonly tool: string;
  /** Absent for a tool of a connector that is a fallback only, and for one that is gone. */
  readonly offered_as?: string;
  readonly state: PinnedState;
  /** Of the pinned definition; absent for a new one. */
  readonly hash?: string;
  /** Of the definition there is now, where it is another one. */
  readonly current_hash?: string;
  readonly pinned_time?: number;
  readonly approved_by?: string;
  readonly approved_time?: number;
  readonly differences?: readonly DefinitionDifference[];
  /** Differences beyond those shown. */
  readonly more_differences?: number;
}

/** A pin beside the definition there is now. */
export interface CurrentPin {
  readonly connectorId: string;
  readonly connectorName: string;
  readonly tool: string;
  readonly offeredAs?: string;
  readonly state: PinnedState;
  readonly pin: FullToolPin;
  /** Absent where there is none, or none is known. */
  readonly now?: { readonly hash: string; readonly definition: JsonObject };
}

/** Every tool the agent wants of these connectors, and every pin of one it wanted. */
export function currentPins(known: readonly KnownTools[], pins: readonly FullToolPin[]): CurrentPin[] {
  return known.flatMap((connector) => {
    const own = new Map(pins.flatMap((pin) => (pin.connectorId === connector.connectorId ? [[pin.tool, pin]] : [])));
    const listed = connector.tools.flatMap((tool) => (tool.wanted || tool.spare ? tool.definition.name : []));
    const names = new Set([...listed, ...own.keys()]);
    return [...names].flatMap((name) => currentPin(connector, name, own.get(name)) ?? []);
  });
}

function currentPin(
  { connectorId, connector, sources, tools }: KnownTools,
  name: string,
  pin: FullToolPin = { connectorId, tool: name, shown: {} },
): CurrentPin | undefined {
  const tool = tools.find(({ definition }) => definition.name === name);
  const unwanted = sources.length > 0 && !sources.some(({ filters }) => isWanted(name, filters));
  if (unwanted && tool?.spare !== true) return undefined;
  const now = definitionNow(connector?.passthroughHeaders ?? [], tool, pin);
  const facts = {
    connectorId,
    connectorName: connector?.name ?? connectorId,
    tool: name,
    ...(tool?.offeredAs !== undefined && { offeredAs: tool.offeredAs }),
    pin,
    ...(now && { now }),
  };
  if (pin.hash === undefined) return now && { ...facts, state: 'new' };
  if (now === undefined) return { ...facts, state: tools.length === 0 ? 'unchanged' : 'absent' };
  return { ...facts, state: now.hash === pin.hash ? 'unchanged' : 'changed' };
}

/**
 * Callers whose own headers go on to a server have lists of their own, which are not stored: what one of them met counts
 * there.
 */
function definitionNow(
  passthroughHeaders: readonly string[],
  tool: KnownTools['tools'][number] | undefined,
  { seenHash, seenDefinition }: FullToolPin,
): CurrentPin['now'] {
  if (passthroughHeaders.length > 0 && seenHash !== undefined && seenDefinition !== undefined) {
    return { hash: seenHash, definition: seenDefinition };
  }
  if (tool === undefined || !tool.present) return undefined;
  return { hash: tool.definition.hash, definition: pinnedDefinition(tool.definition) };
}

/** A pin as the API shows it. */
export function shownPin({ connectorId, connectorName, tool, offeredAs, state, pin, now }: CurrentPin): ToolPinEntry {
  const differs = state === 'changed' || state === 'new';
  const { differences, more } =
    differs && now ? definitionDifferences(pin.definition ?? {}, now.definition) : { differences: [], more: 0 };
  return {
    connector_id: connectorId,
    connector_name: connectorName,
    tool,
    ...(offeredAs !== undefined && { offered_as: offeredAs }),
    state,
    ...(pin.hash !== undefined && { hash: pin.hash }),
    ...(differs && now && { current_hash: now.hash }),
    ...(pin.pinnedTime !== undefined && { pinned_time: pin.pinnedTime }),
    ...(pin.approvedBy !== undefined && { approved_by: pin.approvedBy }),
    ...(pin.approvedTime !== undefined && { approved_time: pin.approvedTime }),
    ...(differences.length > 0 && { differences }),
    ...(more > 0 && { more_differences: more }),
  };
}
