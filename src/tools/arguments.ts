import { createHash } from 'node:crypto';
import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { LRUCache } from 'lru-cache';
import { exceedsDepth, isJsonObject, type JsonObject, MAX_REMOTE_DEPTH } from '../json.ts';
import { countedSchema, STEP } from './counted-schema.ts';

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
/** Schemas applied in one check, references followed. */
const MAX_STEPS = 50_000;

/**
 * A checker with an empty cache of compiled schemas, keyed by their hash. Schemas come from strangers: nothing is
 * fetched for them, their regular expressions are never run here (the server checks those), formats are annotations, and
 * a check that is too much work is left to the server.
 */
export function createArgumentChecker(): ArgumentChecker {
  let stepsLeft = 0;
  const step = {
    keyword: STEP,
    schema: false,
    errors: false,
    validate: () => {
      stepsLeft -= 1;
      if (stepsLeft < 0) throw new Error('too much work');
      return true;
    },
  };
  const options: Options = {
    strict: false,
    allErrors: true,
    ownProperties: true,
    validateFormats: false,
    addUsedSchema: false,
    logger: false,
    keywords: [step],
    code: { regExp: Object.assign(() => ({ test: () => true }), { code: 'matchesEverything' }) },
  };
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
      if (validate === undefined) return undefined;
      stepsLeft = MAX_STEPS;
      try {
        if (validate(value)) return undefined;
      } catch {
        return undefined;
      }
      const message = describe(validate.errors ?? []);
      validate.errors = null;
      return { cause: 'invalid_arguments', message };
    },
  };
}

function compileWith(ajv: Ajv, schema: JsonObject): ValidateFunction | undefined {
  try {
    const { $schema: _dialect, $id: _id, ...rest } = schema;
    const counted = countedSchema(rest);
    return counted && ajv.compile(counted);
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
