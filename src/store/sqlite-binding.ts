import { createRequire } from 'node:module';
import process from 'node:process';
import type { Database, Options, Statement } from 'better-sqlite3';

export type { Database as SqliteHandle, Statement as SqliteStatement };

/**
 * The package that is loaded under this Node. From Node-API 10 on (Node 22.14, 23.6) the release of better-sqlite3 that
 * is built on it; below, the one before, which compiles against V8 and aborts Node 24 when a statement is collected.
 */
export const SQLITE_PACKAGE = Number(process.versions.napi) >= 10 ? 'better-sqlite3-napi' : 'better-sqlite3';

/** Opens a file, or creates it; both packages have this constructor, and the error codes are SQLite's. */
export const Sqlite: new (path: string, options?: Options) => Database = createRequire(import.meta.url)(SQLITE_PACKAGE);
