import { INVALID_ARGUMENT } from '../errors.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../json.ts';
import { speaksMcp } from './protocols.ts';
import type { ClientConfig, ConnectorProtocol } from './types.ts';

const HTTP_DEFAULTS: ClientConfig = {
  max_connection: 30,
  connection_timeout: 30,
  read_timeout: 30,
  retry_backoff_policy: 'constant',
  max_retry_times: 0,
  retry_backoff_millis: 200,
  retry_timeout_seconds: 30,
  skip_ssl_verification: false,
  max_total_timeout: 300,
  protocol_version: 'auto',
  elicitation: 'decline',
};
const MCP_DEFAULTS: ClientConfig = {
  ...HTTP_DEFAULTS,
  retry_backoff_policy: 'exponential_full_jitter',
  max_retry_times: 3,
};
const DEFAULTS: Record<ConnectorProtocol, ClientConfig> = {
  http: HTTP_DEFAULTS,
  mcp_streamable_http: MCP_DEFAULTS,
  mcp_stdio: MCP_DEFAULTS,
};
const POLICIES = ['constant', 'exponential_equal_jitter', 'exponential_full_jitter'];
const ELICITATION = ['decline', 'accept_defaults', 'ask'];
/** Longest delay a timer of the platform can hold, in seconds. */
const LONGEST_SECONDS = 2_147_483;
const INTEGERS: Record<string, { least: number; most: number }> = {
  max_connection: { least: 1, most: 10_000 },
  connection_timeout: { least: 1, most: LONGEST_SECONDS },
  read_timeout: { least: 1, most: LONGEST_SECONDS },
  max_retry_times: { least: -1, most: 1_000 },
  retry_backoff_millis: { least: 1, most: LONGEST_SECONDS * 1000 },
  retry_timeout_seconds: { least: 1, most: LONGEST_SECONDS },
};
const SHOWN = [
  'max_connection',
  'connection_timeout',
  'read_timeout',
  'retry_backoff_policy',
  'max_retry_times',
  'retry_backoff_millis',
  'retry_timeout_seconds',
  'skip_ssl_verification',
] as const;

/**
 * The members of a `client_config` that are known for the protocol, typed; unknown ones are left out.
 * @throws INVALID_ARGUMENT naming the member
 */
export function readClientConfig(given: JsonValue, protocol: ConnectorProtocol): JsonObject {
  if (!isJsonObject(given)) throw new INVALID_ARGUMENT('client_config must be an object.');
  const config: JsonObject = {};
  const isMcp = speaksMcp({ protocol });
  const integers = isMcp ? { ...INTEGERS, max_total_timeout: { least: 1, most: LONGEST_SECONDS } } : INTEGERS;
  for (const [name, range] of Object.entries(integers)) {
    if (isGiven(given[name])) config[name] = integer(name, given[name], range);
  }
  const { retry_backoff_policy, skip_ssl_verification, mutual_tls_enabled, protocol_version, elicitation } = given;
  if (isGiven(retry_backoff_policy)) {
    if (typeof retry_backoff_policy !== 'string' || !POLICIES.includes(retry_backoff_policy)) {
      throw new INVALID_ARGUMENT('Unsupported retry backoff policy');
    }
    config.retry_backoff_policy = retry_backoff_policy;
  }
  if (isGiven(skip_ssl_verification))
    config.skip_ssl_verification = flag('skip_ssl_verification', skip_ssl_verification);
  if (isGiven(mutual_tls_enabled) && flag('mutual_tls_enabled', mutual_tls_enabled)) {
    throw new INVALID_ARGUMENT(
      'client_config.mutual_tls_enabled is not supported: client certificates cannot be stored.',
    );
  }
  if (isMcp && isGiven(protocol_version)) {
    if (typeof protocol_version !== 'string' || !/^(?:auto|legacy|\d{4}-\d{2}-\d{2})$/.test(protocol_version)) {
      throw new INVALID_ARGUMENT(
        'client_config.protocol_version must be auto, legacy, or a protocol revision such as 2026-07-28.',
      );
    }
    config.protocol_version = protocol_version;
  }
  if (isMcp && isGiven(elicitation)) {
    if (typeof elicitation !== 'string' || !ELICITATION.includes(elicitation)) {
      throw new INVALID_ARGUMENT(`client_config.elicitation must be one of [${ELICITATION.join(', ')}].`);
    }
    config.elicitation = elicitation;
  }
  return config;
}

/** The configuration in force: what was given over the defaults of the protocol. */
export function clientConfigInForce(stored: JsonValue | undefined, protocol: ConnectorProtocol): ClientConfig {
  return { ...DEFAULTS[protocol], ...(isJsonObject(stored) ? stored : {}) };
}

/** `client_config` as GET shows one that was given: documented members filled in, members of ours as given. */
export function shownClientConfig(stored: JsonObject, protocol: ConnectorProtocol): JsonObject {
  const inForce = clientConfigInForce(stored, protocol);
  return { ...Object.fromEntries(SHOWN.map((name) => [name, inForce[name]])), ...stored };
}

function isGiven(value: JsonValue | undefined): value is JsonValue {
  return value !== undefined && value !== null;
}

function integer(name: string, value: JsonValue | undefined, { least, most }: { least: number; most: number }): number {
  const number = typeof value === 'string' && /^-?\d+$/.test(value) ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isInteger(number) || number < least || number > most) {
    throw new INVALID_ARGUMENT(`client_config.${name} must be an integer from ${least} to ${most}.`);
  }
  return number;
}

function flag(name: string, value: JsonValue): boolean {
  if (value === true || value === 'true') return true;
  if (value === false || value === 'false') return false;
  throw new INVALID_ARGUMENT(`client_config.${name} must be true or false.`);
}
