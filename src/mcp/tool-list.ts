import { createHash } from 'node:crypto';
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '../json.ts';
import { headerParameterFault } from './header-parameters.ts';
import type { DiscoveredTool, LeftOutTool, ToolList } from './types.ts';

const MAX_TOOLS = 512;
/** Reasons that are kept one by one. */
const MAX_LEFT_OUT = 512;
const MAX_NAME = 256;
const MAX_TITLE = 256;
const MAX_WARNINGS = 512;
const MAX_DESCRIPTION = 4096;
const MAX_SCHEMA_BYTES = 64 * 1024;
const MAX_SCHEMA_DEPTH = 32;

/** Control characters but tab and line feed, format characters (zero-width, bidirectional, tags), lone surrogates. */
const HIDDEN = /(?![\t\n])[\p{Cc}\p{Cf}\p{Cs}]/gu;

/** Text of a server as it may be shown to a model or a person: hidden characters removed, cut at `limit` characters. */
function visibleText(text: string, limit: number): string {
  const clean = text.replace(HIDDEN, '');
  return clean.length <= limit ? clean : `${clean.slice(0, limit - 1).replace(/\p{Cs}$/u, '')}…`;
}

/**
 * Reads the entries of `tools/list` one by one: each tool is kept, repaired or left out with its reason, and none of
 * them ever costs another. `statelessEra` applies the rules of `x-mcp-header` (MCP 2026-07-28) too.
 */
export function readToolList(entries: readonly JsonValue[], options: { statelessEra: boolean }): ToolList {
  const tools: DiscoveredTool[] = [];
  const leftOut: LeftOutTool[] = [];
  const warnings: string[] = [];
  const names = new Set<string>();
  const repeated = new Set<string>();
  let beyond = 0;

  entries.forEach((entry, index) => {
    if (!isJsonObject(entry)) {
      leftOut.push({ name: `(entry ${index + 1})`, reason: 'the definition is not an object' });
      return;
    }
    const { name } = entry;
    if (typeof name !== 'string' || name === '' || name.length > MAX_NAME) {
      const reason =
        typeof name === 'string' && name !== '' ? `its name has more than ${MAX_NAME} characters` : 'it has no name';
      leftOut.push({ name: `(entry ${index + 1})`, reason });
      return;
    }
    if (names.has(name)) {
      repeated.add(name);
      return;
    }
    names.add(name);
    if (tools.length >= MAX_TOOLS) {
      beyond += 1;
      return;
    }
    const tool = readTool(name, entry, options.statelessEra, warnings);
    if (typeof tool === 'string') leftOut.push({ name, reason: tool });
    else tools.push(tool);
  });

  if (repeated.size > 0) {
    warnings.push(`the server lists ${quoted([...repeated])} more than once; the first definition counts`);
  }
  if (beyond > 0) warnings.push(`the server lists ${beyond} tools beyond the first ${MAX_TOOLS}; they are left out`);
  const unnamed = leftOut.length - MAX_LEFT_OUT;
  if (unnamed > 0) warnings.push(`${unnamed} more tools are left out for reasons of their own`);
  return { tools, leftOut: leftOut.slice(0, MAX_LEFT_OUT), warnings: warnings.slice(0, MAX_WARNINGS) };
}

function quoted(names: readonly string[]): string {
  const shown = names.slice(0, 5).map((name) => `"${visibleText(name, 64)}"`);
  return names.length > shown.length ? `${shown.join(', ')} and ${names.length - shown.length} more` : shown.join(', ');
}

function readTool(name: string, entry: JsonObject, statelessEra: boolean, warnings: string[]): DiscoveredTool | string {
  const inputSchema = readInputSchema(entry.inputSchema);
  if (typeof inputSchema === 'string') return inputSchema;
  if (statelessEra) {
    const fault = headerParameterFault(inputSchema);
    if (fault !== undefined) return fault;
  }
  const outputSchema = readOutputSchema(name, entry.outputSchema, warnings);
  const annotations =
    isJsonObject(entry.annotations) && tooBig(entry.annotations) === undefined ? entry.annotations : undefined;
  const title = typeof entry.title === 'string' ? visibleText(entry.title, MAX_TITLE) : undefined;
  const description =
    typeof entry.description === 'string' ? visibleText(entry.description, MAX_DESCRIPTION) : undefined;
  const hashed: JsonObject = {
    name,
    ...(description !== undefined && { description }),
    inputSchema,
    ...(outputSchema && { outputSchema }),
    ...(annotations && { annotations }),
  };
  const hash = createHash('sha256').update(canonicalJson(hashed)).digest('hex');
  return {
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    inputSchema,
    ...(outputSchema && { outputSchema }),
    ...(annotations && { annotations }),
    hash,
  };
}

function readInputSchema(schema: JsonValue | undefined): JsonObject | string {
  if (schema === undefined) return 'it has no inputSchema';
  if (schema === null) return 'its inputSchema is null';
  if (!isJsonObject(schema)) return 'its inputSchema is not an object';
  const fault = tooBig(schema);
  if (fault !== undefined) return `its inputSchema ${fault}`;
  const { type, properties } = schema;
  const acceptsObject = type === undefined || type === 'object' || (Array.isArray(type) && type.includes('object'));
  if (!acceptsObject) return `the root of its inputSchema has type ${JSON.stringify(type)}, not "object"`;
  if (properties !== undefined && !isJsonObject(properties))
    return 'the properties of its inputSchema are not an object';
  return {
    ...visibleSchema(schema),
    type: 'object',
    properties: isJsonObject(properties) ? visibleSchema(properties) : {},
  };
}

function readOutputSchema(name: string, schema: JsonValue | undefined, warnings: string[]): JsonObject | undefined {
  if (schema === undefined || schema === null) return undefined;
  const fault = isJsonObject(schema) ? tooBig(schema) : 'is not an object';
  if (fault === undefined) return schema as JsonObject;
  warnings.push(`the outputSchema of tool "${visibleText(name, 64)}" ${fault}; its results are not checked against it`);
  return undefined;
}

/** The schema with hidden characters removed from its titles and descriptions, wherever they stand. */
function visibleSchema(schema: JsonObject): JsonObject {
  const clean = (value: JsonValue, key: string): JsonValue => {
    if (typeof value === 'string') {
      return key === 'description' || key === 'title' ? visibleText(value, MAX_DESCRIPTION) : value;
    }
    if (Array.isArray(value)) return value.map((item) => clean(item, ''));
    return isJsonObject(value) ? visibleSchema(value) : value;
  };
  return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, clean(value, key)]));
}

/** Why a schema is too much to handle; checked level by level, so that depth cannot exhaust the stack. */
function tooBig(schema: JsonObject): string | undefined {
  let level: JsonValue[] = [schema];
  for (let depth = 1; level.length > 0; depth += 1) {
    if (depth > MAX_SCHEMA_DEPTH) return `is nested deeper than ${MAX_SCHEMA_DEPTH} levels`;
    level = level.flatMap((node) =>
      Object.values(node as JsonObject).filter((child) => typeof child === 'object' && child),
    );
  }
  return Buffer.byteLength(JSON.stringify(schema)) > MAX_SCHEMA_BYTES ? 'is larger than 64 KiB' : undefined;
}
