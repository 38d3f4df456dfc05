import { isJsonObject, type JsonObject, type JsonValue } from '../json.ts';

const MAX_MERGES = 256;
const MERGED: readonly string[] = ['$ref', 'allOf', 'anyOf', 'oneOf'];
/** What models refuse at the root and only narrows what fits: the server checks it. */
const DROPPED: ReadonlySet<string> = new Set([...MERGED, 'not', 'enum', 'if', 'then', 'else', 'dependentSchemas']);

interface Members {
  readonly properties: Readonly<Record<string, JsonValue>>;
  readonly required: readonly string[];
}

/**
 * The schema of a tool as every model takes it: an object with properties at its root. Alternatives and references there
 * are merged into one object that fits at least what fitted before; below the root nothing changes.
 */
export function offeredSchema(schema: JsonObject): JsonObject {
  if (![...DROPPED].some((keyword) => keyword in schema)) return schema;
  let merges = 0;

  function membersOf(part: JsonValue | undefined): Members {
    merges += 1;
    if (!isJsonObject(part) || merges > MAX_MERGES) return { properties: {}, required: [] };
    const own: Members = {
      properties: isJsonObject(part.properties) ? part.properties : {},
      required: Array.isArray(part.required) ? part.required.filter((name) => typeof name === 'string') : [],
    };
    const all = [own, ...(typeof part.$ref === 'string' ? [membersOf(target(schema, part.$ref))] : [])];
    for (const each of listOf(part.allOf)) all.push(membersOf(each));
    for (const choice of [part.anyOf, part.oneOf]) {
      const branches = listOf(choice).map(membersOf);
      if (branches.length > 0) all.push(oneOf(branches));
    }
    return together(all);
  }

  const { properties, required } = membersOf(schema);
  const rest = Object.entries(schema).filter(([key]) => !DROPPED.has(key) && key !== 'required');
  return {
    ...Object.fromEntries(rest),
    type: 'object',
    properties: { ...properties },
    ...(required.length > 0 && { required: [...required] }),
  };
}

function listOf(value: JsonValue | undefined): readonly JsonValue[] {
  return Array.isArray(value) ? value : [];
}

/** What a local reference points at (RFC 6901). */
function target(root: JsonObject, ref: string): JsonValue | undefined {
  if (!ref.startsWith('#/')) return undefined;
  let at: JsonValue | undefined = root;
  for (const segment of ref.slice(2).split('/')) {
    const key = segment.replaceAll('~1', '/').replaceAll('~0', '~');
    at = isJsonObject(at) && Object.hasOwn(at, key) ? at[key] : undefined;
  }
  return at;
}

function together(all: readonly Members[]): Members {
  return {
    properties: Object.assign(Object.create(null), ...all.map(({ properties }) => properties).reverse()) as JsonObject,
    required: [...new Set(all.flatMap(({ required }) => required))],
  };
}

/** One of the branches fits: a property that several have may be as any of them says, what all require is required. */
function oneOf(branches: readonly Members[]): Members {
  const variants = new Map<string, JsonValue[]>();
  for (const { properties } of branches) {
    for (const [name, value] of Object.entries(properties)) {
      const known = variants.get(name) ?? [];
      if (!known.some((other) => JSON.stringify(other) === JSON.stringify(value))) known.push(value);
      variants.set(name, known);
    }
  }
  const properties = [...variants].map(([name, values]) => [name, values.length === 1 ? values[0] : { anyOf: values }]);
  const [first, ...others] = branches;
  return {
    properties: Object.fromEntries(properties) as JsonObject,
    required: (first?.required ?? []).filter((name) => others.every(({ required }) => required.includes(name))),
  };
}
