import { createHmac, randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { UserRow } from '../store/identity.ts';
import type { PasswordHasher } from './passwords.ts';
import type { IdentityStates } from './state.ts';
import type { Attempt, SignInThrottle, ThrottleSubject } from './throttle.ts';

export interface BasicCredentials {
  readonly name: string;
  readonly password: string;
}

/** Users of the store, by name and password. */
export interface BasicCheck {
  /**
   * The user, at once when the same credentials were proven less than a minute ago and the user has not changed since.
   * Otherwise it costs exactly one hash, whoever it is; the same credentials at the same time share it.
   */
  signIn(credentials: BasicCredentials, peer: ThrottleSubject): Promise<Attempt<UserRow>>;
}

export interface BasicCheckDeps {
  readonly hasher: PasswordHasher;
  readonly states: Pick<IdentityStates, 'current'>;
  readonly throttle: SignInThrottle;
  readonly now?: () => number;
}

const REMEMBER_MS = 60_000;
const REMEMBERED = 5000;
/** Hashes run on the threads that files and names are read on too: some are left for those. */
const AT_ONCE = 2;
const WAITING = 64;
const BUSY_MS = 1000;

/**
 * A client that signs in with every request pays for a hash once a minute. What is remembered is a keyed hash of the
 * credentials, under a key that only this process has and never writes.
 */
export function createBasicCheck({ hasher, states, throttle, now = Date.now }: BasicCheckDeps): BasicCheck {
  const ownKey = randomBytes(32);
  const proven = new LRUCache<string, { passwordHash: string; time: number }>({ max: REMEMBERED });
  const running = new Map<string, Promise<Attempt<UserRow>>>();
  const queue: (() => void)[] = [];
  let active = 0;

  function tokenOf({ name, password }: BasicCredentials): string {
    return createHmac('sha256', ownKey)
      .update(JSON.stringify([name, password]))
      .digest('base64');
  }

  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (active >= AT_ONCE) await new Promise<void>((resolve) => queue.push(resolve));
    else active += 1;
    try {
      return await work();
    } finally {
      const next = queue.shift();
      if (next === undefined) active -= 1;
      else next();
    }
  }

  function isProven(token: string, user: UserRow | undefined): boolean {
    const known = proven.get(token);
    if (known === undefined || user === undefined) return false;
    return user.passwordHash === known.passwordHash && !user.disabled && now() - known.time < REMEMBER_MS;
  }

  function prove(credentials: BasicCredentials, token: string, peer: ThrottleSubject, user: UserRow | undefined) {
    const { name, password } = credentials;
    const subjects = [{ kind: 'name', value: name, kept: user !== undefined } as const, peer];
    return throttle.attempt(subjects, async () => {
      const right = await inTurn(() => hasher.verify(password, user?.passwordHash));
      if (!right || user === undefined || user.disabled) return undefined;
      proven.set(token, { passwordHash: user.passwordHash, time: now() });
      return user;
    });
  }

  return {
    async signIn(credentials, peer) {
      const token = tokenOf(credentials);
      const user = await (await states.current()).user(credentials.name);
      if (user !== undefined && isProven(token, user)) return { result: user };
      const shared = running.get(token);
      if (shared !== undefined) return shared;
      if (queue.length >= WAITING) return { waitMs: BUSY_MS };
      const proving = prove(credentials, token, peer, user).finally(() => running.delete(token));
      running.set(token, proving);
      return proving;
    },
  };
}

/**
 * The credentials of a `Basic` header (RFC 7617: UTF-8, the name ends at the first colon); `undefined` when it has none
 * that can be read.
 */
export function basicCredentials(encoded: string): BasicCredentials | undefined {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(encoded)) return undefined;
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(encoded, 'base64'));
  } catch {
    return undefined;
  }
  const colon = text.indexOf(':');
  return colon < 0 ? undefined : { name: text.slice(0, colon), password: text.slice(colon + 1) };
}
