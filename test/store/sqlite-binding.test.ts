import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { SQLITE_PACKAGE } from '../../src/store/sqlite-binding.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

const DROPPER = `
const database = new (require(process.argv[1]))(':memory:');
const turn = () => new Promise((resolve) => setImmediate(resolve));
(async () => {
  for (let made = 0; made < 50000; made += 1) {
    database.prepare('select ' + made % 1000).all();
    if (made % 1000 === 0) await turn();
  }
  console.log('lives');
})();
`;

/** With one thread V8 collects in tasks of its own between the turns of the event loop, and thus outside any context. */
it('statements nobody holds any more are collected between the turns of the event loop, and the process lives', () => {
  const { stdout, stderr, status, signal } = spawnSync(
    process.execPath,
    ['--single-threaded-gc', '-e', DROPPER, SQLITE_PACKAGE],
    { cwd: root, encoding: 'utf8' },
  );
  expect({ stdout, stderr, status, signal }).toEqual({ stdout: 'lives\n', stderr: '', status: 0, signal: null });
});

it('the package with the binaries inside is not handed to node-gyp by npm ci, which sees only the lock file', () => {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { gypfile?: boolean }>;
  };
  const remedy = 'npm install drops the line "gypfile": false from the entry of better-sqlite3-napi: put it back';
  expect(packages['node_modules/better-sqlite3-napi']?.gypfile, remedy).toBe(false);
});
