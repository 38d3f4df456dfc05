import { LRUCache } from 'lru-cache';
import { Pool } from 'undici';
import { judgeAddress, type Reach } from './address-guard.ts';
import { dial, type Lookup } from './dial.ts';
import type { OutboundRequest } from './types.ts';

const MAX_POOLS = 256;
/** A pooled connection is given up after this long, so that a name that moved is resolved and judged again. */
const CONNECTION_TTL_MS = 300_000;

interface PoolEntry {
  readonly pool: Pool;
  /** Counts a request that waits for its status line. The result is called once when it no longer does. */
  wait(): () => void;
}

export interface Pools {
  /** Connections that may be shared: same origin, TLS options, connect timeout and permitted addresses. */
  get(request: OutboundRequest, rawUrl: string, url: URL, reach: Reach): PoolEntry;
  close(): Promise<void>;
}

/** Keep-alive connection pools, the least recently used of more than 256 closed. */
export function createPools(lookup: Lookup): Pools {
  const entries = new LRUCache<string, PoolEntry & { stopDialing: () => void }>({
    max: MAX_POOLS,
    dispose: ({ pool }) => void pool.close().catch(() => {}),
  });

  function open(request: OutboundRequest, rawUrl: string, url: URL): PoolEntry & { stopDialing: () => void } {
    const { policy, connectTimeoutMs, skipTlsVerification = false } = request;
    const tls = url.protocol === 'https:';
    const dialing = new Set<AbortController>();
    let waiting = 0;
    const stopDialing = () => {
      for (const attempt of dialing) attempt.abort();
    };
    const pool = new Pool(url.origin, {
      clientTtl: CONNECTION_TTL_MS,
      connect: ({ hostname, port }, callback) => {
        const attempt = new AbortController();
        dialing.add(attempt);
        dial({
          hostname: hostname.replace(/^\[|\]$/g, ''),
          port: Number(port) || (tls ? 443 : 80),
          tls,
          skipTlsVerification,
          timeoutMs: connectTimeoutMs,
          judge: (address) => judgeAddress(address, rawUrl, policy),
          lookup,
          signal: attempt.signal,
        })
          .finally(() => dialing.delete(attempt))
          .then(
            (socket) => callback(null, socket),
            (error) => callback(error, null),
          );
      },
    });
    const wait = () => {
      waiting += 1;
      return () => {
        waiting -= 1;
        if (waiting === 0) stopDialing();
      };
    };
    return { pool, wait, stopDialing };
  }

  return {
    get(request, rawUrl, url, reach) {
      const restricted = request.policy.restrictedIps.map(({ source }) => source).join(' ');
      const key = [url.origin, request.skipTlsVerification === true, request.connectTimeoutMs, reach, restricted].join(
        '|',
      );
      const known = entries.get(key);
      if (known !== undefined) return known;
      const entry = open(request, rawUrl, url);
      entries.set(key, entry);
      return entry;
    },
    async close() {
      const all = [...entries.values()];
      for (const { stopDialing } of all) stopDialing();
      await Promise.all(all.map(({ pool }) => pool.destroy()));
      entries.clear();
    },
  };
}
