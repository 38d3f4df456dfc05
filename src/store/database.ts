import type { Kysely, Transaction } from 'kysely';
import type { Tables } from './tables.ts';

export interface Database {
  readonly kind: 'sqlite' | 'postgres';
  readonly kysely: Kysely<Tables>;
  /**
   * One write transaction (`begin immediate` on SQLite). No I/O other than SQL may happen inside `work`.
   * `durable` commits with `synchronous=FULL` on SQLite; PostgreSQL always does the equivalent.
   * @throws STORE_BUSY when the database stayed locked for 5 s; nothing was written then.
   * @throws UniqueViolation
   */
  write<T>(work: (transaction: Transaction<Tables>) => Promise<T>, options?: { durable?: boolean }): Promise<T>;
  close(): Promise<void>;
}

/** A unique constraint refused the row; both engines' own errors are mapped to this one. */
export class UniqueViolation extends Error {
  override name = 'UniqueViolation';
}
