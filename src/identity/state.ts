import { LRUCache } from 'lru-cache';
import type { ApiKeyRow, ApiKeyStore } from '../store/api-keys.ts';
import type { IdentityStore, UserRow } from '../store/identity.ts';
import { createRevision } from './revision.ts';
import { createRoleBook, type RoleBook } from './roles.ts';

/** Users, keys, roles and mappings as they are in force. What it answers is of one revision. */
export interface IdentityState {
  readonly book: RoleBook;
  /** Whether anybody could sign in with what the store holds: a user or a key. */
  readonly populated: boolean;
  user(name: string): Promise<UserRow | undefined>;
  key(id: string): Promise<ApiKeyRow | undefined>;
}

export interface IdentityStates {
  /** At most a second behind other processes, and never behind this one. */
  current(): Promise<IdentityState>;
  /** To be called after every change made here. */
  changed(): void;
}

export interface IdentityStatesDeps {
  readonly identity: IdentityStore;
  readonly keys: ApiKeyStore;
  readonly now?: () => number;
}

const REMEMBERED = 5000;

/** Reads each user and key once for each revision, so that a request costs the store nothing. */
export function createIdentityStates({ identity, keys, now = Date.now }: IdentityStatesDeps): IdentityStates {
  const revision = createRevision({ store: identity, now });
  let held: { revision: number; state: Promise<IdentityState> } | undefined;

  async function load(): Promise<IdentityState> {
    const [roles, mappings] = [await identity.roles(), await identity.mappings()];
    const populated = (await identity.anyUser()) || (await keys.any());
    return {
      book: createRoleBook(roles, mappings),
      populated,
      user: remembering((name) => identity.user(name)),
      key: remembering((id) => keys.get(id)),
    };
  }

  return {
    async current() {
      const value = await revision.read();
      if (held?.revision !== value) {
        const next = { revision: value, state: load() };
        held = next;
        next.state.catch(() => {
          if (held === next) held = undefined;
        });
      }
      return held.state;
    },
    changed: () => revision.changed(),
  };
}

/** Absent rows are remembered as well: guessing names does not reach the store twice. */
function remembering<T>(read: (key: string) => Promise<T | undefined>): (key: string) => Promise<T | undefined> {
  const known = new LRUCache<string, Promise<T | undefined>>({ max: REMEMBERED });
  return (key) => {
    const remembered = known.get(key);
    if (remembered !== undefined) return remembered;
    const reading = read(key);
    known.set(key, reading);
    reading.catch(() => known.delete(key));
    return reading;
  };
}
