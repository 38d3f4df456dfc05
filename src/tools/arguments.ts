import { createHash } from 'node:crypto';
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { LRUCache } from 'lru-cache';
import { exceedsDepth, isJsonObject, type JsonObject, MAX_REMOTE_DEPTH } from '../json.ts';

type ArgumentFault =
  | { readonly cause: 'malformed_arguments'; readonly message: string }
  | { readonly cause: 'invalid_arguments'; readonly message: string };

/** Checks the arguments of a tool call. */
export interface ArgumentChecker {
  /** `undefined`: the text is a JSON object that fits the schema, or the schema cannot be used for checking. */
  check(argumentsText: string, schema: JsonObject): ArgumentFault | undefined;
}

const SHOWN_FAULTS = 5;
const LARGEST_SCHEMA = 256 * 1024;
const CACHED_SCHEMAS = 1000;

/**
 * A checker with an empty cache of compiled schemas, keyed by their hash. Schemas come from strangers: nothing is
 * fetched for them, their regular expressions are never run here (the server checks those), formats are annotations.
 */
export function createArgumentChecker(): ArgumentChecker {
  const options = {
    strict: false,
    allErrors: true,
    validateFormats: false,
    addUsedSchema: false,
    logger: false,
    code: { regExp: Object.assign(() => ({ test: () => true }), { code: 'matchesEverything' }) },
  } as const;
  // Made when first needed: a compiler costs more than all the schemas of an ordinary agent.
  let current: Ajv | undefined;
  let older: Ajv | undefined;
  const compiled = new LRUCache<string, { validate: ValidateFunction | undefined }>({ max: CACHED_SCHEMAS });

  function compile(schema: JsonObject): ValidateFunction | undefined {
    const text = JSON.stringify(schema);
    const key = createHash('sha256').update(text).digest('base64');
    const known = compiled.get(key);
    if (known) return known.validate;
    const validate = text.length > LARGEST_SCHEMA ? undefined : compileWith(dialect(schema), schema);
    compiled.set(key, { validate });
    return validate;
  }

  function dialect(schema: JsonObject): Ajv {
    const uri = schema.$schema;
    if (typeof uri === 'string' && /draft-0?[4-7]/.test(uri)) {
      older ??= new Ajv(options).removeKeyword('pattern').removeKeyword('patternProperties');
      return older;
    }
    current ??= new Ajv2020(options).removeKeyword('pattern').removeKeyword('patternProperties');
    return current;
  }

  return {
    check(argumentsText, schema) {
      let value: unknown;
      try {
        value = JSON.parse(argumentsText);
      } catch (error) {
        return { cause: 'malformed_arguments', message: `not valid JSON: ${(error as Error).message}` };
      }
      if (!isJsonObject(value)) return { cause: 'malformed_arguments', message: 'not a JSON object' };
      if (exceedsDepth(value, MAX_REMOTE_DEPTH)) {
        return { cause: 'malformed_arguments', message: `nested deeper than ${MAX_REMOTE_DEPTH} levels` };
      }
      const validate = compile(schema);
      if (validate === undefined || validate(value)) return undefined;
      return { cause: 'invalid_arguments', message: describe(validate.errors ?? []) };
    },
  };
}

function compileWith(ajv: Ajv, schema: JsonObject): ValidateFunction | undefined {
  try {
    const { $schema: _dialect, $id: _id, ...rest } = schema;
    return ajv.compile(rest);
  } catch {
    return undefined;
  }
}

function describe(errors: readonly ErrorObject[]): string {
  const lines = errors.map(({ instancePath, keyword, message, params }) => {
    const extra = keyword === 'additionalProperties' ? ` (${String(params.additionalProperty)})` : '';
    const allowed = keyword === 'enum' ? ` (${JSON.stringify(params.allowedValues)})` : '';
    return `${instancePath === '' ? 'arguments' : instancePath} ${message ?? keyword}${extra}${allowed}`;
  });
  const shown = [...new Set(lines)];
  const more = shown.length > SHOWN_FAULTS ? `; and ${shown.length - SHOWN_FAULTS} more` : '';
  return shown.slice(0, SHOWN_FAULTS).join('; ') + more;
}
