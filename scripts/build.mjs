import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { build } from 'esbuild';

/**
 * `dist/main.js` starts `dist/server.js`, the whole server in one file: what is imported lazily stays a file of its own,
 * native parts stay packages. Built aside and moved into place file by file; a server that runs from the build before
 * still finds the files it has not loaded yet.
 */
const outdir = process.argv[2] ?? 'dist';
const aside = `${outdir}.building`;

/** The start is half compiling: later Nodes keep what they compiled, beside the bundle and thus in nobody else's reach. */
const LAUNCHER = `#!/usr/bin/env node
import module from 'node:module';
import { fileURLToPath } from 'node:url';
module.enableCompileCache?.(fileURLToPath(new URL('.cache', import.meta.url)));
await import('./server.js');
`;

/** What would be loaded or done at every start and is not needed there. */
const trims = {
  name: 'trims',
  setup({ onResolve, onLoad }) {
    // The pool of undici, without its fetch, web sockets, caches and mocks.
    onResolve({ filter: /^undici$/ }, ({ resolveDir }) => ({
      path: 'pool',
      namespace: 'trim',
      pluginData: resolveDir,
    }));
    onLoad({ filter: /^pool$/, namespace: 'trim' }, ({ pluginData }) => ({
      contents: [
        "import api from 'undici/lib/api/index.js';",
        "import Dispatcher from 'undici/lib/dispatcher/dispatcher.js';",
        "export { default as Pool } from 'undici/lib/dispatcher/pool.js';",
        'Object.assign(Dispatcher.prototype, api);',
      ].join('\n'),
      resolveDir: pluginData,
    }));
    // Our response schemas are checked against the schema of schemas whenever the tests start a server.
    onLoad({ filter: /fast-json-stringify[\\/]lib[\\/]schema-validator\.js$/ }, () => ({
      contents: 'module.exports = () => true;',
    }));
  },
};

rmSync(aside, { recursive: true, force: true });
await build({
  entryPoints: { server: 'src/main.ts' },
  outdir: aside,
  bundle: true,
  splitting: true,
  platform: 'node',
  format: 'esm',
  target: 'node20',
  sourcemap: true,
  legalComments: 'linked',
  external: ['keytar', 'pg-native'],
  plugins: [trims],
  banner: {
    js: [
      "import { createRequire as createBundleRequire } from 'node:module';",
      'const require = createBundleRequire(import.meta.url);',
    ].join('\n'),
  },
  logLevel: 'warning',
});
writeFileSync(join(aside, 'main.js'), LAUNCHER);
chmodSync(join(aside, 'main.js'), 0o755);

const main = join(outdir, 'main.js');
const before = existsSync(main) ? statSync(main).mtimeMs : 0;
const made = readdirSync(aside);
mkdirSync(outdir, { recursive: true });
for (const name of [...made.filter((name) => name !== 'main.js'), 'main.js'])
  renameSync(join(aside, name), join(outdir, name));
rmSync(aside, { recursive: true });
for (const name of readdirSync(outdir)) {
  const path = join(outdir, name);
  if (!made.includes(name) && statSync(path).isFile() && statSync(path).mtimeMs < before) rmSync(path);
}
