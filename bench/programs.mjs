// The programs of one benchmark: started in a folder of its own, ended and removed with it.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const START_MS = 20_000;

const root = fileURLToPath(new URL('..', import.meta.url));
const home = mkdtempSync(join(tmpdir(), 'tenon-bench-'));
const running = new Set();

function start(command, env = {}, stderr = 'inherit') {
  const child = spawn(process.execPath, command, {
    cwd: home,
    env: { ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TENON_'))), ...env },
    stdio: ['ignore', 'pipe', stderr],
  });
  running.add(child);
  child.once('exit', () => running.delete(child));
  return child;
}

export async function stop(child) {
  if (!running.has(child)) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  await exited;
}

/** Starts a program of this folder that prints its address as its first line. */
export async function startScript(name, ...options) {
  const started = performance.now();
  const child = start([join(root, 'bench', name), ...options]);
  const line = await Promise.race([once(createInterface(child.stdout), 'line'), once(child, 'exit')]);
  if (typeof line[0] !== 'string') throw new Error(`${name} did not start`);
  return { child, url: JSON.parse(line[0]).url, coldStartMs: performance.now() - started };
}

async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address();
  probe.close();
  await once(probe, 'close');
  return port;
}

export async function post(url, body) {
  const answer = await fetch(url, {
    method: 'POST',
    ...(body !== undefined && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`POST ${url}: ${answer.status} ${text}`);
  return JSON.parse(text);
}

/** Builds what `startTenon` starts. */
export function build() {
  execFileSync(process.execPath, [join(root, 'scripts/build.mjs')], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}

/** The built server on an empty database; `nodeOptions` come before the program. */
export async function startTenon({ nodeOptions = [], logLevel = 'info', stderr = 'inherit' } = {}) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const started = performance.now();
  const env = {
    XDG_CONFIG_HOME: join(home, 'config'),
    TENON_PORT: String(port),
    TENON_DATA_DIR: join(home, 'data'),
    TENON_KEY_FILE: join(home, 'master.key'),
    TENON_LOG_LEVEL: logLevel,
  };
  const child = start([...nodeOptions, join(root, 'dist/main.js'), 'serve'], env, stderr);
  child.stdout.resume();
  while (!(await fetch(`${url}/healthz`).catch(() => undefined))?.ok) {
    if (performance.now() - started > START_MS || child.exitCode !== null) throw new Error('the server did not start');
    await sleep(5);
  }
  return { child, url, ml: `${url}/_plugins/_ml`, coldStartMs: performance.now() - started };
}

for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130));
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
  rmSync(home, { recursive: true, force: true });
});
