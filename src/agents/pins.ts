import type { Connectors } from '../connectors/types.ts';
import { AGENT_NOT_FOUND, CONFLICT, INVALID_ARGUMENT, NOT_FOUND } from '../errors.ts';
import { ownerId } from '../identity/ownership.ts';
import type { Principal } from '../identity/principal.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../json.ts';
import type { Documents } from '../store/documents.ts';
import type { ToolPinStore } from '../store/tool-pins.ts';
import type { Audit } from '../telemetry/audit.ts';
import type { EventSink } from '../telemetry/events.ts';
import { visible } from '../tools/definition-difference.ts';
import type { ToolRegistry } from '../tools/registry.ts';
import { type CurrentPin, currentPins, shownPin, type ToolPinEntry } from './pin-entries.ts';

export interface AgentPinsDeps {
  readonly documents: Pick<Documents, 'get'>;
  readonly connectors: Pick<Connectors, 'visible'>;
  readonly registry: Pick<ToolRegistry, 'known'>;
  readonly store: Pick<ToolPinStore, 'full' | 'approve' | 'show'>;
  readonly events: EventSink;
  readonly audit: Audit;
}

export interface PinList {
  readonly pins: readonly ToolPinEntry[];
}

/** The pinned tool definitions of agents, and their approval. */
export interface AgentPins {
  /** Of the connectors that the principal may see, from the lists read last. @throws AGENT_NOT_FOUND */
  list(principal: Principal, agentId: string): Promise<PinList>;
  /**
   * Pins the definitions as they are now: `{"tools": ["<name>" | {"tool", "hash"?, "connector_id"?} | "*"]}`. All or none.
   * What the principal looked at before must still be the same, and what `hash` says in any case.
   * @throws AGENT_NOT_FOUND, INVALID_ARGUMENT, NOT_FOUND (no such tool), CONFLICT (another definition by now)
   */
  approve(principal: Principal, agentId: string, body: JsonObject): Promise<PinList>;
}

interface Approval {
  readonly name: string;
  readonly hash?: string;
  readonly connectorId?: string;
}

const MAX_APPROVALS = 1000;

/** Pins as people look at them. */
export function createAgentPins(deps: AgentPinsDeps): AgentPins {
  const { store, events, audit } = deps;

  async function current(principal: Principal, agentId: string): Promise<CurrentPin[]> {
    const agent = await deps.documents.get('agent', agentId);
    if (agent === undefined) throw new AGENT_NOT_FOUND(agentId);
    const known = await deps.registry.known(agentId, agent.body);
    const visibleOnes = known.filter(
      ({ connector }) => connector !== undefined && deps.connectors.visible(principal, connector),
    );
    return currentPins(visibleOnes, await store.full(agentId));
  }

  async function list(principal: Principal, agentId: string): Promise<PinList> {
    const pins = await current(principal, agentId);
    const viewer = ownerId(principal);
    const looked = pins.flatMap(({ state, connectorId, tool, now, pin }) => {
      const isNews = (state === 'changed' || state === 'new') && now !== undefined && pin.shown[viewer] !== now.hash;
      return isNews ? { connectorId, tool, hash: now.hash } : [];
    });
    if (looked.length > 0) await store.show(agentId, viewer, looked);
    return { pins: pins.map(shownPin) };
  }

  return {
    list,

    async approve(principal, agentId, body) {
      const wanted = approvalsOf(body.tools);
      const pins = await current(principal, agentId);
      const chosen = new Map(
        wanted
          .flatMap((approval) => select(pins, approval, agentId))
          .map((pin) => [`${pin.connectorId}\0${pin.tool}`, pin]),
      );
      const approved = [...chosen.values()].map((pin) => {
        const { now } = pin;
        if (now === undefined) {
          throw new INVALID_ARGUMENT(
            `tools: ${quoted(pin.tool)} cannot be approved: its server does not list it any more, so there is no definition to approve`,
          );
        }
        const seen = pin.pin.shown[ownerId(principal)];
        if (seen !== undefined && seen !== now.hash) throw changedMeanwhile(agentId, pin.tool, now.hash);
        return { connectorId: pin.connectorId, tool: pin.tool, ...now };
      });
      for (const each of approved) {
        const { connectorId, tool, hash } = each;
        await store.approve(agentId, each, principal.name);
        events.publish({
          type: 'pin',
          data: {
            agent_id: agentId,
            connector_id: connectorId,
            tool: visible(tool).slice(0, 200),
            state: 'approved',
            hash,
          },
          scope: { connectorId },
        });
        const facts = { agentId, connectorId, tool, detail: hash };
        await audit.record({ principal: principal.id, action: 'agent.approve_tool', outcome: 'ok', ...facts });
      }
      return list(principal, agentId);
    },
  };
}

/** The pins that one item of a request means. @throws NOT_FOUND, INVALID_ARGUMENT, CONFLICT */
function select(pins: readonly CurrentPin[], { name, hash, connectorId }: Approval, agentId: string): CurrentPin[] {
  const here = pins.filter((pin) => connectorId === undefined || pin.connectorId === connectorId);
  if (name === '*') return here.filter(({ state, now }) => now !== undefined && state !== 'unchanged');
  const offered = here.filter((pin) => pin.offeredAs === name);
  const found = offered.length > 0 ? offered : here.filter((pin) => pin.tool === name);
  const [pin, other] = found;
  if (pin === undefined) {
    throw new NOT_FOUND(
      `Agent ${agentId} has no pinned tool named ${quoted(name)}; GET /_plugins/_ml/agents/${agentId}/_pins lists them`,
    );
  }
  if (other !== undefined) {
    throw new INVALID_ARGUMENT(
      `tools: ${quoted(name)} is the name of tools of several connectors; give the name it is offered under, or {"tool","connector_id"}`,
    );
  }
  const held = pin.now?.hash ?? pin.pin.hash;
  if (hash !== undefined && hash !== held) throw changedMeanwhile(agentId, pin.tool, held);
  return [pin];
}

function changedMeanwhile(agentId: string, tool: string, hash: string | undefined): Error {
  return new CONFLICT(
    `The definition of tool ${quoted(tool)} is another one by now (hash ${hash ?? 'none'}), nothing was approved. ` +
      `Look at GET /_plugins/_ml/agents/${agentId}/_pins again, then approve it`,
  );
}

function approvalsOf(value: JsonValue | undefined): Approval[] {
  if (!Array.isArray(value) || value.length === 0) {
    throw new INVALID_ARGUMENT(
      'tools must be an array of tool names, of {"tool","hash"}, or ["*"] for all that changed',
    );
  }
  if (value.length > MAX_APPROVALS) throw new INVALID_ARGUMENT(`tools holds more than ${MAX_APPROVALS} items`);
  return value.map((item, index) => {
    if (typeof item === 'string' && item !== '') return { name: item };
    const { tool, hash, connector_id: connectorId } = isJsonObject(item) ? item : {};
    if (typeof tool !== 'string' || tool === '') {
      throw new INVALID_ARGUMENT(`tools[${index}] must be the name of a tool, or an object with tool and hash`);
    }
    if (hash !== undefined && typeof hash !== 'string')
      throw new INVALID_ARGUMENT(`tools[${index}].hash must be a string`);
    if (connectorId !== undefined && typeof connectorId !== 'string') {
      throw new INVALID_ARGUMENT(`tools[${index}].connector_id must be the id of a connector`);
    }
    return {
      name: tool,
      ...(hash !== undefined && { hash }),
      ...(connectorId !== undefined && { connectorId }),
    };
  });
}

function quoted(name: string): string {
  return JSON.stringify(visible(name).slice(0, 200));
}
