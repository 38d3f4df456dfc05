import { INVALID_ARGUMENT } from '../errors.ts';
import { type JsonValue, parameterText, parseJson } from '../json.ts';
import { compilePatterns } from '../outbound/address-guard.ts';
import { DEFINITIONS, kindOf } from './definitions.ts';
import type { SettingValue } from './names.ts';

/**
 * Reads a value of `PUT /_cluster/settings`: scalars become texts, lists become lists of texts, a text given for a list
 * is split at its commas.
 * @throws INVALID_ARGUMENT when a setting that the platform reads cannot hold it
 */
export function readValue(name: string, value: JsonValue): SettingValue {
  const kind = kindOf(name);
  if (kind === 'patterns') {
    const list = Array.isArray(value) ? value.map(parameterText) : splitList(parameterText(value));
    compilePatterns(list, name);
    return list;
  }
  if (kind === 'count') return readCount(name, value);
  if (kind === 'choice') return readChoice(name, value);
  if (kind !== 'flag') return Array.isArray(value) ? value.map(parameterText) : parameterText(value);
  const text = parameterText(value);
  if (text !== 'true' && text !== 'false') {
    throw new INVALID_ARGUMENT(`Failed to parse value [${text.slice(0, 200)}] as only [true] or [false] are allowed.`);
  }
  return text;
}

function readCount(name: string, value: JsonValue): string {
  const text = parameterText(value);
  if (/^\d{1,9}$/.test(text)) return text;
  throw new INVALID_ARGUMENT(
    `Failed to parse value [${text.slice(0, 200)}] for setting [${name}]: a whole number from 0 to 999999999 is needed`,
  );
}

function readChoice(name: string, value: JsonValue): string {
  const text = parameterText(value);
  const choices = DEFINITIONS.get(name)?.choices ?? [];
  if (choices.includes(text)) return text;
  throw new INVALID_ARGUMENT(
    `Failed to parse value [${text.slice(0, 200)}] for setting [${name}]: one of [${choices.join(', ')}] is needed`,
  );
}

/** A setting given by the environment: a list is a JSON array of texts, or texts separated by commas. */
export function readEnvironmentValue(name: string, text: string): SettingValue {
  const list = kindOf(name) === 'patterns' && text.startsWith('[') ? parseJson(text) : undefined;
  return readValue(name, Array.isArray(list) ? list : text);
}

/** The text a value is stored as; lists and texts stay apart. */
export function storedText(value: SettingValue): string {
  return JSON.stringify(value);
}

/** The value of a stored text. */
export function storedValue(text: string): SettingValue {
  const value = parseJson(text);
  return Array.isArray(value) ? value.map(parameterText) : typeof value === 'string' ? value : text;
}

function splitList(text: string): string[] {
  return text
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
}
