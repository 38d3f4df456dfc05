import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

/** `npm start`: builds when the bundle is older than what it is made of, then serves in this very process. */
const BUNDLE = 'dist/main.js';

function newest(path) {
  const entry = statSync(path);
  if (!entry.isDirectory()) return entry.mtimeMs;
  return Math.max(0, ...readdirSync(path).map((name) => newest(join(path, name))));
}

function isStale() {
  if (!existsSync(BUNDLE)) return true;
  const built = statSync(BUNDLE).mtimeMs;
  return ['src', 'package.json', 'package-lock.json', 'scripts/build.mjs'].some((path) => newest(path) > built);
}

process.chdir(fileURLToPath(new URL('..', import.meta.url)));
if (isStale()) execFileSync(process.execPath, ['scripts/build.mjs'], { stdio: 'inherit' });
process.argv.splice(2, Number.POSITIVE_INFINITY, 'serve');
await import('../dist/main.js');
