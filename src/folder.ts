import { mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Makes a folder and the missing ones above it, from the top down and one at a time: below a file system that takes no
 * folders (`/proc`), Node's own recursive way never ends.
 * @param path absolute
 * @throws Error of `mkdir` when a level cannot be made or is something else than a folder.
 */
export function makeFolder(path: string, mode = 0o700): void {
  const missing: string[] = [];
  let level = path;
  for (; !exists(level); level = dirname(level)) missing.unshift(level);
  if (missing.length === 0) missing.push(path);
  for (const folder of missing) if (!isFolder(folder)) makeLevel(folder, mode);
}

function exists(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/** Somebody else may make the same folder at the same time. */
function makeLevel(path: string, mode: number): void {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    if (!isFolder(path)) throw error;
  }
}
