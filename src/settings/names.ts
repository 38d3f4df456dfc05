import { isJsonObject, type JsonObject, type JsonValue } from '../json.ts';

/** A setting's value: a text, or a list of texts. */
export type SettingValue = string | readonly string[];

/** Flat and nested settings of a request as full names; a list, a scalar or `null` ends a name. */
export function flatten(settings: JsonObject, prefix = ''): [name: string, value: JsonValue][] {
  return Object.entries(settings).flatMap(([name, value]) =>
    isJsonObject(value) ? flatten(value, `${prefix}${name}.`) : [[`${prefix}${name}`, value] as [string, JsonValue]],
  );
}

/** Full names as nested objects. Where a name is also the start of another, the longer one stays dotted inside. */
export function nest(values: ReadonlyMap<string, SettingValue>): JsonObject {
  const root: JsonObject = Object.create(null);
  for (const name of [...values.keys()].sort()) {
    const segments = name.split('.');
    let node = root;
    while (segments.length > 1) {
      const child = node[segments[0] ?? ''];
      if (child !== undefined && !isJsonObject(child)) break;
      const next: JsonObject = child ?? Object.create(null);
      node[segments.shift() ?? ''] = next;
      node = next;
    }
    node[segments.join('.')] = copy(values.get(name));
  }
  return root;
}

/** Full names as members. */
export function flat(values: ReadonlyMap<string, SettingValue>): JsonObject {
  const root: JsonObject = Object.create(null);
  for (const name of [...values.keys()].sort()) root[name] = copy(values.get(name));
  return root;
}

function copy(value: SettingValue | undefined): JsonValue {
  return typeof value === 'string' || value === undefined ? (value ?? '') : [...value];
}
