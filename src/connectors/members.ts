import { INVALID_ARGUMENT, WRONG_SHAPE } from '../errors.ts';
import { isJsonObject, type JsonObject, type JsonValue, parameterTexts } from '../json.ts';
import { checkProcessFunction } from './processing-names.ts';

const ACTION_TYPES = ['PREDICT', 'EXECUTE', 'BATCH_PREDICT', 'CANCEL_BATCH_PREDICT', 'BATCH_PREDICT_STATUS'];
const METHODS = ['POST', 'GET', 'PUT', 'DELETE'];

/** `null` counts as absent, as everywhere in the API. */
export function isGiven(value: JsonValue | undefined): value is JsonValue {
  return value !== undefined && value !== null;
}

/** A member that is a text; numbers and flags are taken as their text. @throws WRONG_SHAPE */
export function textMember(name: string, value: JsonValue | undefined): string | undefined {
  if (!isGiven(value)) return undefined;
  if (typeof value === 'object') throw new WRONG_SHAPE(`${name} must be a string.`);
  return String(value);
}

/** A map of texts: `credential`, `headers`. No message shows a value. @throws WRONG_SHAPE */
export function textMap(name: string, value: JsonValue | undefined): Record<string, string> | undefined {
  if (!isGiven(value)) return undefined;
  if (!isJsonObject(value)) throw new WRONG_SHAPE(`${name} must be an object whose values are strings.`);
  for (const [key, entry] of Object.entries(value)) {
    if (typeof entry === 'object') throw new WRONG_SHAPE(`${name} '${key.slice(0, 100)}' must be a string.`);
  }
  return parameterTexts(value);
}

/** `parameters`: values that are not texts are kept as their JSON text. @throws WRONG_SHAPE */
export function parameterMap(value: JsonValue | undefined): Record<string, string> | undefined {
  if (!isGiven(value)) return undefined;
  if (!isJsonObject(value)) throw new WRONG_SHAPE('parameters must be an object.');
  return parameterTexts(value);
}

/** The actions of an `http` connector, normalised: types and methods in upper case. @throws INVALID_ARGUMENT, WRONG_SHAPE */
export function readActions(value: JsonValue | undefined): JsonObject[] | undefined {
  if (!isGiven(value)) return undefined;
  if (!Array.isArray(value)) throw new WRONG_SHAPE('actions must be an array.');
  return value.map(readAction);
}

function readAction(action: JsonValue): JsonObject {
  if (!isJsonObject(action)) throw new WRONG_SHAPE('Each of actions must be an object.');
  const type = textMember('action_type', action.action_type)?.toUpperCase();
  const method = textMember('method', action.method)?.toUpperCase();
  const url = textMember('url', action.url);
  if (type === undefined) throw new INVALID_ARGUMENT("action type can't be null");
  if (!ACTION_TYPES.includes(type)) {
    throw new INVALID_ARGUMENT(`Unsupported action type. Please use one of [${ACTION_TYPES.join(', ').toLowerCase()}]`);
  }
  if (method === undefined) throw new INVALID_ARGUMENT("method can't be null");
  if (!METHODS.includes(method)) {
    throw new INVALID_ARGUMENT(`unsupported http method. Please use one of [${METHODS.join(', ')}]`);
  }
  if (url === undefined || url.trim() === '') throw new INVALID_ARGUMENT("url can't be null");
  const read: JsonObject = { action_type: type, method, url };
  const name = textMember('name', action.name);
  if (name !== undefined) read.name = actionName(name);
  const headers = textMap('headers', action.headers);
  if (headers !== undefined) read.headers = headers;
  if (isGiven(action.request_body)) {
    if (typeof action.request_body !== 'string') {
      throw new WRONG_SHAPE('request_body must be a string that holds the JSON template.');
    }
    read.request_body = action.request_body;
  }
  for (const member of ['pre_process_function', 'post_process_function'] as const) {
    const value = textMember(member, action[member]);
    if (value === undefined) continue;
    checkProcessFunction(member, value);
    read[member] = value;
  }
  if (typeof action.supports_structured_output === 'boolean') {
    read.supports_structured_output = action.supports_structured_output;
  }
  return read;
}

function actionName(name: string): string {
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(name)) {
    throw new INVALID_ARGUMENT("An action name must be 1 to 64 letters, digits, '_' or '-'.");
  }
  if (ACTION_TYPES.includes(name.toUpperCase())) {
    throw new INVALID_ARGUMENT(`An action name must not be an action type: ${name}.`);
  }
  return name;
}
