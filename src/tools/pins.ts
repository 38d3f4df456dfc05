import type { JsonObject } from '../json.ts';
import type { DiscoveredTool } from '../mcp/types.ts';
import type { ToolPin, ToolPinStore } from '../store/tool-pins.ts';
import type { EventSink } from '../telemetry/events.ts';
import type { Logger } from '../telemetry/logger.ts';
import { changedMembers, pinnedDefinition, visible } from './definition-difference.ts';
import type { ToolTrust } from './tool-policy.ts';

export interface ToolPinsDeps {
  readonly store: ToolPinStore;
  readonly events: EventSink;
  readonly log: Logger;
}

/** A tool as some server defines it now. */
export interface MetTool {
  /** Connector that the calls go to. */
  readonly connectorId: string;
  readonly tool: DiscoveredTool;
}

/** What a definition is to an agent: the pinned one, another one, or that of a tool which came later. */
export type PinState = 'unchanged' | 'changed' | 'new';

export interface PinVerdict {
  readonly state: PinState;
  /** Of a changed one: the members that differ. */
  readonly members: readonly string[];
  /** Of a changed one: what the pinned definition said. */
  readonly annotations?: JsonObject | undefined;
}

export interface PinReview {
  of(connectorId: string, tool: string): PinVerdict;
}

export interface ToolPins {
  /**
   * Compares definitions with the pinned ones. Those of a connector of which nothing is pinned yet are pinned; of others,
   * tools without a pin are `new`, with `warn` they are pinned. What is met for the first time is logged and told as an event.
   */
  review(agentId: string, trust: ToolTrust, met: readonly MetTool[]): Promise<PinReview>;
  /** Compares as `review` does and trusts nothing: what has no pin is `new`, whatever else is pinned. */
  check(agentId: string, trust: ToolTrust, met: readonly MetTool[]): Promise<PinReview>;
  /** Pins definitions of tools that have no pin, whatever else is pinned of their connectors. */
  adopt(agentId: string, tools: readonly MetTool[]): Promise<void>;
  /** Drops the pins of an agent, or those of some connectors in it. */
  forget(agentId: string, connectorIds?: readonly string[]): Promise<void>;
}

const UNCHANGED: PinVerdict = Object.freeze({ state: 'unchanged', members: [] });
const NEW: PinVerdict = Object.freeze({ state: 'new', members: [] });
const SHOWN_TOOLS = 20;

/** Keeps the definitions that agents trust, and notices others. */
export function createToolPins({ store, events, log }: ToolPinsDeps): ToolPins {
  async function index(agentId: string): Promise<Map<string, ToolPin>> {
    return new Map((await store.list(agentId)).map((pin) => [key(pin.connectorId, pin.tool), pin]));
  }

  /** Logs and tells once what this definition is to the agent. */
  async function notice(
    agentId: string,
    trust: ToolTrust,
    { connectorId, tool }: MetTool,
    { state, members }: PinVerdict,
  ) {
    const { name, hash } = tool;
    if (!(await store.note(agentId, { connectorId, tool: name, hash, definition: pinnedDefinition(tool) }))) return;
    const shown = visible(name).slice(0, 200);
    const what =
      state === 'new'
        ? 'appeared after the tools of its connector were pinned'
        : `is not as it was pinned: its ${members.join(', ')} changed`;
    const then = trust === 'block' ? 'it is not offered until somebody approves it' : 'it is offered all the same';
    log.warn({ agentId, connectorId, tool: shown, hash, state, trust }, `MCP tool ${shown} ${what}; ${then}`);
    events.publish({
      type: 'pin',
      data: { agent_id: agentId, connector_id: connectorId, tool: shown, state, trust, members: [...members], hash },
      scope: { connectorId },
    });
  }

  async function verdicts(agentId: string, pins: Map<string, ToolPin>, met: readonly MetTool[]) {
    const pinned = ({ connectorId, tool }: MetTool) => pins.get(key(connectorId, tool.name))?.hash;
    const changed = met.filter((each) => pinned(each) !== undefined && pinned(each) !== each.tool.hash);
    const full = changed.length === 0 ? [] : await store.full(agentId);
    const definitions = new Map(full.map((pin) => [key(pin.connectorId, pin.tool), pin.definition ?? {}]));
    return new Map(
      met.map((each): [string, PinVerdict] => {
        const at = key(each.connectorId, each.tool.name);
        if (pinned(each) === undefined) return [at, NEW];
        if (!changed.includes(each)) return [at, UNCHANGED];
        const { annotations, ...rest } = definitions.get(at) ?? {};
        const before = { ...rest, ...(annotations !== undefined && { annotations }) };
        const members = changedMembers(before, pinnedDefinition(each.tool));
        return [at, { state: 'changed', members, annotations: annotations as JsonObject | undefined }];
      }),
    );
  }

  async function adopt(agentId: string, tools: readonly MetTool[]): Promise<void> {
    if (tools.length === 0) return;
    await store.pin(
      agentId,
      tools.map(({ connectorId, tool }) => ({
        connectorId,
        tool: tool.name,
        hash: tool.hash,
        definition: pinnedDefinition(tool),
      })),
    );
    const names = tools.slice(0, SHOWN_TOOLS).map(({ tool }) => visible(tool.name).slice(0, 200));
    const connectorIds = [...new Set(tools.map(({ connectorId }) => connectorId))];
    log.info({ agentId, connectorIds, tools: names }, `MCP tools pinned for agent ${agentId}: ${tools.length}`);
  }

  async function compared(
    agentId: string,
    trust: ToolTrust,
    pins: Map<string, ToolPin>,
    met: readonly MetTool[],
  ): Promise<PinReview> {
    const found = await verdicts(agentId, pins, met);
    const noted = met.filter(({ connectorId, tool }) => {
      const at = key(connectorId, tool.name);
      return found.get(at)?.state !== 'unchanged' && pins.get(at)?.seenHash !== tool.hash;
    });
    await Promise.all(
      noted.map((each) => notice(agentId, trust, each, found.get(key(each.connectorId, each.tool.name)) ?? UNCHANGED)),
    );
    return { of: (connectorId, tool) => found.get(key(connectorId, tool)) ?? UNCHANGED };
  }

  return {
    async review(agentId, trust, met) {
      if (met.length === 0) return { of: () => UNCHANGED };
      let pins = await index(agentId);
      const trusted = new Set([...pins.values()].flatMap((pin) => (pin.hash === undefined ? [] : pin.connectorId)));
      const unpinned = met.filter(({ connectorId, tool }) => pins.get(key(connectorId, tool.name))?.hash === undefined);
      const late = unpinned.filter(({ connectorId }) => trusted.has(connectorId));
      const adopted = trust === 'warn' ? unpinned : unpinned.filter((each) => !late.includes(each));
      if (trust === 'warn') {
        for (const each of late) await notice(agentId, trust, each, NEW);
      }
      if (adopted.length > 0) {
        await adopt(agentId, adopted);
        pins = await index(agentId);
      }
      return compared(agentId, trust, pins, met);
    },

    async check(agentId, trust, met) {
      const pins = await index(agentId);
      const pinned = met.filter(({ connectorId, tool }) => pins.get(key(connectorId, tool.name))?.hash !== undefined);
      const { of } = await compared(agentId, trust, pins, pinned);
      const known = new Set(pinned.map(({ connectorId, tool }) => key(connectorId, tool.name)));
      return { of: (connectorId, tool) => (known.has(key(connectorId, tool)) ? of(connectorId, tool) : NEW) };
    },
    adopt,
    forget: (agentId, connectorIds) => store.deleteOf(agentId, connectorIds),
  };
}

function key(connectorId: string, tool: string): string {
  return `${connectorId}\0${tool}`;
}
