import { INVALID_ARGUMENT, WRONG_SHAPE } from '../errors.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../json.ts';
import { isGiven } from './members.ts';
import { isNeverPassed } from './passthrough.ts';

const TOLERATED = ['issuer_mismatch', 'no_pkce_metadata'];
const GRANTS = ['authorization_code', 'client_credentials'];
const TEXTS = ['client_id', 'signing_algorithm', 'token_endpoint_auth_method', 'scope', 'client_metadata_url'];
const SECRETS = ['client_secret', 'private_key'];
const KNOWN = ['type', 'grant_type', 'per_user', 'allow', ...TEXTS, ...SECRETS];

/** Names of the caller's headers that go on to the server. @throws INVALID_ARGUMENT for one that never may */
export function readPassthroughHeaders(value: JsonValue | undefined): string[] | undefined {
  if (!isGiven(value)) return undefined;
  if (!Array.isArray(value)) throw new WRONG_SHAPE('passthrough_headers must be an array of header names.');
  return value.map((name) => {
    if (typeof name !== 'string' || !/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) {
      throw new INVALID_ARGUMENT('passthrough_headers must hold valid HTTP header names.');
    }
    if (isNeverPassed(name)) {
      throw new INVALID_ARGUMENT(
        `passthrough_headers cannot name '${name}': it identifies the caller here or belongs to the transport.`,
      );
    }
    return name;
  });
}

/**
 * The `auth` of an MCP connector. Secrets are templates of the credential, so that they are stored sealed.
 * @throws INVALID_ARGUMENT naming the member
 */
export function readAuth(value: JsonValue | undefined): JsonObject | undefined {
  if (!isGiven(value)) return undefined;
  if (!isJsonObject(value)) throw new WRONG_SHAPE('auth must be an object.');
  const given = Object.fromEntries(Object.entries(value).filter(([, member]) => member !== null));
  const unknown = Object.keys(given).find((name) => !KNOWN.includes(name));
  if (unknown !== undefined) {
    throw new INVALID_ARGUMENT(`auth has no member '${unknown.slice(0, 100)}'. Its members are [${KNOWN.join(', ')}].`);
  }
  if (given.type !== 'oauth2') throw new INVALID_ARGUMENT('auth.type must be oauth2.');
  if (given.grant_type !== undefined && !isOneOf(GRANTS, given.grant_type)) {
    throw new INVALID_ARGUMENT(`auth.grant_type must be one of [${GRANTS.join(', ')}].`);
  }
  for (const name of TEXTS) {
    if (given[name] !== undefined && typeof given[name] !== 'string') {
      throw new INVALID_ARGUMENT(`auth.${name} must be a string.`);
    }
  }
  for (const name of SECRETS) {
    if (given[name] !== undefined && credentialKey(given[name]) === undefined) {
      throw new INVALID_ARGUMENT(
        `auth.${name} must be a template such as \${credential.${name}}, with the secret itself in credential.`,
      );
    }
  }
  if (given.per_user !== undefined && typeof given.per_user !== 'boolean') {
    throw new INVALID_ARGUMENT('auth.per_user must be true or false.');
  }
  const allow = given.allow;
  if (allow !== undefined && !(Array.isArray(allow) && allow.every((fault) => isOneOf(TOLERATED, fault)))) {
    throw new INVALID_ARGUMENT(`auth.allow must be a list of [${TOLERATED.join(', ')}].`);
  }
  return given;
}

/** @throws INVALID_ARGUMENT when a secret of `auth` names a credential that is not there */
export function checkAuthCredentials(auth: JsonValue | undefined, credential: Readonly<Record<string, string>>): void {
  if (!isJsonObject(auth)) return;
  for (const name of SECRETS) {
    const key = credentialKey(auth[name]);
    if (key === undefined || (Object.hasOwn(credential, key) && credential[key] !== '')) continue;
    throw new INVALID_ARGUMENT(`auth.${name} uses \${credential.${key}}, which has no value. Give it in credential.`);
  }
}

function isOneOf(names: readonly string[], value: JsonValue): boolean {
  return typeof value === 'string' && names.includes(value);
}

function credentialKey(template: JsonValue | undefined): string | undefined {
  if (typeof template !== 'string') return undefined;
  const [, braced, angled] = /^(?:\$\{credential\.([^}]+)\}|\$<credential\.([^>]+)>)$/.exec(template) ?? [];
  return braced ?? angled;
}
