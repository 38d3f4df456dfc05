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
  /** PEM files; `undefined`: plain HTTP. */
  readonly tls: { readonly cert: string; readonly key: string } | undefined;
  readonly logLevel: string;
  readonly logFile: string | undefined;
  readonly apiKey: string | undefined;
  /** The administrator to create while there is no user; `undefined` without a password. */
  readonly firstAdmin: { readonly name: string; readonly password: string } | undefined;
  /** `undefined`: tokens of an OpenID provider are not accepted. */
  readonly openId:
    | {
        readonly issuer: string;
        readonly audience: readonly string[];
        readonly rolesClaim: string;
        readonly nameClaim: string;
      }
    | undefined;
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
  /** Those of the two files that the operator named, so that they have to be there. */
  readonly namedConfigFiles: readonly ('TENON_CONFIG' | 'TENON_GLOBAL_CONFIG')[];
  /** Value of a variable for those files; `undefined` when it is not set or empty. Never called for `TENON_*`. */
  readonly variable: (name: string) => string | undefined;
}

const Environment = Type.Object({
  TENON_HOST: Type.String({ default: '127.0.0.1' }),
  TENON_PORT: Type.Integer({ minimum: 0, maximum: 65535, default: 9200 }),
  TENON_DATA_DIR: Type.String({ default: './data' }),
  TENON_DATABASE_URL: Type.Optional(Type.String({ pattern: '^postgres(ql)?://' })),
  TENON_PUBLIC_URL: Type.Optional(Type.String({ pattern: '^https?://[^/]' })),
  TENON_TLS_CERT: Type.Optional(Type.String()),
  TENON_TLS_KEY: Type.Optional(Type.String()),
  TENON_LOG_LEVEL: Type.Enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], { default: 'info' }),
  TENON_LOG_FILE: Type.Optional(Type.String()),
  TENON_API_KEY: Type.Optional(Type.String({ pattern: '^[\\x21-\\x7e]+$' })),
  TENON_ADMIN_USER: Type.String({ default: 'admin' }),
  TENON_ADMIN_PASSWORD: Type.Optional(Type.String()),
  TENON_OIDC_ISSUER: Type.Optional(Type.String({ pattern: '^https?://[^/?#\\s]+[^?#\\s]*$' })),
  TENON_OIDC_AUDIENCE: Type.Optional(Type.String()),
  TENON_OIDC_ROLES_CLAIM: Type.String({ default: 'roles' }),
  TENON_OIDC_NAME_CLAIM: Type.String({ default: 'preferred_username' }),
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

const CONFIG_FILES = ['TENON_CONFIG', 'TENON_GLOBAL_CONFIG'] as const;

/** What each variable with a constraint has to be; the value itself is never shown, it may be a secret. */
const EXPECTATIONS: Readonly<Record<string, string>> = {
  TENON_PORT: 'must be a port number from 0 to 65535 (0 takes a free one)',
  TENON_DATABASE_URL: 'must be a postgres:// address, or unset for SQLite in TENON_DATA_DIR',
  TENON_PUBLIC_URL: 'must be an http:// or https:// address',
  TENON_OPENSEARCH_URL: 'must be an http:// or https:// address',
  TENON_LOG_LEVEL: 'must be one of trace, debug, info, warn, error, fatal, silent',
  TENON_API_KEY: 'must be visible ASCII characters without spaces',
  TENON_OIDC_ISSUER: 'must be the https:// address that tokens name as their issuer',
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
    tls: tlsFiles(values),
    logLevel: values.TENON_LOG_LEVEL,
    logFile: values.TENON_LOG_FILE,
    apiKey: values.TENON_API_KEY,
    firstAdmin:
      values.TENON_ADMIN_PASSWORD === undefined
        ? undefined
        : Object.freeze({ name: values.TENON_ADMIN_USER, password: values.TENON_ADMIN_PASSWORD }),
    openId: openId(values),
    keystore: values.TENON_KEYSTORE,
    masterKey: values.TENON_MASTER_KEY,
    keyFile: resolve(values.TENON_KEY_FILE ?? join(configHome, 'master.key')),
    keyCommand: values.TENON_KEY_COMMAND,
    trustedEndpoints: patterns('TENON_TRUSTED_ENDPOINTS', values.TENON_TRUSTED_ENDPOINTS),
    trustedPrivateEndpoints: patterns('TENON_TRUSTED_PRIVATE_ENDPOINTS', values.TENON_TRUSTED_PRIVATE_ENDPOINTS),
    openSearchUrl: values.TENON_OPENSEARCH_URL,
    configFile: resolve(values.TENON_CONFIG),
    globalConfigFile: resolve(values.TENON_GLOBAL_CONFIG ?? join(configHome, 'tenon.json')),
    namedConfigFiles: Object.freeze(CONFIG_FILES.filter((name) => env[name])),
    variable: (name: string) => (Object.hasOwn(env, name) ? env[name] || undefined : undefined),
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

function tlsFiles({ TENON_TLS_CERT: cert, TENON_TLS_KEY: key }: Static<typeof Environment>): Config['tls'] {
  if (cert === undefined && key === undefined) return undefined;
  if (cert !== undefined && key !== undefined) return Object.freeze({ cert: resolve(cert), key: resolve(key) });
  const names = ['TENON_TLS_CERT', 'TENON_TLS_KEY'];
  const [missing, given] = cert === undefined ? names : names.reverse();
  throw new StartupError(`${missing} must be set with ${given}: TLS needs a certificate and its key`);
}

function openId(values: Static<typeof Environment>): Config['openId'] {
  const { TENON_OIDC_ISSUER: issuer, TENON_OIDC_AUDIENCE: audience } = values;
  if (issuer === undefined) return undefined;
  const accepted = (audience ?? '').split(',').map((name) => name.trim());
  const audiences = accepted.filter((name) => name !== '');
  if (!URL.canParse(issuer)) throw new StartupError(`TENON_OIDC_ISSUER ${EXPECTATIONS.TENON_OIDC_ISSUER}`);
  if (audiences.length === 0) {
    throw new StartupError(
      'TENON_OIDC_AUDIENCE must be set with TENON_OIDC_ISSUER: tokens for other services of that provider would be accepted',
    );
  }
  const { TENON_OIDC_ROLES_CLAIM: rolesClaim, TENON_OIDC_NAME_CLAIM: nameClaim } = values;
  return Object.freeze({ issuer, audience: Object.freeze(audiences), rolesClaim, nameClaim });
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

/** What the command line needs to talk to a running server. */
export interface ClientConfig {
  /** Without a slash at the end. */
  readonly url: string;
  /** Used when `user` is not set. */
  readonly apiKey: string | undefined;
  readonly user: string | undefined;
  readonly password: string | undefined;
}

const DEFAULT_URL = 'http://127.0.0.1:9200';

/** @throws StartupError naming the variable and what it has to be, never its value */
export function readClientConfig(env: Readonly<Record<string, string | undefined>>): ClientConfig {
  const address = env.TENON_URL || DEFAULT_URL;
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol) || url.search !== '' || url.hash !== '') {
    throw new StartupError('TENON_URL must be the http:// or https:// address of a running server');
  }
  if (url.username !== '' || url.password !== '') {
    throw new StartupError('TENON_URL must not hold a user or a password: set TENON_USER and TENON_PASSWORD');
  }
  const [apiKey, user, password] = ['TENON_API_KEY', 'TENON_USER', 'TENON_PASSWORD'].map(
    (name) => env[name] || undefined,
  );
  if (apiKey !== undefined && !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new StartupError(`TENON_API_KEY ${EXPECTATIONS.TENON_API_KEY}`);
  }
  if (user?.includes(':')) throw new StartupError('TENON_USER must not hold a colon');
  return Object.freeze({ url: url.href.replace(/\/+$/, ''), apiKey, user, password });
}
