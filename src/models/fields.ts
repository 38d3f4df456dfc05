import { INVALID_ARGUMENT } from '../errors.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../json.ts';

/** A text member; absent and null are the same. @throws INVALID_ARGUMENT when it is something else */
export function optionalText(body: JsonObject, name: string): string | undefined {
  const value = body[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'string') throw new INVALID_ARGUMENT(`${name} must be a string`);
  return value;
}

/** An object member; absent and null are the same. @throws INVALID_ARGUMENT when it is something else */
export function optionalObject(body: JsonObject, name: string): JsonObject | undefined {
  const value = body[name];
  if (value === undefined || value === null) return undefined;
  if (!isJsonObject(value)) throw new INVALID_ARGUMENT(`${name} must be an object`);
  return value;
}

/**
 * The members of a model that are kept and shown as they were given; absent ones stay absent.
 * @throws INVALID_ARGUMENT naming the member whose shape is wrong
 */
export function modelSettings(body: JsonObject): JsonObject {
  const settings: JsonObject = {};
  const description = optionalText(body, 'description');
  if (description !== undefined) settings.description = description;
  const enabled = body.is_enabled;
  if (enabled !== undefined && enabled !== null) {
    if (typeof enabled !== 'boolean') throw new INVALID_ARGUMENT('is_enabled must be true or false');
    settings.is_enabled = enabled;
  }
  for (const name of ['deploy_setting', 'guardrails', 'model_config']) {
    const value = optionalObject(body, name);
    if (value !== undefined) settings[name] = value;
  }
  const limiter = optionalObject(body, 'rate_limiter');
  if (limiter !== undefined) settings.rate_limiter = limiter;
  const schemas = optionalObject(body, 'interface');
  if (schemas !== undefined) settings.interface = interfaceTexts(schemas);
  return settings;
}

/** `input` and `output` are JSON Schemas, each an object or its JSON text; they are kept as texts. */
function interfaceTexts(schemas: JsonObject): JsonObject {
  const texts: JsonObject = {};
  for (const side of ['input', 'output']) {
    const schema = schemas[side];
    if (schema === undefined || schema === null) continue;
    if (typeof schema !== 'string' && !isJsonObject(schema)) {
      throw new INVALID_ARGUMENT(`interface.${side} must be a JSON Schema: an object, or its JSON text`);
    }
    texts[side] = schemaText(schema);
  }
  return texts;
}

function schemaText(schema: JsonValue): string {
  return typeof schema === 'string' ? schema : JSON.stringify(schema);
}
