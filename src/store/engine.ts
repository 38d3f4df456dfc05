import type { Dialect, Kysely } from 'kysely';
import type { Tables } from './tables.ts';

/** What the store says on its own account; the logger of the process fits. */
export interface StoreLog {
  warn(fields: object, message: string): void;
}

/** One database engine: what differs between SQLite and PostgreSQL, declared in one place. */
export interface Engine {
  readonly kind: 'sqlite' | 'postgres';
  readonly dialect: Dialect;
  /** Only one write transaction can be open at a time. */
  readonly oneWriter: boolean;
  /** Whether the transaction that failed with `error` wrote nothing and may be run again. */
  isBusy(error: unknown): boolean;
  isUniqueViolation(error: unknown): boolean;
  /** Runs a text of several statements on the connection that is in use. */
  script(connection: Kysely<Tables>, text: string): Promise<void>;
  /** Whether commits wait for the disk from now on; only while the connection is held, outside of a transaction. */
  syncEachCommit?(on: boolean): void;
}
