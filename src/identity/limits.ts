import { LIMIT_EXCEEDED } from '../errors.ts';
import { ownerId } from './ownership.ts';
import type { Principal } from './principal.ts';

/** How the ids of users of the store begin; a provider's user of the same name is somebody else. */
const STORE_USER = 'user:';
const PREFIX = 'plugins.ml_commons.limits.';
const WINDOW_MS = 60_000;
const KEPT_WINDOWS = 10_000;
/** A slot is free when somebody's run ends, which nobody can foretell. */
const SLOT_WAIT_MS = 1000;

type PrincipalLimit = 'requests_per_minute' | 'concurrent_executions';

/** A limit in force, and the setting that says so. */
export interface Limit {
  readonly value: number;
  readonly setting: string;
}

export interface Limits {
  /** Whose requests and runs are counted together: a user and all API keys of that user are one. */
  keyOf(principal: Principal): string;
  /** What holds for this principal: the override of its user (of the store), its roles' most generous one, the general value. */
  of(principal: Principal, name: PrincipalLimit): Limit | undefined;
  /** The refusal of a caller that is over its rate. `waitMs`: until it may come again. */
  tooManyRequests(limit: Limit, waitMs: number): Error;
  /**
   * Runs an execution of an agent within the limits of its caller and of the agent. One that was `admitted` before, by a
   * process that stopped, is counted and not refused.
   * @throws LIMIT_EXCEEDED
   */
  execution<T>(
    principal: Principal,
    agentId: string,
    work: () => Promise<T>,
    options?: { readonly admitted?: boolean },
  ): Promise<T>;
}

export interface LimitsDeps {
  /** Settings in force, by full name. */
  readonly settings: { text(name: string): string | undefined };
  /** Epoch milliseconds. */
  readonly now?: () => number;
}

/** Counts of this process. A limit of 0, or one that is not set, does not limit. */
export function createLimits({ settings, now = Date.now }: LimitsDeps): Limits {
  const running = new Map<string, number>();
  const windows = new Map<string, { started: number; count: number }>();

  function read(setting: string): Limit | undefined {
    const text = settings.text(setting);
    return text === undefined ? undefined : { value: Number(text), setting };
  }

  function of(principal: Principal, name: PrincipalLimit): Limit | undefined {
    const owner = ownerId(principal);
    const user = owner.startsWith(STORE_USER) ? owner.slice(STORE_USER.length) : undefined;
    const ofUser = user === undefined ? undefined : read(`${PREFIX}user.${user}.${name}`);
    const ofRoles = principal.roles.map((role) => read(`${PREFIX}role.${role}.${name}`)).filter(isSet);
    const widest = ofRoles.find(({ value }) => value === 0) ?? ofRoles.sort((a, b) => b.value - a.value)[0];
    const limit = ofUser ?? widest ?? read(PREFIX + name);
    return limit === undefined || limit.value === 0 ? undefined : limit;
  }

  function agentLimit(name: string): Limit | undefined {
    const limit = read(PREFIX + name);
    return limit === undefined || limit.value === 0 ? undefined : limit;
  }

  function requireSlot(key: string, limit: Limit | undefined, whose: string): void {
    if (limit === undefined || (running.get(key) ?? 0) < limit.value) return;
    throw exceeded(`executions ${whose} at the same time`, limit, SLOT_WAIT_MS);
  }

  function requireRate(agentId: string, limit: Limit | undefined): void {
    if (limit === undefined) return;
    const time = now();
    const known = windows.get(agentId);
    const window = known !== undefined && time - known.started < WINDOW_MS ? known : { started: time, count: 0 };
    if (window.count >= limit.value) {
      throw exceeded('executions of this agent a minute', limit, window.started + WINDOW_MS - time);
    }
    window.count += 1;
    windows.delete(agentId);
    windows.set(agentId, window);
    const oldest = windows.size > KEPT_WINDOWS ? windows.keys().next().value : undefined;
    if (oldest !== undefined) windows.delete(oldest);
  }

  function occupy(key: string, change: 1 | -1): void {
    const count = (running.get(key) ?? 0) + change;
    if (count === 0) running.delete(key);
    else running.set(key, count);
  }

  return {
    keyOf: ownerId,
    of,
    tooManyRequests: (limit, waitMs) => exceeded('requests of this caller a minute', limit, waitMs),
    async execution(principal, agentId, work, { admitted = false } = {}) {
      const caller = `caller ${ownerId(principal)}`;
      const agent = `agent ${agentId}`;
      if (!admitted) {
        requireSlot(caller, of(principal, 'concurrent_executions'), 'of this caller');
        requireSlot(agent, agentLimit('agent_concurrent_executions'), 'of this agent');
        requireRate(agentId, agentLimit('agent_executions_per_minute'));
      }
      const keys = [caller, agent];
      for (const key of keys) occupy(key, 1);
      try {
        return await work();
      } finally {
        for (const key of keys) occupy(key, -1);
      }
    },
  };
}

function isSet(limit: Limit | undefined): limit is Limit {
  return limit !== undefined;
}

function exceeded(what: string, { value, setting }: Limit, waitMs: number): Error {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  const text = `The limit of ${value} ${what} is reached (setting ${setting}). Try again in ${seconds} s`;
  return Object.assign(new LIMIT_EXCEEDED(text), { retryAfterMs: seconds * 1000 });
}
