import { createHash } from 'node:crypto';
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '../json.ts';
import { headerParameterFault } from './session/header-parameters.ts';
import type { DiscoveredTool, LeftOutTool, ToolList } from './types.ts';
import { visibleSchema, visibleText } from './visible-text.ts';

const MAX_TOOLS = 512;
/** Reasons that are kept one by one. */
const MAX_LEFT_OUT = 512;
const MAX_NAME = 256;
const MAX_TITLE = 256;
const MAX_WARNINGS = 512;
/** Of a reason: it may quote the server. */
const MAX_REASON = 300;
const MAX_DESCRIPTION = 4096;
const MAX_SCHEMA_BYTES = 64 * 1024;
const MAX_SCHEMA_DEPTH = 32;

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
  const plain = new Set(entries.map((entry) => (isJsonObject(entry) ? entry.name : undefined)));
  let beyond = 0;

  entries.forEach((entry, index) => {
    if (!isJsonObject(entry)) {
      leftOut.push({ name: `(entry ${index + 1})`, reason: 'the definition is not an object' });
      return;
    }
    const fault = nameFault(entry.name);
    if (typeof entry.name !== 'string' || fault !== undefined) {
      leftOut.push({ name: `(entry ${index + 1})`, reason: fault ?? 'it has no name' });
      return;
    }
    const name = visibleText(entry.name, MAX_NAME);
    if (name !== entry.name) {
      if (plain.has(name)) {
        leftOut.push({ name, reason: 'its name differs from that of another tool in hidden characters only' });
        return;
      }
      warnings.push(`the name of tool "${visibleText(name, 64)}" holds hidden characters`);
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
    if (typeof tool === 'string') leftOut.push({ name, reason: visibleText(tool, MAX_REASON) });
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

function nameFault(name: JsonValue | undefined): string | undefined {
  if (typeof name !== 'string' || name === '') return 'it has no name';
  if (name.length > MAX_NAME) return `its name has more than ${MAX_NAME} characters`;
  return visibleText(name, MAX_NAME).trim() === '' ? 'its name has no visible character' : undefined;
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
    isJsonObject(entry.annotations) && tooBig(entry.annotations) === undefined
      ? visibleSchema(entry.annotations)
      : undefined;
  const title = typeof entry.title === 'string' ? visibleText(entry.title, MAX_TITLE) : undefined;
  const description =
    typeof entry.description === 'string' ? visibleText(entry.description, MAX_DESCRIPTION) : undefined;
  // A model reads the title where there is no description.
  const read = description ?? title;
  const hashed: JsonObject = {
    name,
    ...(read !== undefined && { description: read }),
    inputSchema,
    ...(outputSchema && { outputSchema }),
    ...(annotations && { annotations }),
  };
  const hash = createHash('sha256').update(canonicalJson(hashed)).digest('hex');
  return {
    name,
    ...(entry.name !== name && { calledAs: entry.name as string }),
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
  const visible = visibleSchema(schema);
  return { ...visible, type: 'object', properties: visible.properties ?? {} };
}

function readOutputSchema(name: string, schema: JsonValue | undefined, warnings: string[]): JsonObject | undefined {
  if (schema === undefined || schema === null) return undefined;
  const fault = isJsonObject(schema) ? tooBig(schema) : 'is not an object';
  if (fault === undefined) return visibleSchema(schema as JsonObject);
  warnings.push(`the outputSchema of tool "${visibleText(name, 64)}" ${fault}; its results are not checked against it`);
  return undefined;
}

/** Why a schema is too much to handle; checked level by level, so that depth cannot exhaust the stack. */
export function tooBig(schema: JsonObject): string | undefined {
  let level: JsonValue[] = [schema];
  for (let depth = 1; level.length > 0; depth += 1) {
    if (depth > MAX_SCHEMA_DEPTH) return `is nested deeper than ${MAX_SCHEMA_DEPTH} levels`;
    level = level.flatMap((node) =>
      Object.values(node as JsonObject).filter((child) => typeof child === 'object' && child),
    );
  }
  return Buffer.byteLength(JSON.stringify(schema)) > MAX_SCHEMA_BYTES ? 'is larger than 64 KiB' : undefined;
}
