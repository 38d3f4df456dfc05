import { INVALID_ARGUMENT } from '../errors.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../json.ts';

/**
 * Checks what a person filled in against the form a server asked with (MCP, Elicitation, "Requested Schema": an object of
 * flat fields). Keywords that a form may not have are not looked at, and no pattern of a stranger is run.
 * @throws INVALID_ARGUMENT naming the field
 */
export function checkFormContent(content: JsonObject, schema: JsonObject): void {
  const fields = isJsonObject(schema.properties) ? schema.properties : {};
  const required = Array.isArray(schema.required) ? schema.required : [];
  for (const name of required) {
    if (typeof name === 'string' && (content[name] ?? null) === null) refuse(name, 'is required');
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
  switch (field.type) {
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
      return undefined;
  }
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
  if (!isJsonObject(items)) return undefined;
  const fault = chosen.map((item) => fieldFault(item, items)).find((found) => found !== undefined);
  return fault === undefined ? undefined : `has an item that ${fault}`;
}

/** The values of a field that offers a choice, in any of the ways a form can say it. */
function choicesOf(field: JsonObject): readonly JsonValue[] | undefined {
  if (Array.isArray(field.enum)) return field.enum;
  const titled = Array.isArray(field.oneOf) ? field.oneOf : field.anyOf;
  if (!Array.isArray(titled)) return undefined;
  return titled.flatMap((choice) => (isJsonObject(choice) && choice.const !== undefined ? [choice.const] : []));
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
