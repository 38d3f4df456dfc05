import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Kysely, type Transaction } from 'kysely';
import { STORE_BUSY, StartupError } from '../errors.ts';
import type { Engine, StoreLog } from './engine.ts';
import { openPostgres } from './postgres.ts';
import { openSqlite } from './sqlite.ts';
import type { Tables } from './tables.ts';

const BUSY_LIMIT_MS = 5000;

export interface Database {
  readonly kind: 'sqlite' | 'postgres';
  readonly kysely: Kysely<Tables>;
  /**
   * One write transaction (`begin immediate` on SQLite). No I/O other than SQL may happen inside `work`, which may be
   * run again when the database had to give it up.
   * `durable` commits with `synchronous=FULL` on SQLite; PostgreSQL always does the equivalent.
   * @throws STORE_BUSY when the database stayed locked for 5 s; nothing was written then.
   * @throws UniqueViolation
   */
  write<T>(work: (transaction: Transaction<Tables>) => Promise<T>, options?: { durable?: boolean }): Promise<T>;
  /** Runs a text of several statements on the connection of `executor`, inside its transaction. */
  script(executor: Kysely<Tables>, text: string): Promise<void>;
  /** Waits for the write in progress, folds the write-ahead log into the file (SQLite) and closes. */
  close(): Promise<void>;
}

/** A unique constraint refused the row; both engines' own errors are mapped to this one. */
export class UniqueViolation extends Error {
  override name = 'UniqueViolation';
}

export interface DatabaseOptions {
  /** `postgres://…` or `postgresql://…`; absent: the SQLite file `tenon.db` in `dataDir`. */
  readonly url?: string | undefined;
  readonly dataDir: string;
  readonly log?: StoreLog;
  /** How long a write waits for a locked database, in milliseconds. */
  readonly busyLimitMs?: number;
}

/**
 * Opens the database; the schema is the migrator's work (`migrate`).
 * @throws StartupError when the database cannot be opened or reached.
 */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  const { url, dataDir, log = { warn() {} }, busyLimitMs = BUSY_LIMIT_MS } = options;
  if (url !== undefined && !/^postgres(ql)?:\/\//.test(url)) {
    throw new StartupError('TENON_DATABASE_URL must be a postgres:// address; without it SQLite is used');
  }
  const engine = url ? await openPostgres(url, { log }) : openSqlite(join(dataDir, 'tenon.db'), { busyLimitMs, log });
  const database = connect(engine, busyLimitMs);
  try {
    await database.kysely.selectNoFrom((from) => from.lit(1).as('one')).execute();
  } catch (error) {
    await database.close();
    throw new StartupError((error as Error).message);
  }
  return database;
}

function connect(engine: Engine, busyLimitMs: number): Database {
  const kysely = new Kysely<Tables>({ dialect: engine.dialect });
  let closing: Promise<void> | undefined;
  let lockedOut = false;
  const writing = new Set<Promise<unknown>>();

  function attempt<T>(work: (transaction: Transaction<Tables>) => Promise<T>, durable: boolean): Promise<T> {
    if (!durable || !engine.syncEachCommit) return kysely.transaction().execute(work);
    return kysely.connection().execute(async (connection) => {
      engine.syncEachCommit?.(true);
      try {
        return await connection.transaction().execute(work);
      } finally {
        engine.syncEachCommit?.(false);
      }
    });
  }

  async function write<T>(work: (transaction: Transaction<Tables>) => Promise<T>, durable: boolean): Promise<T> {
    const deadline = performance.now() + busyLimitMs;
    const release = await engine.writers?.take();
    try {
      for (;;) {
        // Others who waited behind the same lock need not each find out by blocking on it.
        if (lockedOut && performance.now() >= deadline) throw busy(busyLimitMs);
        try {
          const result = await attempt(work, durable);
          lockedOut = false;
          return result;
        } catch (error) {
          lockedOut = engine.isBusy(error);
          if (engine.isUniqueViolation(error)) throw new UniqueViolation((error as Error).message, { cause: error });
          if (!lockedOut) throw error;
          if (performance.now() >= deadline) throw busy(busyLimitMs);
          await sleep(50 + 100 * Math.random());
        }
      }
    } finally {
      release?.();
    }
  }

  async function close(): Promise<void> {
    await Promise.allSettled(writing);
    await kysely.destroy();
  }

  return {
    kind: engine.kind,
    kysely,
    script: (executor, text) => engine.script(executor, text),
    write(work, { durable = false } = {}) {
      const written = write(work, durable);
      writing.add(written);
      return written.finally(() => writing.delete(written));
    },
    close() {
      closing ??= close();
      return closing;
    },
  };
}

function busy(limitMs: number): Error {
  return new STORE_BUSY(
    `The database stayed locked by another process for ${limitMs / 1000} s. Nothing was stored; try again`,
  );
}
