import { speaksMcp } from '../connectors/protocols.ts';
import type { Connector, Connectors } from '../connectors/types.ts';
import { type CauseCode, CONNECTOR_NOT_FOUND, FORBIDDEN, isCatalogueError, UpstreamError } from '../errors.ts';
import type { Principal } from '../identity/principal.ts';
import type { Authorization } from '../identity/types.ts';
import type { DiscoveredTool, McpCaller, McpSessions } from '../mcp/types.ts';
import type { McpToolStore } from '../store/mcp-tools.ts';
import type { Logger } from '../telemetry/logger.ts';
import { isWanted, type McpSource } from './sources.ts';
import type { MissingTools } from './tool.ts';

export interface FoundTool {
  readonly source: McpSource;
  /** Connector the calls go to: that of the source, or its fallback. */
  readonly target: string;
  /** The connector of the source. */
  readonly from: Origin;
  readonly tool: DiscoveredTool;
}

/** The connector that an agent names. */
export interface Origin {
  readonly name: string;
  /** It is declared by the operator: its tools carry its name. */
  readonly declared: boolean;
}

export interface SourceTools {
  /** What may be offered to who reads. */
  readonly found: readonly FoundTool[];
  /** Everything the filters want, for whomever. */
  readonly met: readonly FoundTool[];
  readonly missing?: MissingTools;
}

interface SourceDeps {
  readonly sessions: Pick<McpSessions, 'tools'>;
  readonly connectors: Pick<Connectors, 'find' | 'visible'>;
  readonly mcpTools: Pick<McpToolStore, 'list'>;
  readonly authorization: Pick<Authorization, 'refused'>;
  readonly log: Pick<Logger, 'warn' | 'error'>;
}

/** For whom lists are read, and until when. */
interface ListFor {
  readonly caller: McpCaller;
  readonly signal: AbortSignal;
}

type Listed = Origin &
  (
    | { readonly tools: readonly DiscoveredTool[] }
    | { readonly code: MissingTools['code']; readonly message: string; readonly error: unknown }
  );

/**
 * The wanted tools of one connector, or of its fallback when it fails.
 * @throws the connector's error when it is required, the signal's reason.
 */
export async function toolsOfSource(source: McpSource, reader: ListFor, deps: SourceDeps): Promise<SourceTools> {
  const { found, met, missing } = await toolsOrFallback(source, reader, deps);
  const { access } = reader.caller.principal;
  const allowed = found.filter(
    ({ target, tool }) => !access.deniesTool(target, tool.name) && !access.deniesTool(source.connectorId, tool.name),
  );
  return { found: allowed, met, ...(missing && { missing }) };
}

async function toolsOrFallback(source: McpSource, reader: ListFor, deps: SourceDeps): Promise<SourceTools> {
  const { connectorId } = source;
  const own = await list(connectorId, reader, deps);
  if ('tools' in own) {
    // What joins an agent is declared; a stored connector that has taken the name since does not.
    if (source.joined && !own.declared) return { found: [], met: [] };
    const found = pick(await withUsableFallback(source, reader, deps), connectorId, own, own.tools);
    return { found, met: found };
  }
  const { code, name } = own;
  // The agent did not ask for a joined one: switched off, it is simply not there.
  if (source.joined && code === 'disabled') return { found: [], met: [] };
  const missing = (message: string): MissingTools => ({ connectorId, name, code, message });
  // A refusal is no failure: what the connector is known to have is not looked for elsewhere, which would tell it.
  if (source.fallbackConnectorId !== undefined && !(own.error instanceof FORBIDDEN)) {
    const fallback = await list(source.fallbackConnectorId, reader, deps);
    if ('tools' in fallback) {
      deps.log.warn(
        { connectorId, fallbackConnectorId: source.fallbackConnectorId, code },
        'MCP tools come from the fallback connector',
      );
      return fromFallback(source, own, fallback.tools, missing, own.message, deps);
    }
    if (!source.required) {
      return {
        found: [],
        met: [],
        missing: missing(`${own.message} The fallback connector failed too: ${fallback.message}`),
      };
    }
  }
  if (source.required) throw own.error;
  deps.log.warn({ connectorId, code }, `MCP tools of connector ${name} are missing: ${own.message}`);
  return { found: [], met: [], missing: missing(own.message) };
}

/** Calls may go to the fallback only for whom may use it. */
async function withUsableFallback(source: McpSource, { caller }: ListFor, deps: SourceDeps): Promise<McpSource> {
  const { fallbackConnectorId, ...alone } = source;
  if (fallbackConnectorId === undefined) return source;
  const fallback = await deps.connectors.find(fallbackConnectorId);
  return fallback === undefined || refusalOf(caller.principal, fallback, deps) === undefined ? source : alone;
}

/** Why the principal may not use a connector through an agent; its name is told only to those who may see it. */
function refusalOf(
  principal: Principal,
  connector: Connector,
  { connectors }: Pick<SourceDeps, 'connectors'>,
): { readonly name: string; readonly message: string } | undefined {
  if (!connectors.visible(principal, connector)) {
    return { name: connector.id, message: "You don't have permission to access this connector." };
  }
  if (principal.access.allows('connector:use')) return undefined;
  return {
    name: connector.name,
    message: 'You need the permission connector:use to use a connector through an agent.',
  };
}

/** Tools of the names the failed connector is known to have; all of them when it was never listed. */
async function fromFallback(
  source: McpSource,
  from: Origin,
  tools: readonly DiscoveredTool[],
  missing: (message: string) => MissingTools,
  message: string,
  { mcpTools }: SourceDeps,
): Promise<SourceTools> {
  const rows = await mcpTools.list(source.connectorId);
  const known = rows.filter((row) => row.present && isWanted(row.name, source.filters)).map((row) => row.name);
  const target = source.fallbackConnectorId ?? source.connectorId;
  const met = pick(source, target, from, tools);
  const found = met.filter(({ tool }) => known.length === 0 || known.includes(tool.name));
  const lacking = known.filter((tool) => !found.some((candidate) => candidate.tool.name === tool));
  if (lacking.length === 0) return { found, met };
  return { found, met, missing: missing(`${message} The fallback connector has no tool named ${lacking.join(', ')}`) };
}

function pick(
  source: McpSource,
  target: string,
  { name, declared }: Origin,
  tools: readonly DiscoveredTool[],
): FoundTool[] {
  return tools
    .filter((tool) => isWanted(tool.name, source.filters))
    .map((tool) => ({ source, target, from: { name, declared }, tool }));
}

async function list(connectorId: string, { caller, signal }: ListFor, deps: SourceDeps): Promise<Listed> {
  let connector: Connector | undefined;
  try {
    connector = await deps.connectors.find(connectorId);
    if (connector === undefined) {
      const error = new CONNECTOR_NOT_FOUND(connectorId);
      return { name: connectorId, declared: false, code: 'not_found', message: error.message, error };
    }
    const refusal = refusalOf(caller.principal, connector, deps);
    if (refusal !== undefined) {
      deps.authorization.refused(caller.principal, 'connector:use', { reason: refusal.message, connectorId });
      return { ...refusal, declared: false, code: 'forbidden', error: new FORBIDDEN(refusal.message) };
    }
    if (!speaksMcp(connector)) throw notMcp(connector);
    const { name, declared } = connector;
    const { tools } = await deps.sessions.tools(connectorId, { signal, caller });
    return { name, declared: declared !== undefined, tools };
  } catch (error) {
    signal.throwIfAborted();
    const known = error instanceof UpstreamError || isCatalogueError(error);
    if (!known) deps.log.error({ err: error, connectorId }, 'MCP tools could not be listed');
    const message = known ? error.message : 'its tools could not be listed, the log of the server says why';
    const code: CauseCode = error instanceof UpstreamError ? error.code : 'invalid_response';
    return { name: connector?.name ?? connectorId, declared: connector?.declared !== undefined, code, message, error };
  }
}

function notMcp({ id, name, protocol }: Connector): UpstreamError {
  return new UpstreamError({
    code: 'not_mcp',
    destination: `connector "${name}"`,
    message: `Connector "${name}" (${id}) is of protocol ${protocol}, its tools cannot be listed; an agent takes tools from connectors of protocol mcp_streamable_http.`,
    statusCode: 400,
    delivered: 'no',
  });
}
