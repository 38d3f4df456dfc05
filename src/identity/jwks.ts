import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey } from 'jose';
import { isJsonObject, type JsonObject, parseJson } from '../json.ts';
import type { EndpointPolicy, Outbound } from '../outbound/types.ts';
import type { Logger } from '../telemetry/logger.ts';

/** The OpenID provider gave no keys; tokens cannot be checked until it does. The message says what happened. */
export class ProviderUnavailable extends Error {
  override name = 'ProviderUnavailable';
}

export interface ProviderKeysDeps {
  /** Exactly as the provider writes it. */
  readonly issuer: string;
  readonly outbound: Pick<Outbound, 'request'>;
  readonly log: Logger;
  readonly now?: () => number;
}

type LocalKeys = ReturnType<typeof createLocalJWKSet>;

/** A key that the provider withdrew is honoured for at most this long. */
const FRESH_MS = 10 * 60_000;
/** A token with an unknown key asks again at most this often: anybody can make such tokens. */
const UNKNOWN_KEY_MS = 60_000;
const RETRY_MS = 5000;
const DESTINATION = 'OpenID provider';
const MAXIMUM_BYTES = 1024 * 1024;

/**
 * The public keys of an OpenID provider (OpenID Connect Discovery 1.0, RFC 7517), read when they are first needed and
 * again when they are old or a key is not among them. Keys that are known stay in use while the provider is away.
 */
export function createProviderKeys({ issuer, outbound, log, now = Date.now }: ProviderKeysDeps): JWTVerifyGetKey {
  let held: { keys: LocalKeys; time: number } | undefined;
  let failed: { error: ProviderUnavailable; time: number } | undefined;
  let asked = Number.NEGATIVE_INFINITY;
  let reading: Promise<LocalKeys> | undefined;

  async function fetchJson(url: string): Promise<JsonObject> {
    const response = await outbound.request({
      url,
      method: 'GET',
      headers: { accept: 'application/json' },
      destination: DESTINATION,
      policy: policyFor(issuer),
      connectTimeoutMs: 5000,
      responseTimeoutMs: 5000,
      idleTimeoutMs: 5000,
      maxResponseBytes: MAXIMUM_BYTES,
      redirect: 'refuse',
    });
    if (response.status !== 200) {
      response.discard();
      throw new Error(`${new URL(url).origin} answered ${response.status}`);
    }
    const value = parseJson(await response.text());
    if (!isJsonObject(value)) throw new Error(`${new URL(url).origin} did not answer with a JSON object`);
    return value;
  }

  async function read(): Promise<LocalKeys> {
    asked = now();
    try {
      const metadata = await fetchJson(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`);
      if (metadata.issuer !== issuer) throw new Error('its metadata name another issuer than TENON_OIDC_ISSUER');
      if (typeof metadata.jwks_uri !== 'string') throw new Error('its metadata name no jwks_uri');
      const keys = createLocalJWKSet((await fetchJson(metadata.jwks_uri)) as unknown as JSONWebKeySet);
      held = { keys, time: now() };
      failed = undefined;
      return keys;
    } catch (error) {
      const reason = (error as Error).message;
      log.error(
        { issuer, reason },
        'keys of the OpenID provider could not be read: tokens of unknown keys are refused',
      );
      failed = { error: new ProviderUnavailable(reason), time: now() };
      throw failed.error;
    }
  }

  function refresh(): Promise<LocalKeys> {
    if (failed !== undefined && now() - failed.time < RETRY_MS) return Promise.reject(failed.error);
    reading ??= read().finally(() => {
      reading = undefined;
    });
    return reading;
  }

  async function current(): Promise<LocalKeys> {
    if (held === undefined) return refresh();
    if (now() - held.time < FRESH_MS) return held.keys;
    const old = held.keys;
    return refresh().catch(() => old);
  }

  return async (header, token) => {
    const keys = await current();
    try {
      return await keys(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
      // While the provider is away nothing is known about a key that it may have made since.
      if (failed === undefined && now() - asked < UNKNOWN_KEY_MS) throw error;
      return (await refresh())(header, token);
    }
  };
}

/** The operator named the provider: its own origin may be private or http, anything else it points at must be public https. */
function policyFor(issuer: string): EndpointPolicy {
  const { origin } = new URL(issuer);
  const itself = new RegExp(`^${origin.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}(/.*)?$`);
  return {
    trusted: undefined,
    trustedPrivate: [itself],
    privateIpEnabled: false,
    loopbackAllowed: false,
    restrictedIps: [],
  };
}
