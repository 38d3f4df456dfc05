import { INVALID_ARGUMENT } from '../errors.ts';
import { isJsonObject, type JsonObject, type JsonValue, parseJson } from '../json.ts';
import { compilePattern, type Pattern } from '../outbound/pattern.ts';

const MAX_FILTERS = 200;

/** One connector an agent takes MCP tools from, however the agent names it. */
export interface McpSource {
  readonly connectorId: string;
  /** Each must match a whole tool name; empty means all tools. */
  readonly filters: readonly Pattern[];
  /** Descriptions that replace the server's, by tool name. */
  readonly descriptions: ReadonlyMap<string, string>;
  readonly required: boolean;
  readonly fallbackConnectorId?: string;
  readonly includeOutput: boolean;
  /** A declared server that joins the agent, which does not name it. */
  readonly joined?: true;
}

export interface AgentToolSources {
  readonly mcp: readonly McpSource[];
  /** Types of tool entries that are no MCP tools. */
  readonly otherTypes: readonly string[];
}

/**
 * Where the tools of an agent come from: its `MCPTool` entries, `parameters.mcp_connectors`, and those of the `joined`
 * connectors that it does not name, in that order.
 * @throws INVALID_ARGUMENT naming the member that cannot be used.
 */
export function toolSources(agent: JsonObject, joined: readonly string[] = []): AgentToolSources {
  const entries = Array.isArray(agent.tools) ? agent.tools.filter(isJsonObject) : [];
  const parameters = isJsonObject(agent.parameters) ? agent.parameters : {};
  const isMcp = (entry: JsonObject): boolean => entry.type === 'MCPTool';
  const otherTypes = entries.filter((entry) => !isMcp(entry)).map((entry) => String(entry.type));
  const named = [...entries.filter(isMcp).map(entrySource), ...connectorSources(parameters.mcp_connectors)];
  const ids = joined.length === 0 ? [] : connectorIds({ mcp: named, otherTypes });
  return { mcp: [...named, ...joined.filter((id) => !ids.includes(id)).map(joinedSource)], otherTypes };
}

/** Ids of the connectors an agent takes tools from, fallbacks included, each once. */
export function connectorIds(sources: AgentToolSources): string[] {
  return [...new Set(sources.mcp.flatMap((source) => [source.connectorId, source.fallbackConnectorId ?? []].flat()))];
}

/** Whether a tool name is wanted by the filters of its connector. */
export function isWanted(tool: string, filters: readonly Pattern[]): boolean {
  return filters.length === 0 || filters.some((filter) => filter.test(tool));
}

function entrySource(entry: JsonObject): McpSource {
  const parameters = isJsonObject(entry.parameters) ? entry.parameters : {};
  const connectorId = parameters.connector_id;
  if (typeof connectorId !== 'string' || connectorId === '') {
    throw new INVALID_ARGUMENT('A tool of type MCPTool needs parameters.connector_id, the id of an MCP connector');
  }
  const fallback = parameters.fallback_connector_id;
  if (fallback !== undefined && (typeof fallback !== 'string' || fallback === '')) {
    throw new INVALID_ARGUMENT('fallback_connector_id of a tool of type MCPTool must be the id of an MCP connector');
  }
  return {
    connectorId,
    filters: filtersOf(parameters.tool_filters, 'tool_filters'),
    descriptions: descriptionsOf(parameters.tool_descriptions, 'tool_descriptions'),
    required: String(parameters.required ?? 'false').toLowerCase() === 'true',
    ...(fallback === undefined ? {} : { fallbackConnectorId: fallback }),
    includeOutput: entry.include_output_in_agent_response === true,
  };
}

function joinedSource(connectorId: string): McpSource {
  return { connectorId, filters: [], descriptions: new Map(), required: false, includeOutput: false, joined: true };
}

function connectorSources(value: JsonValue | undefined): McpSource[] {
  return listOf(value, 'mcp_connectors').map((item, index): McpSource => {
    const where = `mcp_connectors[${index}]`;
    const connectorId = isJsonObject(item) ? item.mcp_connector_id : undefined;
    if (!isJsonObject(item) || typeof connectorId !== 'string' || connectorId === '') {
      throw new INVALID_ARGUMENT(`${where}.mcp_connector_id must be the id of an MCP connector`);
    }
    return {
      connectorId,
      filters: filtersOf(item.tool_filters, `${where}.tool_filters`),
      descriptions: descriptionsOf(item.tool_descriptions, `${where}.tool_descriptions`),
      required: false,
      includeOutput: false,
    };
  });
}

/** Parameters are texts inside: a list is there as itself or as its JSON text. */
function listOf(value: JsonValue | undefined, name: string): JsonValue[] {
  if (value === undefined || value === null || value === '') return [];
  const list = typeof value === 'string' ? parseJson(value) : value;
  if (!Array.isArray(list)) throw new INVALID_ARGUMENT(`${name} must be an array`);
  return list;
}

function filtersOf(value: JsonValue | undefined, name: string): Pattern[] {
  const list = listOf(value, name);
  if (list.length > MAX_FILTERS) throw new INVALID_ARGUMENT(`${name} holds more than ${MAX_FILTERS} patterns`);
  return list.map((filter) => {
    if (typeof filter !== 'string') throw new INVALID_ARGUMENT(`${name} must be an array of regular expressions`);
    return compilePattern(filter, ` of ${name}`);
  });
}

function descriptionsOf(value: JsonValue | undefined, name: string): Map<string, string> {
  return new Map(
    listOf(value, name).flatMap((item) => {
      if (!isJsonObject(item)) throw new INVALID_ARGUMENT(`${name} must be an array of {"<tool>": "<description>"}`);
      return Object.entries(item).flatMap(([tool, text]): [string, string][] =>
        typeof text === 'string' ? [[tool, text]] : [],
      );
    }),
  );
}
