import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { DatabaseOptions } from '../../src/store/database.ts';
import { SQLITE_PACKAGE } from '../../src/store/sqlite-binding.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** Migrates in another process; `applied` are the names it reports, or a rejection with what it complained about. */
export function migrateElsewhere(
  options: DatabaseOptions,
  folder: string,
): { child: ChildProcess; applied: Promise<string[]> } {
  const script = fileURLToPath(new URL('./migrate-process.ts', import.meta.url));
  const child = spawn(process.execPath, ['--import', 'tsx', script, JSON.stringify({ options, folder })], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  let complaint = '';
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  child.stderr.on('data', (chunk) => {
    complaint += chunk;
  });
  const applied = once(child, 'close').then(([code, signal]) => {
    if (code !== 0) throw new Error(`ended with ${code ?? signal}: ${complaint}`);
    return JSON.parse(output) as string[];
  });
  applied.catch(() => {});
  return { child, applied };
}

const LOCKER = `
const [, file, sqlitePackage] = process.argv;
const database = require(sqlitePackage)(file);
database.exec('begin immediate');
console.log('locked');
process.stdin.once('data', () => { database.exec('rollback'); database.close(); process.exit(); });
`;

/** Another process that holds the write lock of a SQLite file until `release` is called. */
export async function lockElsewhere(file: string): Promise<{ release(): Promise<void> }> {
  const child = spawn(process.execPath, ['-e', LOCKER, file, SQLITE_PACKAGE], {
    cwd: root,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  return {
    async release() {
      child.stdin.write('release\n');
      await once(child, 'close');
    },
  };
}
