import { createHash, timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { ApiKeyStore } from '../store/api-keys.ts';
import type { Audit } from '../telemetry/audit.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Refusals } from '../telemetry/refusals.ts';
import { type BasicCheck, type BasicCredentials, basicCredentials } from './basic.ts';
import { looksLikeToken, type TokenCheck } from './jwt.ts';
import { isKeyInForce, partsOfKey } from './keys.ts';
import type { Principal } from './principal.ts';
import { keyPrincipal, tokenPrincipal, userPrincipal } from './principal-of.ts';
import { OPEN_PRINCIPAL, STATIC_KEY_PRINCIPAL } from './principals.ts';
import type { IdentityState, IdentityStates } from './state.ts';
import type { SignInThrottle, ThrottleSubject } from './throttle.ts';
import type { Authenticator, SignIn } from './types.ts';

export interface AuthenticatorDeps {
  readonly states: IdentityStates;
  readonly keys: Pick<ApiKeyStore, 'touch'>;
  readonly basic: BasicCheck;
  readonly throttle: SignInThrottle;
  /** Absent: no OpenID provider. */
  readonly tokens?: TokenCheck | undefined;
  readonly staticKey?: string | undefined;
  readonly audit: Audit;
  /** For attempts that are not looked at, of which there may be a flood. */
  readonly refusals: Refusals;
  readonly log: Logger;
  readonly now?: () => number;
}

type Method = 'Basic' | 'static key' | 'API key' | 'token';

/** A static key of this length cannot be guessed, so failures of others need not slow its holder. */
const UNGUESSABLE_LENGTH = 24;
const TOUCH_MS = 60_000;
const SEEN_MS = 15 * 60_000;
const REMEMBERED = 10_000;
const NOT_RIGHT: Readonly<Record<Method, string>> = {
  Basic: 'The user name or the password is not right',
  'static key': 'The API key is not valid',
  'API key': 'The API key is not valid',
  token: 'The token is not valid',
};

/**
 * Who is calling, by the static key, an API key, name and password, or a token of the OpenID provider.
 * @throws when the store cannot be read at the start
 */
export async function createAuthenticator(deps: AuthenticatorDeps): Promise<Authenticator> {
  const { states, basic, throttle, tokens, staticKey, audit, refusals, log, now = Date.now } = deps;
  const seen = new LRUCache<string, number>({ max: REMEMBERED });
  const touched = new LRUCache<string, number>({ max: REMEMBERED });
  const expected = staticKey === undefined ? undefined : digest(staticKey);
  let open = staticKey === undefined && tokens === undefined;
  let populated = false;

  /** A server that has left open mode never falls back into it while it runs. */
  async function state(): Promise<IdentityState> {
    const current = await states.current();
    populated = current.populated;
    if (open && current.populated) {
      open = false;
      log.info('leaving open mode: authentication is configured now');
    }
    return current;
  }

  function accepted(principal: Principal, method: Method, peer: string): SignIn {
    const key = JSON.stringify([principal.id, peer]);
    const last = seen.get(key);
    if (last === undefined || now() - last >= SEEN_MS) {
      seen.set(key, now());
      void record(principal.id, 'ok', method, peer);
    }
    return { ok: true, principal };
  }

  /** `record` of the audit trail never rejects. */
  function record(principal: string, outcome: string, method: Method, peer: string): Promise<void> {
    return audit.record({ principal, action: 'sign_in', outcome, detail: `${method} from ${peer}` });
  }

  function slowed(principal: string, method: Method, peer: string, waitMs: number): SignIn {
    const detail = `${method} from ${peer}: not looked at, too many failed before`;
    refusals.record(method, { principal, action: 'sign_in', detail });
    const seconds = Math.ceil(waitMs / 1000);
    return { ok: false, reason: `Too many sign-ins failed: try again in ${seconds} s`, retryAfterMs: waitMs };
  }

  async function refused(method: Method, peer: string, reason = NOT_RIGHT[method]): Promise<SignIn> {
    const attempt = await throttle.attempt([bearersOf(peer)], async () => undefined);
    if ('waitMs' in attempt) return slowed('-', method, peer, attempt.waitMs);
    await record('-', 'refused', method, peer);
    return { ok: false, reason };
  }

  async function byPassword(credentials: BasicCredentials, peer: string, current: IdentityState): Promise<SignIn> {
    const attempt = await basic.signIn(credentials, subjectOf(peer));
    if ('result' in attempt && attempt.result !== undefined) {
      return accepted(userPrincipal(current, attempt.result), 'Basic', peer);
    }
    // A name nobody has may be a password typed into the wrong field: it is written nowhere.
    const known = await current.user(credentials.name);
    const principal = known === undefined ? '-' : `user:${known.name}`;
    if ('waitMs' in attempt) return slowed(principal, 'Basic', peer, attempt.waitMs);
    await record(principal, 'refused', 'Basic', peer);
    return { ok: false, reason: NOT_RIGHT.Basic };
  }

  async function byKey(id: string, secret: string, peer: string, current: IdentityState): Promise<SignIn> {
    const key = await current.key(id);
    if (!isKeyInForce(key, secret, now())) return refused('API key', peer);
    const owners = { issuer: tokens?.issuer, staticKey: staticKey !== undefined };
    const principal = await keyPrincipal(current, key, owners);
    if (principal === undefined) return refused('API key', peer);
    const last = touched.get(id) ?? key.lastUsedTime;
    if (last === undefined || now() - last >= TOUCH_MS) {
      touched.set(id, now());
      deps.keys.touch(id).catch((err) => log.error({ err, key: id }, 'the last use of an API key was not recorded'));
    }
    return accepted(principal, 'API key', peer);
  }

  async function byStaticKey(right: boolean, peer: string): Promise<SignIn> {
    const unguessable = (staticKey ?? '').length >= UNGUESSABLE_LENGTH;
    if (right && unguessable) return accepted(STATIC_KEY_PRINCIPAL, 'static key', peer);
    const work = async () => (right ? STATIC_KEY_PRINCIPAL : undefined);
    const attempt = await throttle.attempt([bearersOf(peer)], work);
    if ('waitMs' in attempt) return slowed('-', 'static key', peer, attempt.waitMs);
    if (attempt.result !== undefined) return accepted(attempt.result, 'static key', peer);
    await record('-', 'refused', 'static key', peer);
    return { ok: false, reason: NOT_RIGHT['static key'] };
  }

  async function byToken(check: TokenCheck, token: string, peer: string, current: IdentityState): Promise<SignIn> {
    const verdict = await check.verify(token);
    if (verdict.ok) return accepted(await tokenPrincipal(current, verdict.identity), 'token', peer);
    if (verdict.unavailable) return { ok: false, reason: verdict.reason, unavailable: true };
    return refused('token', peer, verdict.reason);
  }

  async function byBearer(text: string, peer: string, current: IdentityState): Promise<SignIn> {
    const right = expected !== undefined && timingSafeEqual(digest(text), expected);
    if (right) return byStaticKey(right, peer);
    const key = partsOfKey(text);
    if (key !== undefined) return byKey(key.id, key.secret, peer, current);
    if (tokens !== undefined && looksLikeToken(text)) return byToken(tokens, text, peer, current);
    return expected === undefined ? refused('API key', peer) : byStaticKey(false, peer);
  }

  await state();
  return {
    mode: () => (open ? 'open' : 'authenticated'),

    async signIn({ authorization, peer = 'unknown' }) {
      const current = await state();
      if (open) return { ok: true, principal: OPEN_PRINCIPAL };
      if (authorization === undefined) return { ok: false, reason: REQUIRED };
      const [, scheme = '', value = ''] = /^(Basic|Bearer|ApiKey) +(\S+) *$/i.exec(authorization) ?? [];
      if (scheme === '') return { ok: false, reason: UNREADABLE };
      if (scheme.toLowerCase() !== 'basic') return byBearer(value, peer, current);
      const credentials = basicCredentials(value);
      return credentials === undefined ? { ok: false, reason: UNREADABLE } : byPassword(credentials, peer, current);
    },

    challenges: (authorization = '') => [
      ...(populated ? ['Basic realm="tenon", charset="UTF-8"'] : []),
      `Bearer realm="tenon"${/^Bearer +\S+ *$/i.test(authorization) ? ', error="invalid_token"' : ''}`,
    ],
  };
}

const REQUIRED =
  'Authentication is required: send "Authorization: Basic …" with a user and password, or "Authorization: Bearer …" with an API key or a token';
const UNREADABLE =
  'The Authorization header cannot be read: send "Basic <base64 of name:password>", "Bearer <key or token>" or "ApiKey <key>"';

/** Counted apart from passwords: a flood of bad keys must not keep out the people behind the same address. */
function bearersOf(peer: string): ThrottleSubject {
  return { kind: 'peer', value: `bearer ${peer}`, kept: true };
}

function subjectOf(peer: string): ThrottleSubject {
  return { kind: 'peer', value: peer, kept: true };
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
