import { chmodSync, rmSync } from 'node:fs';
import process from 'node:process';
import { build } from 'esbuild';

/** One file for the whole server: what is imported lazily stays a file of its own, native parts stay packages. */
const outdir = process.argv[2] ?? 'dist';
rmSync(outdir, { recursive: true, force: true });
await build({
  entryPoints: ['src/main.ts'],
  outdir,
  bundle: true,
  splitting: true,
  platform: 'node',
  format: 'esm',
  target: 'node20',
  sourcemap: true,
  legalComments: 'linked',
  external: ['better-sqlite3', 'keytar', 'pg-native'],
  banner: {
    js: [
      '#!/usr/bin/env node',
      "import { createRequire as createBundleRequire } from 'node:module';",
      'const require = createBundleRequire(import.meta.url);',
    ].join('\n'),
  },
  logLevel: 'warning',
});
chmodSync(`${outdir}/main.js`, 0o755);
