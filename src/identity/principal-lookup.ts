import { isValidAt } from './keys.ts';
import type { Principal } from './principal.ts';
import { keyPrincipal, userPrincipal } from './principal-of.ts';
import { OPEN_PRINCIPAL, STATIC_KEY_PRINCIPAL } from './principals.ts';
import type { IdentityStates } from './state.ts';
import type { Authenticator } from './types.ts';

/** Knows people again without a sign-in, for work that was begun in their name. */
export interface PrincipalLookup {
  /**
   * The principal of this id with the rights it has now. `undefined`: it is gone, disabled, expired or revoked, or it is
   * the user of a provider, of whom nothing is kept.
   */
  principalOf(id: string): Promise<Principal | undefined>;
}

export interface PrincipalLookupDeps {
  readonly states: Pick<IdentityStates, 'current'>;
  readonly authenticator: Pick<Authenticator, 'mode'>;
  readonly staticKey: boolean;
  /** The OpenID provider in force. */
  readonly issuer: string | undefined;
  readonly now?: () => number;
}

export function createPrincipalLookup(deps: PrincipalLookupDeps): PrincipalLookup {
  const { states, authenticator, staticKey, issuer, now = Date.now } = deps;

  return {
    async principalOf(id) {
      if (id === STATIC_KEY_PRINCIPAL.id) return staticKey ? STATIC_KEY_PRINCIPAL : undefined;
      const state = await states.current();
      const open = authenticator.mode() === 'open' && !state.populated;
      if (id === OPEN_PRINCIPAL.id) return open ? OPEN_PRINCIPAL : undefined;
      const [, kind, name = ''] = /^(user|key):(.*)$/s.exec(id) ?? [];
      if (kind === 'user') {
        const user = await state.user(name);
        return user === undefined || user.disabled ? undefined : userPrincipal(state, user);
      }
      const key = kind === 'key' ? await state.key(name) : undefined;
      const valid = key !== undefined && isValidAt(key, now());
      return valid ? keyPrincipal(state, key, { issuer, staticKey }) : undefined;
    },
  };
}
