import type { Dialect, Kysely } from 'kysely';
import type { Tables } from './tables.ts';
import type { Turns } from './turns.ts';

/** What the store says on its own account; the logger of the process fits. */
export interface StoreLog {
  warn(fields: object, message: string): void;
}

/** One database engine: what differs between SQLite and PostgreSQL, declared in one place. */
export interface Engine {
  readonly kind: 'sqlite' | 'postgres';
  readonly dialect: Dialect;
  /** Present where only one write transaction can be open at a time. */
  readonly writers?: Turns;
  /** Whether the transaction that failed with `error` wrote nothing and may be run again. */
  isBusy(error: unknown): boolean;
  isUniqueViolation(error: unknown): boolean;
  /** Runs a text of several statements on the connection that is in use. */
  script(connection: Kysely<Tables>, text: string): Promise<void>;
  /** Whether each commit waits for the disk; only while the connection is held. */
  syncEachCommit?(on: boolean): void;
}
