import { INVALID_ARGUMENT, StartupError, VALIDATION_FAILED, WRONG_SHAPE } from '../errors.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../json.ts';
import type { SettingScope, SettingStore } from '../store/settings.ts';
import { DEFINITIONS } from './definitions.ts';
import { flat, flatten, nest, type SettingValue } from './names.ts';
import type { Settings } from './types.ts';
import { readEnvironmentValue, readValue, storedText, storedValue } from './values.ts';

const SCOPES = ['persistent', 'transient'] as const;
const REFRESH_MS = 1000;
/** Longest part of a caller's text that a message repeats. */
const SHOWN = 200;

export interface SettingsDeps {
  readonly store: SettingStore;
  /** Settings given by the environment, by full name; lists as a JSON array or separated by commas. */
  readonly environment: Readonly<Record<string, string>>;
  /** Forget the transient settings of an earlier process. */
  readonly clearTransient?: boolean;
}

export interface RefreshableSettings extends Settings {
  /** Reads the store again, so that changes of other processes are seen. */
  refresh(): Promise<void>;
  /** Reads the store each second; the first of a row of failures goes to `report`. Call what it answers to stop. */
  follow(report: (error: unknown) => void): () => void;
}

type Values = Map<string, SettingValue>;
type Change = { scope: SettingScope; name: string; value: SettingValue | null };

/**
 * The cluster settings: transient over persistent over environment over default.
 * @throws StartupError when the environment holds a value that its setting cannot take
 */
export async function createSettings(deps: SettingsDeps): Promise<RefreshableSettings> {
  const { store } = deps;
  const defaults = defaultsOf(deps.environment);
  const listeners: ((names: readonly string[]) => void)[] = [];
  let scopes: Record<SettingScope, Values> = { persistent: new Map(), transient: new Map() };
  let reading: Promise<void> = Promise.resolve();

  const inForce = (name: string): SettingValue | undefined =>
    scopes.transient.get(name) ?? scopes.persistent.get(name) ?? defaults.get(name);

  const read = async (): Promise<void> => {
    const fresh: Record<SettingScope, Values> = { persistent: new Map(), transient: new Map() };
    for (const { scope, name, value } of await store.all()) fresh[scope].set(name, storedValue(value));
    const names = new Set([...Object.values(scopes), ...Object.values(fresh)].flatMap((values) => [...values.keys()]));
    const before = new Map([...names].map((name) => [name, JSON.stringify(inForce(name))]));
    scopes = fresh;
    const changed = [...names].filter((name) => before.get(name) !== JSON.stringify(inForce(name)));
    if (changed.length > 0) for (const listener of listeners) listener(changed);
  };
  /** One read at a time: an older answer never replaces a newer one. */
  const readInTurn = (): Promise<void> => {
    reading = reading.then(read, read);
    return reading;
  };

  if (deps.clearTransient) await store.clearTransient();
  await readInTurn();

  return {
    text: (name) => {
      const value = inForce(name);
      return value === undefined || typeof value === 'string' ? value : JSON.stringify(value);
    },
    flag: (name) => inForce(name) === 'true',
    list: (name) => {
      const value = inForce(name);
      return typeof value === 'string' ? [value] : value;
    },
    update: async (body, { flat: isFlat = false } = {}) => {
      checkMembers(body);
      await readInTurn();
      const changes = SCOPES.flatMap((scope) => readChanges(scope, body[scope], scopes[scope]));
      await store.apply(
        changes.map(({ scope, name, value }) => ({ scope, name, value: value === null ? null : storedText(value) })),
      );
      await readInTurn();
      const applied = (scope: SettingScope): Values =>
        new Map(
          changes.flatMap((change) =>
            change.scope === scope && change.value !== null ? [[change.name, change.value]] : [],
          ),
        );
      const shape = isFlat ? flat : nest;
      return { acknowledged: true, persistent: shape(applied('persistent')), transient: shape(applied('transient')) };
    },
    describe: ({ includeDefaults, flat: isFlat }) => {
      const shape = isFlat ? flat : nest;
      const { persistent, transient } = scopes;
      const unset = [...defaults].filter(([name]) => !persistent.has(name) && !transient.has(name));
      return {
        persistent: shape(persistent),
        transient: shape(transient),
        ...(includeDefaults ? { defaults: shape(new Map(unset)) } : {}),
      };
    },
    onChange: (listener) => {
      listeners.push(listener);
    },
    refresh: readInTurn,
    follow: (report) => {
      let state: 'well' | 'reading' | 'failing' = 'well';
      const look = async (): Promise<void> => {
        if (state === 'reading') return;
        const before = state;
        state = 'reading';
        try {
          await readInTurn();
          state = 'well';
        } catch (error) {
          state = 'failing';
          if (before === 'well') report(error);
        }
      };
      const timer = setInterval(look, REFRESH_MS).unref();
      return () => clearInterval(timer);
    },
  };
}

function defaultsOf(environment: Readonly<Record<string, string>>): Values {
  const defaults: Values = new Map();
  for (const [name, definition] of DEFINITIONS) {
    if (definition.default !== undefined) defaults.set(name, definition.default);
  }
  for (const [name, text] of Object.entries(environment)) {
    try {
      defaults.set(name, readEnvironmentValue(name, text));
    } catch (error) {
      throw new StartupError(`The environment sets ${name} to a value it cannot have: ${(error as Error).message}`);
    }
  }
  return defaults;
}

/** @throws WRONG_SHAPE for another member, VALIDATION_FAILED when nothing is to be changed */
function checkMembers(body: JsonObject): void {
  for (const [name, given] of Object.entries(body)) {
    const shown = name.slice(0, SHOWN);
    if (name !== 'persistent' && name !== 'transient') {
      throw new WRONG_SHAPE(`[cluster_update_settings_request] unknown field [${shown}]`);
    }
    if (given !== null && !isJsonObject(given)) {
      throw new WRONG_SHAPE(`[cluster_update_settings_request] [${shown}] must be an object`);
    }
  }
  if (SCOPES.every((scope) => Object.keys(body[scope] ?? {}).length === 0)) {
    throw new VALIDATION_FAILED('1: no settings to update;');
  }
}

/** `null` resets a name, and `x.*` with `null` whatever is set below `x`. @throws INVALID_ARGUMENT */
function readChanges(scope: SettingScope, given: JsonValue | undefined, current: Values): Change[] {
  const changes = new Map<string, Change>();
  for (const [name, value] of flatten(isJsonObject(given) ? given : {})) {
    if (value === null && (name === '*' || name.endsWith('.*'))) {
      for (const held of current.keys()) {
        if (held.startsWith(name.slice(0, -1))) changes.set(held, { scope, name: held, value: null });
      }
    } else if (!/^plugins\.[\w.-]+$/.test(name)) {
      throw new INVALID_ARGUMENT(`${scope} setting [${name.slice(0, SHOWN)}], not recognized`);
    } else {
      changes.set(name, { scope, name, value: value === null ? null : readValue(name, value) });
    }
  }
  return [...changes.values()];
}
