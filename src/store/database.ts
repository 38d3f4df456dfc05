import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Kysely, type Transaction } from 'kysely';
import { STORE_BUSY, StartupError } from '../errors.ts';
import type { Engine, StoreLog } from './engine.ts';
import { createGroupCommit } from './group-commit.ts';
import { openPostgres } from './postgres.ts';
import { openSqlite } from './sqlite.ts';
import type { Tables } from './tables.ts';

const BUSY_LIMIT_MS = 5000;

/** A write transaction that others may join: what they write is kept or undone with the rest of it. */
export type Unit = Transaction<Tables>;

export interface WriteOptions {
  /** Commits with `synchronous=FULL` on SQLite; PostgreSQL always does the equivalent. */
  readonly durable?: boolean;
  /** Joins this transaction; when and how it is committed is its owner's business. */
  readonly within?: Unit;
}

export interface Database {
  readonly kind: 'sqlite' | 'postgres';
  readonly kysely: Kysely<Tables>;
  /**
   * Writes all of `work` or nothing. No I/O other than SQL may happen inside `work`, which may be run again when the
   * database had to give it up. On SQLite, what is written in one turn of the event loop shares a transaction.
   * @throws STORE_BUSY when the database stayed locked for 5 s; nothing was written then.
   * @throws UniqueViolation
   */
  write<T>(work: (unit: Unit) => Promise<T>, options?: WriteOptions): Promise<T>;
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
  /** Sees the SQL of every statement as it is run, values included; SQLite only. */
  readonly onStatement?: ((sql: string) => void) | undefined;
}

/**
 * Opens the database; the schema is the migrator's work (`migrate`).
 * @throws StartupError when the database cannot be opened or reached.
 */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  const { url, dataDir, log = { warn() {} }, busyLimitMs = BUSY_LIMIT_MS, onStatement } = options;
  if (url !== undefined && !/^postgres(ql)?:\/\//.test(url)) {
    throw new StartupError('TENON_DATABASE_URL must be a postgres:// address; without it SQLite is used');
  }
  const engine = url
    ? await openPostgres(url, { log })
    : openSqlite(join(dataDir, 'tenon.db'), { busyLimitMs, log, onStatement });
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
  const write = engine.oneWriter ? grouped(engine, kysely, busyLimitMs) : repeated(engine, kysely, busyLimitMs);
  const writing = new Set<Promise<unknown>>();
  let closing: Promise<void> | undefined;

  async function mapped<T>(written: Promise<T>): Promise<T> {
    try {
      return await written;
    } catch (error) {
      if (!engine.isUniqueViolation(error)) throw error;
      throw new UniqueViolation((error as Error).message, { cause: error });
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
    write(work, { durable = false, within } = {}) {
      if (within !== undefined) return mapped(work(within));
      const written = mapped(write(work, durable));
      writing.add(written);
      return written.finally(() => writing.delete(written));
    },
    close() {
      closing ??= close();
      return closing;
    },
  };
}

type Write = <T>(work: (unit: Unit) => Promise<T>, durable: boolean) => Promise<T>;

function grouped(engine: Engine, kysely: Kysely<Tables>, busyLimitMs: number): Write {
  return createGroupCommit<Unit>({
    transact: (work, durable) =>
      kysely.connection().execute((connection) => {
        engine.syncEachCommit?.(durable);
        return connection.transaction().execute(work);
      }),
    isBusy: engine.isBusy,
    limitMs: busyLimitMs,
    refusal: () => busy(busyLimitMs),
  });
}

function repeated(engine: Engine, kysely: Kysely<Tables>, busyLimitMs: number): Write {
  return async (work) => {
    const deadline = performance.now() + busyLimitMs;
    for (;;) {
      try {
        return await kysely.transaction().execute(work);
      } catch (error) {
        if (!engine.isBusy(error)) throw error;
        if (performance.now() >= deadline) throw busy(busyLimitMs);
        await sleep(50 + 100 * Math.random());
      }
    }
  };
}

function busy(limitMs: number): Error {
  return new STORE_BUSY(
    `The database stayed locked by another process for ${limitMs / 1000} s. Nothing was stored; try again`,
  );
}
