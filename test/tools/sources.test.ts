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
        filters: ['get.*'],
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
        filters: ['a'],
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

  it.each([
    [entry({}), 'A tool of type MCPTool needs parameters.connector_id'],
    [entry({ connector_id: '' }), 'A tool of type MCPTool needs parameters.connector_id'],
    [entry({ connector_id: 'c', fallback_connector_id: '' }), 'fallback_connector_id'],
    [entry({ connector_id: 'c', tool_filters: '["("]' }), 'tool_filters holds "(", which is not a regular expression'],
    [entry({ connector_id: 'c', tool_filters: 'get' }), 'tool_filters must be an array'],
    [entry({ connector_id: 'c', tool_filters: '[7]' }), 'tool_filters must be an array of regular expressions'],
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
    expect(isWanted('get_weather', [])).toBe(true);
    expect(isWanted('get_weather', ['^get'])).toBe(false);
    expect(isWanted('get_weather', ['^get.*'])).toBe(true);
    expect(isWanted('get_weather', ['set.*', 'get_weather'])).toBe(true);
    expect(isWanted('get_weather', ['get|set_weather'])).toBe(false);
    expect(isWanted('get', ['get|set'])).toBe(true);
  });
});
