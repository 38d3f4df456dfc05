import { chmodSync, closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { StartupError } from '../errors.ts';
import { Sqlite, type SqliteHandle } from './sqlite-binding.ts';

/** The claim of one process on a data folder, which other processes may share. */
export interface FolderClaim {
  /** No other living process had the folder when this one asked. */
  readonly alone: boolean;
  release(): void;
}

const SHARE_MS = 2000;

/**
 * Claims a data folder by a lock on its `tenon.lock`, which the kernel drops with the process, however that ends. Whoever
 * gets it exclusively was alone; then it is shared, so that the next one sees that somebody is there.
 * @throws StartupError when the folder cannot hold the file.
 */
export function claimFolder(dataDir: string): FolderClaim {
  const path = join(dataDir, 'tenon.lock');
  let handle: SqliteHandle | undefined;
  try {
    closeSync(openSync(path, 'a', 0o600));
    chmodSync(path, 0o600);
    handle = new Sqlite(path, { timeout: 0 });
    const alone = isFree(handle);
    handle.pragma(`busy_timeout = ${SHARE_MS}`);
    handle.exec('begin; select count(*) from sqlite_schema');
    const held = handle;
    return { alone, release: () => void held.close() };
  } catch (error) {
    handle?.close();
    throw new StartupError(`The file ${path} cannot be locked: ${(error as Error).message}`);
  }
}

function isFree(handle: SqliteHandle): boolean {
  try {
    handle.exec('begin exclusive; rollback');
    return true;
  } catch (error) {
    if ((error as { code?: unknown }).code === 'SQLITE_BUSY') return false;
    throw error;
  }
}
