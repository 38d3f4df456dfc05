import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { envSchema } from 'env-schema';
import { type Static, Type } from 'typebox';
import { StartupError } from './errors.ts';
import { compilePattern } from './outbound/pattern.ts';

/** The configuration of one process: read once from the environment, frozen, handed down by `app.ts`. */
export interface Config {
  readonly host: string;
  readonly port: number;
  readonly dataDir: string;
  /** `undefined`: SQLite in `dataDir`. */
  readonly databaseUrl: string | undefined;
  readonly publicUrl: string | undefined;
  readonly logLevel: string;
  readonly logFile: string | undefined;
  readonly apiKey: string | undefined;
  readonly keystore: 'env' | 'file' | 'command' | 'keychain' | undefined;
  readonly masterKey: string | undefined;
  readonly keyFile: string;
  readonly keyCommand: string | undefined;
  /** `undefined` when the variable is not set. */
  readonly trustedEndpoints: readonly string[] | undefined;
  readonly trustedPrivateEndpoints: readonly string[] | undefined;
  readonly openSearchUrl: string | undefined;
  readonly configFile: string;
  readonly globalConfigFile: string;
}

const Environment = Type.Object({
  TENON_HOST: Type.String({ default: '127.0.0.1' }),
  TENON_PORT: Type.Integer({ minimum: 0, maximum: 65535, default: 9200 }),
  TENON_DATA_DIR: Type.String({ default: './data' }),
  TENON_DATABASE_URL: Type.Optional(Type.String({ pattern: '^postgres(ql)?://' })),
  TENON_PUBLIC_URL: Type.Optional(Type.String({ pattern: '^https?://[^/]' })),
  TENON_LOG_LEVEL: Type.Enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], { default: 'info' }),
  TENON_LOG_FILE: Type.Optional(Type.String()),
  TENON_API_KEY: Type.Optional(Type.String({ pattern: '^[\\x21-\\x7e]+$' })),
  TENON_KEYSTORE: Type.Optional(Type.Enum(['env', 'file', 'command', 'keychain'])),
  TENON_MASTER_KEY: Type.Optional(Type.String()),
  TENON_KEY_FILE: Type.Optional(Type.String()),
  TENON_KEY_COMMAND: Type.Optional(Type.String()),
  TENON_TRUSTED_ENDPOINTS: Type.Optional(Type.String()),
  TENON_TRUSTED_PRIVATE_ENDPOINTS: Type.Optional(Type.String()),
  TENON_OPENSEARCH_URL: Type.Optional(Type.String({ pattern: '^https?://[^/]' })),
  TENON_CONFIG: Type.String({ default: './tenon.json' }),
  TENON_GLOBAL_CONFIG: Type.Optional(Type.String()),
});

/** What each variable with a constraint has to be; the value itself is never shown, it may be a secret. */
const EXPECTATIONS: Readonly<Record<string, string>> = {
  TENON_PORT: 'must be a port number from 0 to 65535 (0 takes a free one)',
  TENON_DATABASE_URL: 'must be a postgres:// address, or unset for SQLite in TENON_DATA_DIR',
  TENON_PUBLIC_URL: 'must be an http:// or https:// address',
  TENON_OPENSEARCH_URL: 'must be an http:// or https:// address',
  TENON_LOG_LEVEL: 'must be one of trace, debug, info, warn, error, fatal, silent',
  TENON_API_KEY: 'must be visible ASCII characters without spaces',
  TENON_KEYSTORE: 'must be one of env, file, command, keychain',
};

/**
 * Reads the `TENON_*` variables; one that is set to the empty text counts as not set.
 * @throws StartupError naming the variable and what it has to be, never its value.
 */
export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const names = Object.keys(Environment.properties);
  const given = names.filter((name) => env[name]).map((name) => [name, env[name]]);
  const values = validate(Object.fromEntries(given));
  const configHome = join(env['XDG_CONFIG_HOME'] || join(homedir(), '.config'), 'tenon');
  return Object.freeze({
    host: values.TENON_HOST,
    port: values.TENON_PORT,
    dataDir: resolve(values.TENON_DATA_DIR),
    databaseUrl: values.TENON_DATABASE_URL,
    publicUrl: values.TENON_PUBLIC_URL,
    logLevel: values.TENON_LOG_LEVEL,
    logFile: values.TENON_LOG_FILE,
    apiKey: values.TENON_API_KEY,
    keystore: values.TENON_KEYSTORE,
    masterKey: values.TENON_MASTER_KEY,
    keyFile: resolve(values.TENON_KEY_FILE ?? join(configHome, 'master.key')),
    keyCommand: values.TENON_KEY_COMMAND,
    trustedEndpoints: patterns('TENON_TRUSTED_ENDPOINTS', values.TENON_TRUSTED_ENDPOINTS),
    trustedPrivateEndpoints: patterns('TENON_TRUSTED_PRIVATE_ENDPOINTS', values.TENON_TRUSTED_PRIVATE_ENDPOINTS),
    openSearchUrl: values.TENON_OPENSEARCH_URL,
    configFile: resolve(values.TENON_CONFIG),
    globalConfigFile: resolve(values.TENON_GLOBAL_CONFIG ?? join(configHome, 'tenon.json')),
  });
}

function validate(given: Record<string, unknown>): Static<typeof Environment> {
  try {
    return envSchema<Static<typeof Environment>>({ schema: { ...Environment }, data: given, env: false });
  } catch (error) {
    const [first] = (error as { errors?: readonly { instancePath: string; message?: string }[] }).errors ?? [];
    const name = first?.instancePath.slice(1) ?? '';
    throw new StartupError(`${name} ${EXPECTATIONS[name] ?? first?.message ?? 'is not valid'}`);
  }
}

function patterns(name: string, text: string | undefined): readonly string[] | undefined {
  if (text === undefined) return undefined;
  const list = text
    .split(',')
    .map((pattern) => pattern.trim())
    .filter((pattern) => pattern !== '');
  for (const pattern of list) {
    try {
      compilePattern(pattern);
    } catch {
      throw new StartupError(`${name}: '${pattern}' is not a regular expression (the list is separated by commas)`);
    }
  }
  return Object.freeze(list);
}
