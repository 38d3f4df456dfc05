import type { Outbound } from '../outbound/types.ts';
import type { ApiKeyStore } from '../store/api-keys.ts';
import type { IdentityStore } from '../store/identity.ts';
import type { SignInFailureStore } from '../store/sign-in-failures.ts';
import type { Audit } from '../telemetry/audit.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Redactor } from '../telemetry/redactor.ts';
import { createRefusals } from '../telemetry/refusals.ts';
import { createAuthenticator } from './authenticator.ts';
import { createAuthorization } from './authorization.ts';
import { createBasicCheck } from './basic.ts';
import { createDirectory } from './directory.ts';
import { ensureFirstAdmin } from './first-admin.ts';
import { createTokenCheck, type OpenIdSettings } from './jwt.ts';
import { createApiKeys } from './keys.ts';
import { createPasswordHasher, type PasswordHasher } from './passwords.ts';
import { createPrincipalLookup, type PrincipalLookup } from './principal-lookup.ts';
import { createIdentityStates } from './state.ts';
import { createSignInThrottle } from './throttle.ts';
import type { ApiKeys, Authenticator, Authorization, Directory } from './types.ts';

export interface Identity extends PrincipalLookup {
  readonly authenticator: Authenticator;
  readonly authorization: Authorization;
  readonly directory: Directory;
  readonly apiKeys: ApiKeys;
}

export interface IdentityDeps {
  readonly store: IdentityStore;
  readonly keys: ApiKeyStore;
  readonly failures: SignInFailureStore;
  readonly outbound: Pick<Outbound, 'request'>;
  readonly audit: Audit;
  readonly redactor: Redactor;
  readonly log: Logger;
  readonly staticKey?: string | undefined;
  readonly openId?: OpenIdSettings | undefined;
  /** The administrator to create while there is no user. */
  readonly firstAdmin?: { readonly name: string; readonly password: string } | undefined;
  readonly hasher?: PasswordHasher;
  readonly now?: () => number;
}

/**
 * Who is calling, what they may do, and the users, roles and keys that decide it.
 * @throws StartupError when the first administrator cannot be created as the environment says
 */
export async function createIdentity(deps: IdentityDeps): Promise<Identity> {
  const { store, keys, outbound, audit, redactor, log, staticKey, openId, now = Date.now } = deps;
  const hasher = deps.hasher ?? createPasswordHasher();
  if (deps.firstAdmin !== undefined) await ensureFirstAdmin({ store, hasher, log }, deps.firstAdmin);
  const states = createIdentityStates({ identity: store, keys, now });
  const throttle = createSignInThrottle({ store: deps.failures, log, now });
  const basic = createBasicCheck({ hasher, states, throttle, now });
  const refusals = createRefusals({ audit, now });
  const tokens = openId === undefined ? undefined : createTokenCheck({ settings: openId, outbound, log, now });
  const authenticator = await createAuthenticator({
    states,
    keys,
    basic,
    throttle,
    tokens,
    staticKey,
    audit,
    refusals,
    log,
    now,
  });
  const known = { staticKey: staticKey !== undefined, issuer: tokens?.issuer };
  return {
    authenticator,
    ...createPrincipalLookup({ states, authenticator, ...known, now }),
    authorization: createAuthorization({ refusals }),
    directory: createDirectory({ store, states, hasher, audit }),
    apiKeys: createApiKeys({ store: keys, states, audit, redactor, now }),
  };
}
