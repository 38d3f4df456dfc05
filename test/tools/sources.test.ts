import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { connectorIds, isWanted, toolSources } from '../../src/tools/sources.ts';

const entry = (parameters: JsonObject, rest: JsonObject = {}): JsonObject => ({
  tools: [{ type: 'MCPTool', parameters, ...rest }],
});

describe('where the tools of an agent come from', () => {
  it('reads MCPTool entries, with lists as texts or as themselves', () => {
    const parameters = {
      connector_id: 'c1',
      tool_filters: '["get.*"]',
      tool_descriptions: [{ get: 'gets' }],
      required: 'true',
      fallback_connector_id: 'c2',
    };
    expect(toolSources(entry(parameters, { include_output_in_agent_response: true })).mcp).toEqual([
      {
        connectorId: 'c1',
        filters: [expect.objectContaining({ source: 'get.*' })],
        descriptions: new Map([['get', 'gets']]),
        required: true,
        fallbackConnectorId: 'c2',
        includeOutput: true,
      },
    ]);
    const plain = { connectorId: 'c1', filters: [], descriptions: new Map(), required: false, includeOutput: false };
    expect(toolSources(entry({ connector_id: 'c1' })).mcp).toEqual([plain]);
    expect(toolSources(entry({ connector_id: 'c1', tool_filters: '', required: 'false' })).mcp).toEqual([plain]);
  });

  it('reads mcp_connectors behind them', () => {
    const connectors = [{ mcp_connector_id: 'c3', tool_filters: ['a'], tool_descriptions: [{ a: 'b' }] }];
    for (const mcp_connectors of [connectors, JSON.stringify(connectors)] as const) {
      const sources = toolSources({ ...entry({ connector_id: 'c1' }), parameters: { mcp_connectors } });
      expect(sources.mcp.map((source) => source.connectorId)).toEqual(['c1', 'c3']);
      expect(sources.mcp[1]).toEqual({
        connectorId: 'c3',
        filters: [expect.objectContaining({ source: 'a' })],
        descriptions: new Map([['a', 'b']]),
        required: false,
        includeOutput: false,
      });
    }
  });

  it('names other types and each connector once', () => {
    const agent = { tools: [{ type: 'ListIndexTool' }, { type: 'MCPTool', parameters: { connector_id: 'c1' } }] };
    expect(toolSources(agent).otherTypes).toEqual(['ListIndexTool']);
    expect(toolSources({})).toEqual({ mcp: [], otherTypes: [] });
    const both = { ...agent, parameters: { mcp_connectors: '[{"mcp_connector_id":"c1"},{"mcp_connector_id":"c2"}]' } };
    expect(connectorIds(toolSources(both))).toEqual(['c1', 'c2']);
    expect(connectorIds(toolSources(entry({ connector_id: 'a', fallback_connector_id: 'b' })))).toEqual(['a', 'b']);
  });

  it('are joined by connectors that the agent does not name, as fallback either', () => {
    const agent = entry({ connector_id: 'a', fallback_connector_id: 'b' });
    const { mcp } = toolSources(agent, ['x', 'a', 'b', 'y']);
    expect(mcp.map(({ connectorId, joined }) => [connectorId, joined])).toEqual([
      ['a', undefined],
      ['x', true],
      ['y', true],
    ]);
    expect(mcp[1]).toMatchObject({ filters: [], required: false, includeOutput: false });
    expect(toolSources({}, ['x']).mcp).toHaveLength(1);
  });

  it.each([
    [entry({}), 'A tool of type MCPTool needs parameters.connector_id'],
    [entry({ connector_id: '' }), 'A tool of type MCPTool needs parameters.connector_id'],
    [entry({ connector_id: 'c', fallback_connector_id: '' }), 'fallback_connector_id'],
    [
      entry({ connector_id: 'c', tool_filters: '["("]' }),
      'The pattern "(" of tool_filters is not a regular expression',
    ],
    [entry({ connector_id: 'c', tool_filters: 'get' }), 'tool_filters must be an array'],
    [entry({ connector_id: 'c', tool_filters: '[7]' }), 'tool_filters must be an array of regular expressions'],
    [
      entry({ connector_id: 'c', tool_filters: ['(a)\\1'] }),
      'The pattern "(a)\\\\1" of tool_filters is not a regular expression that can be used: invalid escape sequence: `\\1` (look-around, back-references',
    ],
    [entry({ connector_id: 'c', tool_filters: ['(?:x{500}){2}y{999}z{999}'] }), 'of tool_filters repeats too much'],
    [entry({ connector_id: 'c', tool_filters: Array(201).fill('a') }), 'tool_filters holds more than 200 patterns'],
    [entry({ connector_id: 'c', tool_descriptions: '["x"]' }), 'tool_descriptions must be an array of'],
    [{ parameters: { mcp_connectors: '{}' } }, 'mcp_connectors must be an array'],
    [{ parameters: { mcp_connectors: '[{}]' } }, 'mcp_connectors[0].mcp_connector_id must be the id'],
    [
      { parameters: { mcp_connectors: '[{"mcp_connector_id":"c","tool_filters":"x"}]' } },
      'mcp_connectors[0].tool_filters',
    ],
  ] as [JsonObject, string][])('refuses %j', (agent, message) => {
    expect(() => toolSources(agent)).toThrow(message);
  });

  it('wants what a filter matches from end to end', () => {
    const wanted = (tool: string, tool_filters: string[]): boolean =>
      isWanted(tool, toolSources(entry({ connector_id: 'c', tool_filters })).mcp[0]?.filters ?? []);
    expect(wanted('get_weather', [])).toBe(true);
    expect(wanted('get_weather', ['^get'])).toBe(false);
    expect(wanted('get_weather', ['^get.*'])).toBe(true);
    expect(wanted('get_weather', ['set.*', 'get_weather'])).toBe(true);
    expect(wanted('get_weather', ['get|set_weather'])).toBe(false);
    expect(wanted('get', ['get|set'])).toBe(true);
  });

  it('answers at once for a pattern that would keep a backtracking engine busy for years', () => {
    const [source] = toolSources(entry({ connector_id: 'c', tool_filters: ['(a+)+b', '(a|a)*c', '(.*)*x'] })).mcp;
    const name = 'a'.repeat(5000);
    expect(isWanted(name, source?.filters ?? [])).toBe(false);
    expect(isWanted(`${name}b`, source?.filters ?? [])).toBe(true);
  });
});
