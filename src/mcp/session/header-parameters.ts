import { isJsonObject, type JsonObject, type JsonValue } from '../../json.ts';

const KEY = 'x-mcp-header';
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const PRIMITIVES = new Set<JsonValue | undefined>(['string', 'integer', 'boolean']);

/**
 * Why a tool may not be offered over HTTP in the stateless era because of an `x-mcp-header` annotation (MCP 2026-07-28,
 * Streamable HTTP, "Schema Extension"): not a token, repeated, not on a string, integer or boolean, or not reachable by
 * `properties` alone. `undefined`: all annotations are good. The schema's depth must be bounded already.
 */
export function headerParameterFault(inputSchema: JsonObject): string | undefined {
  const seen = new Set<string>();

  function visit(node: JsonValue | undefined, path: string, reachable: boolean): string | undefined {
    if (Array.isArray(node)) return first(node, (child) => visit(child, path, false));
    if (!isJsonObject(node)) return undefined;
    const header = node[KEY];
    if (header !== undefined) {
      const where = path === '' ? 'the root' : `"${path}"`;
      if (!reachable || path === '') return `${KEY} at ${where} is not reachable through properties alone`;
      if (typeof header !== 'string' || !TOKEN.test(header)) return `${KEY} at ${where} is not a header name`;
      if (!PRIMITIVES.has(node.type)) return `${KEY} at ${where} is not on a string, integer or boolean`;
      if (seen.has(header.toLowerCase())) return `${KEY} "${header}" is declared twice`;
      seen.add(header.toLowerCase());
    }
    return first(Object.entries(node), ([name, child]) =>
      name === 'properties' && isJsonObject(child)
        ? first(Object.entries(child), ([key, sub]) => visit(sub, path === '' ? key : `${path}.${key}`, reachable))
        : name === KEY || !holdsSchemas.has(name)
          ? undefined
          : visitWithin(child, path),
    );
  }

  /** Below any keyword but `properties` an annotation is a fault; maps of schemas and lists are both walked. */
  function visitWithin(node: JsonValue | undefined, path: string): string | undefined {
    if (Array.isArray(node)) return first(node, (child) => visit(child, path, false));
    if (!isJsonObject(node)) return undefined;
    return visit(node, path, false) ?? first(Object.values(node), (child) => visit(child, path, false));
  }

  return visit(inputSchema, '', true);
}

const holdsSchemas = new Set([
  ...['items', 'prefixItems', 'contains', 'additionalProperties', 'unevaluatedProperties', 'unevaluatedItems'],
  ...['propertyNames', 'patternProperties', 'dependentSchemas', 'oneOf', 'anyOf', 'allOf', 'not', 'if', 'then', 'else'],
  ...['$defs', 'definitions'],
]);

function first<T>(items: readonly T[], find: (item: T) => string | undefined): string | undefined {
  for (const item of items) {
    const found = find(item);
    if (found !== undefined) return found;
  }
  return undefined;
}
