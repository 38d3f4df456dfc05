/** Who a service call is made for. Every call carries one, in open mode too. */
export interface Principal {
  /** Stable id, shown in audit rows: `open` in open mode, `api_key` for the static key of the environment. */
  readonly id: string;
  readonly name: string;
}

/** The caller of a server that runs without authentication (loopback only). */
export const OPEN_PRINCIPAL: Principal = Object.freeze({ id: 'open', name: 'open' });

/** The holder of the one static API key. */
export const STATIC_KEY_PRINCIPAL: Principal = Object.freeze({ id: 'api_key', name: 'api_key' });

/** The platform itself: background work that nobody asked for. */
export const SYSTEM_PRINCIPAL: Principal = Object.freeze({ id: 'system', name: 'system' });
