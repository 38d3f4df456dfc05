import { randomBytes } from 'node:crypto';
import { link, open, readFile, realpath, stat, unlink } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { StartupError } from '../errors.ts';
import { makeFolder } from '../folder.ts';
import { newKeyText } from './master-key.ts';

export interface KeyFile {
  readonly text: string;
  readonly created: boolean;
}

/**
 * Reads the key file, or makes it (mode 0600, in a directory of mode 0700) if it is not there and `mayCreate` is set.
 * Processes that start at once all read the key of the one that was first.
 * @throws StartupError with the remedy: in the data directory, readable by others, missing, not readable
 */
export async function readKeyFile(path: string, dataDir: string, mayCreate: boolean): Promise<KeyFile> {
  const file = resolve(path);
  await refuseInside(file, dataDir);
  try {
    const created = await createIfMissing(file, mayCreate);
    await refuseReadableByOthers(file);
    return { text: await readFile(file, 'utf8'), created };
  } catch (error) {
    if (error instanceof StartupError) throw error;
    const { code, syscall } = error as NodeJS.ErrnoException;
    throw new StartupError(
      `The key file ${file} cannot be used (${syscall} ${code}): make it readable for this user, or set TENON_KEY_FILE to a place that is`,
    );
  }
}

async function createIfMissing(file: string, mayCreate: boolean): Promise<boolean> {
  if (await exists(file)) return false;
  if (!mayCreate) {
    throw new StartupError(
      `The database holds sealed credentials, and their key file ${file} does not exist: restore it, or point TENON_KEY_FILE or TENON_MASTER_KEY at that key`,
    );
  }
  const directory = dirname(file);
  makeFolder(directory);
  const draft = join(directory, `.${basename(file)}.${randomBytes(6).toString('hex')}`);
  try {
    await writeDurably(draft, `${newKeyText()}\n`);
    // A link appears whole or not at all, and only if nobody was first.
    await link(draft, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    await unlink(draft).catch(() => {});
  }
  await syncDirectory(directory);
  return true;
}

async function writeDurably(file: string, text: string): Promise<void> {
  const handle = await open(file, 'wx', 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function refuseReadableByOthers(file: string): Promise<void> {
  const mode = (await stat(file)).mode & 0o777;
  if ((mode & 0o077) === 0) return;
  throw new StartupError(
    `The key file ${file} is open to other users (mode 0${mode.toString(8)}): run chmod 600 ${file}, and replace the key if somebody else may have read it`,
  );
}

async function refuseInside(file: string, dataDir: string): Promise<void> {
  const pairs = [
    [resolve(dataDir), file],
    [await real(resolve(dataDir)), await real(file)],
  ] as const;
  if (!pairs.some(([directory, inner]) => isInside(directory, inner))) return;
  throw new StartupError(
    `The key file ${file} is inside the data directory ${dataDir}, so that one copy would hold both: set TENON_KEY_FILE to a path outside`,
  );
}

function isInside(directory: string, file: string): boolean {
  const path = relative(directory, file);
  return path !== '..' && !path.startsWith(`..${sep}`) && !path.startsWith(sep);
}

/** The path with symbolic links resolved as far as it exists. */
async function real(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(await real(parent), basename(path));
  }
}

async function exists(file: string): Promise<boolean> {
  try {
    await stat(file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}
