import { chmodSync, closeSync, openSync, readdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  CompiledQuery,
  type DatabaseConnection,
  type Driver,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely';
import { STORE_BUSY, StartupError } from '../errors.ts';
import { makeFolder } from '../folder.ts';
import type { Engine, StoreLog } from './engine.ts';
import { Sqlite, type SqliteHandle, type SqliteStatement } from './sqlite-binding.ts';
import { createTurns } from './turns.ts';

/** Longest time one statement may block the event loop while another process holds the lock. */
const BUSY_TIMEOUT_MS = 50;
const MAX_CACHED_STATEMENTS = 256;

class TransactionalSqliteAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}

interface SqliteOptions {
  readonly busyLimitMs: number;
  readonly log: StoreLog;
  readonly onStatement: ((sql: string) => void) | undefined;
}

/**
 * Opens the file at `path`, creating it (0600) and its directory (0700) when they do not exist. The journal mode is
 * left to the migrator, so that a file this code must not touch stays as it is.
 * @throws StartupError when the directory or the file cannot be used.
 */
export function openSqlite(path: string, { busyLimitMs, log, onStatement }: SqliteOptions): Engine {
  let handle: SqliteHandle;
  try {
    prepareDirectory(dirname(path), log);
    closeSync(openSync(path, 'a', 0o600));
    chmodSync(path, 0o600);
    const verbose = onStatement && ((sql?: unknown) => onStatement(String(sql)));
    handle = new Sqlite(path, { timeout: busyLimitMs, ...(verbose && { verbose }) });
    handle.pragma('schema_version');
    handle.pragma('foreign_keys = ON');
    handle.pragma('synchronous = NORMAL');
    handle.pragma(`busy_timeout = ${BUSY_TIMEOUT_MS}`);
  } catch (error) {
    throw new StartupError(`The database file ${path} cannot be opened: ${(error as Error).message}`);
  }
  let syncs = false;
  return {
    kind: 'sqlite',
    dialect: {
      createAdapter: () => new TransactionalSqliteAdapter(),
      createDriver: () => createDriver(handle, busyLimitMs),
      createIntrospector: (kysely) => new SqliteIntrospector(kysely),
      createQueryCompiler: () => new SqliteQueryCompiler(),
    },
    oneWriter: true,
    isBusy,
    isUniqueViolation: (error) => {
      const code = (error as { code?: unknown } | undefined)?.code;
      return code === 'SQLITE_CONSTRAINT_PRIMARYKEY' || code === 'SQLITE_CONSTRAINT_UNIQUE';
    },
    async script(_connection, text) {
      handle.exec(text);
    },
    syncEachCommit(on) {
      if (on === syncs) return;
      handle.pragma(`synchronous = ${on ? 'FULL' : 'NORMAL'}`);
      syncs = on;
    },
  };
}

/** A directory somebody else filled is not ours to close; it is only reported. */
function prepareDirectory(directory: string, log: StoreLog): void {
  makeFolder(directory);
  if ((statSync(directory).mode & 0o077) === 0) return;
  try {
    if (readdirSync(directory).length === 0) {
      chmodSync(directory, 0o700);
      return;
    }
  } catch {
    // Not ours: reported below.
  }
  log.warn({ directory }, `The data directory can be read by other users of this machine; run: chmod 700 ${directory}`);
}

function isBusy(error: unknown): boolean {
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' && (code === 'SQLITE_BUSY' || code.startsWith('SQLITE_BUSY_'));
}

/** A full disk, a broken one, or a file that cannot be written: no mistake of the caller and none of this program. */
function unavailable(error: unknown): unknown {
  const code = (error as { code?: unknown } | undefined)?.code;
  if (typeof code !== 'string' || !/^SQLITE_(?:FULL|IOERR|READONLY|CANTOPEN)/.test(code)) return error;
  const what = code.startsWith('SQLITE_FULL')
    ? 'The disk of the database is full'
    : `The database file cannot be used: ${(error as Error).message} (${code}); the disk may be full or broken`;
  return new STORE_BUSY(`${what}. Nothing was stored; make room on the disk of TENON_DATA_DIR, then try again`);
}

function createDriver(handle: SqliteHandle, busyLimitMs: number): Driver {
  const connection = createConnection(handle, busyLimitMs);
  const turns = createTurns();
  let release = (): void => {};
  const run = (sql: string) => connection.executeQuery(CompiledQuery.raw(sql));
  const begin = { read: handle.prepare('begin'), write: handle.prepare('begin immediate') };
  return {
    async init() {},
    async acquireConnection() {
      release = await turns.take();
      return connection;
    },
    async releaseConnection() {
      release();
    },
    async beginTransaction(_connection, { accessMode }) {
      try {
        begin[accessMode === 'read only' ? 'read' : 'write'].run();
      } catch (error) {
        throw unavailable(error);
      }
    },
    async commitTransaction() {
      await run('commit');
    },
    async rollbackTransaction() {
      // SQLite ends the transaction by itself on some failures (a full disk).
      if (handle.inTransaction) await run('rollback');
    },
    async destroy() {
      const done = await turns.take();
      try {
        handle.pragma('wal_checkpoint(TRUNCATE)');
      } catch (error) {
        if (!isBusy(error)) throw error;
      } finally {
        handle.close();
        done();
      }
    },
  };
}

function createConnection(handle: SqliteHandle, busyLimitMs: number): DatabaseConnection {
  const statements = new Map<string, SqliteStatement>();

  function statement(sql: string): SqliteStatement {
    const known = statements.get(sql);
    if (known) return known;
    const made = handle.prepare(sql);
    if (statements.size >= MAX_CACHED_STATEMENTS) statements.delete(statements.keys().next().value ?? '');
    statements.set(sql, made);
    return made;
  }

  function execute<R>({ sql, parameters }: CompiledQuery): QueryResult<R> {
    const prepared = statement(sql);
    if (prepared.reader) return { rows: prepared.all(parameters) as R[] };
    const { changes } = prepared.run(parameters);
    return { rows: [], numAffectedRows: BigInt(changes) };
  }

  return {
    async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
      const deadline = performance.now() + busyLimitMs;
      for (;;) {
        try {
          return execute<R>(query);
        } catch (error) {
          // Inside a transaction only the whole of it may be repeated, and that is decided by `write`.
          if (!isBusy(error) || handle.inTransaction || performance.now() >= deadline) throw unavailable(error);
          await sleep(BUSY_TIMEOUT_MS * (0.5 + Math.random()));
        }
      }
    },
    // biome-ignore lint/correctness/useYield: the interface asks for a generator; nothing in the store streams
    async *streamQuery() {
      throw new Error('The store reads in pages and does not stream');
    },
  };
}
