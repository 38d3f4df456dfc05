import type { JsonObject } from '../../json.ts';
import { retry } from '../../outbound/resilience.ts';
import type { McpToolStore } from '../../store/mcp-tools.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { retryOptions } from '../session/opening.ts';
import type { ListAnswer } from '../session/session.ts';
import { readToolList } from '../tool-list.ts';
import type { ToolList } from '../types.ts';
import { createListCache } from './list-cache.ts';
import { createListRefresh, type ListRefresh } from './list-refresh.ts';
import type { OpenSession } from './session-lifetimes.ts';

/** Names of tools by what became of them; a changed one has another definition. */
export interface ToolsChange {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
}

export interface ConnectionListDeps {
  readonly mcpTools: Pick<McpToolStore, 'replace' | 'list'>;
  readonly log: Logger;
  readonly now: () => number;
  readonly random: () => number;
  /** The registered tools are not what they were. */
  readonly onTools?: (change: ToolsChange) => void;
}

/** The tools of one server: as they were read last, for as long as that holds, and as they are registered. */
export interface ConnectionList {
  /** When a change is read although nobody uses the list. */
  readonly refresh: Pick<ListRefresh, 'dueAt' | 'allowed' | 'begin'>;
  /** Whether it may not be what the server has now. */
  isStale(): boolean;
  fresh(revision: number): ToolList | undefined;
  beginReading(): void;
  /** The server said that its list changed. */
  changed(): void;
  /** It is not known whether the list holds: it is read again before its next use. */
  markStale(why: string): void;
  clear(): void;
  /** Reads the list, retried by the connector's `client_config`. @throws UpstreamError */
  read(open: OpenSession, signal: AbortSignal): Promise<ListAnswer>;
  /** Takes in what was read: kept for the session and the cache, registered in the store. */
  adopt(open: OpenSession, answer: ListAnswer): Promise<ToolList>;
  /** The tools were another server's: none of them is there. */
  disown(): Promise<void>;
}

/** Nothing read yet. `destination` names the connection in messages. */
export function createConnectionList(
  connectorId: string,
  destination: () => string,
  { mcpTools, log, now, random, onTools }: ConnectionListDeps,
): ConnectionList {
  const cache = createListCache(now);
  const refresh = createListRefresh(now);
  let registered: ReadonlyMap<string, string> | undefined;
  let writing: Promise<void> = Promise.resolve();

  async function register(tools: ToolList['tools']): Promise<void> {
    const rows = tools.map(({ hash, ...definition }) => ({
      name: definition.name,
      definition: definition as unknown as JsonObject,
      hash,
    }));
    try {
      const before = registered ?? (await stored());
      await mcpTools.replace(connectorId, rows);
      registered = new Map(rows.map(({ name, hash }) => [name, hash]));
      const change = difference(before, registered);
      if (Object.values(change).some((names) => names.length > 0)) onTools?.(change);
    } catch (error) {
      registered = undefined;
      log.error({ err: error, connectorId }, `MCP tools of ${destination()} were not registered`);
    }
  }

  async function stored(): Promise<Map<string, string>> {
    const rows = await mcpTools.list(connectorId);
    return new Map(rows.filter(({ present }) => present).map(({ name, hash }) => [name, hash]));
  }

  /** One after the other, so that what was read last is what is registered. */
  function inTurn(tools: ToolList['tools']): Promise<void> {
    writing = writing.then(() => register(tools));
    return writing;
  }

  function markStale(why: string): void {
    if (cache.markStale())
      log.info({ connectorId }, `MCP tool list of ${destination()} is read again before its next use: ${why}`);
  }

  return {
    refresh,
    isStale: cache.isStale,
    fresh: (revision) => cache.fresh(revision),
    beginReading() {
      refresh.read();
      cache.beginReading();
    },
    changed() {
      refresh.changed();
      markStale('it changed');
    },
    markStale,
    clear() {
      refresh.read();
      cache.clear();
    },
    read(open, signal) {
      const pageMs = open.connector.clientConfig.connection_timeout * 1000;
      return retry((_attempt, totalMs) => open.session.list({ pageMs, totalMs }, signal), {
        ...retryOptions(open.connector, random),
        signal,
        onRetry: ({ attempt, error }) =>
          log.warn({ connectorId, code: error.code, attempt }, `MCP retry of ${destination()}: ${error.message}`),
      });
    },
    async adopt(open, answer) {
      const read = readToolList(answer.entries, { statelessEra: open.session.stateless });
      const list = { ...read, warnings: [...open.session.deviations(), ...answer.warnings, ...read.warnings] };
      open.list = list;
      cache.put(list, open.connector.revision, answer.ttlMs);
      await inTurn(list.tools);
      return list;
    },
    disown() {
      refresh.read();
      cache.clear();
      return inTurn([]);
    },
  };
}

function difference(before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): ToolsChange {
  return {
    added: [...after.keys()].filter((name) => !before.has(name)),
    removed: [...before.keys()].filter((name) => !after.has(name)),
    changed: [...after].flatMap(([name, hash]) => (before.has(name) && before.get(name) !== hash ? [name] : [])),
  };
}
