import type { ToolList } from '../types.ts';

/** The tool list of one server, for as long as the server allows. */
export interface ListCache {
  /** The list, when it was read under `revision` or a newer one and is still fresh. */
  fresh(revision: number): ToolList | undefined;
  put(list: ToolList, revision: number, ttlMs: number | undefined): void;
  /** The server said that its list changed, or the last reading failed. @returns whether that is news. */
  markStale(): boolean;
  isStale(): boolean;
  /** A new reading begins: what it will bring is not stale unless the server says so meanwhile. */
  beginReading(): void;
  clear(): void;
}

const DEFAULT_TTL_MS = 300_000;
const MAX_TTL_MS = 24 * 3_600_000;
/** A list is good for the use that read it, even where the server forbids to keep it. */
const MIN_TTL_MS = 1000;

/** An empty cache. Times are those of `now`, in milliseconds. */
export function createListCache(now: () => number): ListCache {
  let entry: { list: ToolList; revision: number; until: number } | undefined;
  let stale = false;
  return {
    fresh(revision) {
      if (entry === undefined || stale || entry.revision < revision || now() >= entry.until) return undefined;
      return entry.list;
    },
    put(list, revision, ttlMs = DEFAULT_TTL_MS) {
      entry = { list, revision, until: now() + Math.min(Math.max(ttlMs, MIN_TTL_MS), MAX_TTL_MS) };
    },
    markStale() {
      const isNews = !stale;
      stale = true;
      return isNews;
    },
    isStale: () => stale,
    beginReading() {
      stale = false;
    },
    clear() {
      entry = undefined;
      stale = false;
    },
  };
}
