import { isJsonObject, type JsonObject, type JsonValue } from '../json.ts';

/** Keyword that every schema inside a counted one carries: a checker runs it each time that schema is applied. */
export const STEP = 'x-tenon-step';

/** Their strings and objects are values, no schemas. */
const VALUES: ReadonlySet<string> = new Set(['enum', 'const', 'required', 'dependentRequired', 'type']);
/** Say nothing about the arguments; a reference could point into them all the same. */
const NOTES: ReadonlySet<string> = new Set(['default', 'examples', '$comment', 'title', 'description']);
/** Hold schemas by names that the server chose. */
const NAMED: ReadonlySet<string> = new Set([
  'properties',
  'patternProperties',
  'dependentSchemas',
  'dependencies',
  '$defs',
  'definitions',
]);
const INTO_VALUES = /\/(?:enum|const|required|dependentRequired|type)(?:\/|$)/;

/**
 * The schema with a `STEP` in each of its schemas, so that applying it can be counted: by references and alternatives a
 * small schema can ask for more work than any machine has. `undefined` when a reference points at what is no schema, and
 * would not be counted. Its depth must be bounded already.
 */
export function countedSchema(schema: JsonObject): JsonObject | undefined {
  let uncounted = false;

  function ofSchema(object: JsonObject): JsonObject {
    const counted: Record<string, JsonValue> = Object.create(null) as Record<string, JsonValue>;
    for (const [key, value] of Object.entries(object)) {
      if (NOTES.has(key)) continue;
      if ((key === '$ref' || key === '$dynamicRef') && INTO_VALUES.test(String(value))) uncounted = true;
      counted[key] = VALUES.has(key) ? value : NAMED.has(key) && isJsonObject(value) ? ofNames(value) : ofAny(value);
    }
    counted[STEP] = true;
    return counted;
  }

  function ofNames(object: JsonObject): JsonObject {
    return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, ofAny(value)]));
  }

  function ofAny(value: JsonValue): JsonValue {
    if (Array.isArray(value)) return value.map(ofAny);
    return isJsonObject(value) ? ofSchema(value) : value;
  }

  const counted = ofSchema(schema);
  return uncounted ? undefined : counted;
}
