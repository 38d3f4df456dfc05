import { INVALID_ARGUMENT } from '../errors.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../json.ts';

/**
 * Checks what a person filled in against the form a server asked with (MCP, Elicitation, "Requested Schema": an object of
 * flat fields). A field that names no type takes any single value, one that names several takes what fits one of them. Other
 * keywords are not looked at; a `pattern` is left to the server, no expression of a stranger is run here.
 * @throws INVALID_ARGUMENT naming the field
 */
export function checkFormContent(content: JsonObject, schema: JsonObject): void {
  const fields = isJsonObject(schema.properties) ? schema.properties : {};
  const required = Array.isArray(schema.required) ? schema.required : [];
  for (const name of required) {
    if (typeof name !== 'string') continue;
    const given = Object.hasOwn(content, name) ? content[name] : undefined;
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    const nullable = isJsonObject(field) && fieldFault(null, field) === undefined;
    if (given === undefined || (given === null && !nullable)) refuse(name, 'is required');
  }
  for (const [name, value] of Object.entries(content)) {
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (field === undefined) refuse(name, `is no field of the form; its fields are: ${Object.keys(fields).join(', ')}`);
    const fault = isJsonObject(field) ? fieldFault(value, field) : undefined;
    if (fault !== undefined) refuse(name, fault);
  }
}

function refuse(name: string, what: string): never {
  throw new INVALID_ARGUMENT(`content.${name} ${what}`);
}

function fieldFault(value: JsonValue, field: JsonObject): string | undefined {
  const choices = choicesOf(field);
  if (choices !== undefined) return choices.includes(value) ? undefined : `must be one of ${JSON.stringify(choices)}`;
  const ways = alternativesOf(field);
  if (ways === undefined) return typeFault(value, field, field.type);
  const faults = ways.map((way) => fieldFault(value, way));
  return faults.includes(undefined) ? undefined : [...new Set(faults)].join(', or ');
}

/** Each of the ways a field may be filled in, where there are several: a list of types, or schemas side by side. */
function alternativesOf(field: JsonObject): readonly JsonObject[] | undefined {
  const { oneOf, anyOf, type, ...rest } = field;
  if (Array.isArray(type)) return type.map((each) => ({ ...rest, type: each }));
  const schemas = Array.isArray(oneOf) ? oneOf : anyOf;
  return Array.isArray(schemas) && schemas.length > 0 ? schemas.filter(isJsonObject) : undefined;
}

function typeFault(value: JsonValue, field: JsonObject, type: JsonValue | undefined): string | undefined {
  switch (type) {
    case undefined:
      return value !== null && typeof value !== 'object' ? scalarFault(value, field) : 'must be a single value';
    case 'null':
      return value === null ? undefined : 'must be null';
    case 'string':
      return typeof value === 'string' ? textFault(value, field) : 'must be a text';
    case 'number':
      return typeof value === 'number' ? rangeFault(value, field) : 'must be a number';
    case 'integer':
      return Number.isInteger(value) ? rangeFault(Number(value), field) : 'must be a whole number';
    case 'boolean':
      return typeof value === 'boolean' ? undefined : 'must be true or false';
    case 'array':
      return Array.isArray(value) ? itemsFault(value, field) : 'must be an array';
    default:
      return 'is of a type that a form cannot have: decline it';
  }
}

function scalarFault(value: JsonValue, field: JsonObject): string | undefined {
  if (typeof value === 'string') return textFault(value, field);
  return typeof value === 'number' ? rangeFault(value, field) : undefined;
}

function textFault(text: string, { minLength, maxLength, format }: JsonObject): string | undefined {
  const length = [...text].length;
  if (isBelow(length, minLength)) return `must have at least ${minLength} characters`;
  if (isAbove(length, maxLength)) return `must have at most ${maxLength} characters`;
  const fits = typeof format === 'string' ? FORMATS.get(format) : undefined;
  return fits === undefined || fits(text) ? undefined : `must have the format ${format}`;
}

function rangeFault(value: number, { minimum, maximum }: JsonObject): string | undefined {
  if (isBelow(value, minimum)) return `must be at least ${minimum}`;
  return isAbove(value, maximum) ? `must be at most ${maximum}` : undefined;
}

function itemsFault(chosen: readonly JsonValue[], { items, minItems, maxItems }: JsonObject): string | undefined {
  if (isBelow(chosen.length, minItems)) return `must have at least ${minItems} items`;
  if (isAbove(chosen.length, maxItems)) return `must have at most ${maxItems} items`;
  if (chosen.some((item) => typeof item === 'object')) return 'has an item that is no single value';
  const each = isJsonObject(items) ? items : {};
  const fault = chosen.map((item) => fieldFault(item, each)).find((found) => found !== undefined);
  return fault === undefined ? undefined : `has an item that ${fault}`;
}

/** The values of a field that offers a choice, in any of the ways a form can say it. */
function choicesOf(field: JsonObject): readonly JsonValue[] | undefined {
  if (Array.isArray(field.enum)) return field.enum;
  if (field.const !== undefined) return [field.const];
  const titled = Array.isArray(field.oneOf) ? field.oneOf : field.anyOf;
  if (!Array.isArray(titled)) return undefined;
  const values = titled.flatMap((choice) => (isJsonObject(choice) && choice.const !== undefined ? [choice.const] : []));
  return values.length > 0 && values.length === titled.length ? values : undefined;
}

const FORMATS: ReadonlyMap<string, (text: string) => boolean> = new Map([
  ['email', (text: string) => /^[^\s@]+@[^\s@]+$/.test(text)],
  ['uri', (text: string) => URL.canParse(text)],
  ['date', (text: string) => /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text))],
  ['date-time', (text: string) => /^\d{4}-\d\d-\d\dT/i.test(text) && !Number.isNaN(Date.parse(text))],
]);

function isBelow(value: number, limit: JsonValue | undefined): boolean {
  return typeof limit === 'number' && value < limit;
}

function isAbove(value: number, limit: JsonValue | undefined): boolean {
  return typeof limit === 'number' && value > limit;
}
