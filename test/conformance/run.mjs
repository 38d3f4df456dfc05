import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

/**
 * Runs the client scenarios of the official conformance suite against this server, through its REST API: both
 * requirement sets, one scenario at a time, those of the sign-in left out. The last line is the score; the exit code is 1
 * when a scored scenario fails. Arguments are names of scenarios: only those are run.
 */
const root = fileURLToPath(new URL('../..', import.meta.url));
const suite = createRequire(import.meta.url).resolve('@modelcontextprotocol/conformance/dist/index.js');
const SETS = ['2025-11-25', '2026-07-28'];
const TIMEOUT_MS = 60_000;
const wanted = process.argv.slice(2);

/** Before Node 22 the suite's one import that is missing there is replaced. */
const shim = Number(process.versions.node.split('.')[0]) < 22 ? ['--import', './test/conformance/old-node.mjs'] : [];

async function run(args, env = {}) {
  const child = spawn(process.execPath, [...shim, suite, ...args], {
    cwd: root,
    env: { ...process.env, NODE_NO_WARNINGS: '1', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (part) => {
      text += part;
    });
  }
  const [code] = await once(child, 'close');
  return { code, text };
}

/** Names of the client scenarios of a requirement set; those that are reported and never scored apart. */
async function scenariosOf(set) {
  const { code, text } = await run(['list', '--client', '--requirements', set]);
  if (code !== 0) throw new Error(`the suite lists no scenarios:\n${text}`);
  const [required = '', unscored = ''] = text.split('Run and reported, but never scored:');
  const client = required.split('Client scenarios')[1] ?? '';
  const names = (part, pattern) => [...part.matchAll(pattern)].map(([, name]) => name);
  const ours = (name) => !name.startsWith('auth/') && (wanted.length === 0 || wanted.includes(name));
  return [
    ...names(client, /^ +- (\S+)$/gm).map((name) => ({ set, name, scored: true })),
    ...names(unscored, /^ +- (\S+) \[client\]$/gm).map((name) => ({ set, name, scored: false })),
  ].filter(({ name }) => ours(name));
}

async function startServer(folder) {
  const child = spawn(process.execPath, ['--import', 'tsx', 'src/main.ts', 'serve'], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      PATH: process.env.PATH,
      HOME: folder,
      TENON_PORT: '0',
      TENON_DATA_DIR: join(folder, 'data'),
      TENON_KEY_FILE: join(folder, 'key', 'master.key'),
    },
  });
  const url = await new Promise((resolve, reject) => {
    let text = '';
    child.stdout.on('data', (part) => {
      if (text === undefined) return;
      text += part;
      const found = /serving on (http:\/\/[^"]+)/.exec(text)?.[1];
      if (found === undefined) return;
      text = undefined;
      resolve(found);
    });
    child.once('close', (code) => reject(new Error(`the server ended with ${code}:\n${text ?? ''}`)));
  });
  return {
    url,
    async stop() {
      const closed = once(child, 'close');
      child.kill('SIGTERM');
      const force = setTimeout(() => child.kill('SIGKILL'), 15_000);
      await closed;
      clearTimeout(force);
    },
  };
}

async function play({ set, name }, url, folder) {
  const { code, text } = await run(
    [
      ...['client', '--command', `${process.execPath} test/conformance/adapter.mjs`, '--scenario', name],
      ...['--spec-version', set, '--timeout', String(TIMEOUT_MS), '-o', join(folder, 'results'), '--verbose'],
    ],
    { TENON_URL: url },
  );
  return { passed: code === 0, text };
}

const folder = mkdtempSync(join(tmpdir(), 'tenon-conformance-'));
const scores = [];
let failed = 0;
let server;
try {
  server = await startServer(folder);
  for (const set of SETS) {
    const score = { scored: 0, passed: 0, unscored: 0, unscoredPassed: 0 };
    for (const scenario of await scenariosOf(set)) {
      const { passed, text } = await play(scenario, server.url, folder);
      const counted = scenario.scored ? 'scored' : 'unscored';
      console.log(`${set}  ${counted.padEnd(8)}  ${passed ? 'passed' : 'FAILED'}  ${scenario.name}`);
      if (!passed) console.log(text.replace(/^/gm, '    '));
      score[scenario.scored ? 'scored' : 'unscored'] += 1;
      if (passed) score[scenario.scored ? 'passed' : 'unscoredPassed'] += 1;
      if (!passed && scenario.scored) failed += 1;
    }
    if (score.scored === 0 && wanted.length === 0) throw new Error(`the suite has no scored scenario for ${set}`);
    scores.push(
      `${set}: ${score.passed} of ${score.scored} scored` +
        (score.unscored > 0 ? `, ${score.unscoredPassed} of ${score.unscored} unscored` : ''),
    );
  }
} finally {
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
}
console.log(`passed without sign-in: ${scores.join('; ')}`);
process.exitCode = failed === 0 ? 0 : 1;
