import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const require = createRequire(import.meta.url);
const root = fileURLToPath(new URL('..', import.meta.url));
const READY_MS = 20_000;
const STOP_MS = 10_000;

export interface Running {
  readonly url: string;
  /** What the process has written so far, both streams. */
  output(): string;
  /** SIGTERM, and SIGKILL when that is not obeyed in 10 s. Resolves once the process is gone. */
  stop(): Promise<void>;
}

/** Bundles the server into `dist/`. @throws Error with the bundler's own words. */
export async function build(): Promise<void> {
  await promisify(execFile)(process.execPath, [join(root, 'scripts/build.mjs')], { cwd: root });
}

/** Starts the built server with all its files under `home` and nothing taken from the caller's `TENON_*` variables. */
export async function startTenon(home: string): Promise<Running> {
  const port = await freePort();
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('TENON_'));
  const child = spawn(process.execPath, ['--import', preload('with-parent.mjs'), join(root, 'dist/main.js'), 'serve'], {
    cwd: home,
    env: {
      ...Object.fromEntries(inherited),
      XDG_CONFIG_HOME: join(home, 'config'),
      TENON_PORT: String(port),
      TENON_DATA_DIR: join(home, 'data'),
      TENON_KEY_FILE: join(home, 'keys', 'master.key'),
    },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  return whenReady(child, 'Tenon', async () => {
    const url = `http://127.0.0.1:${port}`;
    const answer = await fetch(`${url}/healthz`).catch(() => undefined);
    return answer?.ok ? url : undefined;
  });
}

/**
 * Starts the everything server of the MCP project, which has no option for its address, on loopback. `port` 0 takes a
 * free one. One of its tools shows its environment, so it is given none of ours.
 */
export async function startEverything(port = 0): Promise<Running> {
  const program = require.resolve('@modelcontextprotocol/server-everything/dist/index.js');
  const { PATH = '' } = process.env;
  const preloads = ['loopback.mjs', 'with-parent.mjs'].flatMap((name) => ['--import', preload(name)]);
  const child = spawn(process.execPath, [...preloads, program, 'streamableHttp'], {
    env: { PATH, PORT: String(port) },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  let bound: number | undefined;
  child.once('message', (message: { port: number }) => {
    bound = message.port;
  });
  return whenReady(child, 'the everything server', async () => bound && `http://127.0.0.1:${bound}`);
}

function preload(name: string): string {
  return new URL(name, import.meta.url).href;
}

async function whenReady(
  child: ChildProcess,
  name: string,
  ready: () => Promise<string | 0 | undefined>,
): Promise<Running> {
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  let failure: Error | undefined;
  child.once('error', (error) => {
    failure = error;
  });
  const gone = () => failure !== undefined || child.exitCode !== null || child.signalCode !== null;
  const stop = async () => {
    if (gone()) return;
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    const kill = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
    await exited;
    clearTimeout(kill);
  };
  for (let waited = 0; waited < READY_MS && !gone(); waited += 25) {
    const url = await ready();
    if (url) return { url, output: () => output, stop };
    await sleep(25);
  }
  await stop();
  throw new Error(`${name} did not start: ${failure?.message ?? ''}${output}`);
}

/** @throws Error that names the first of these ports of 127.0.0.1 that is taken, and what to do */
export async function requireFree(ports: readonly number[]): Promise<void> {
  for (const port of ports) {
    await freePort(port).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EADDRINUSE') throw error;
      throw new Error(
        `port ${port} of 127.0.0.1 is taken. End what listens there (lsof -i :${port} shows it; perhaps another demo), or choose three other ports with --port <first> and write them into the commands.`,
      );
    });
  }
}

async function freePort(wanted = 0): Promise<number> {
  const probe = createServer().listen(wanted, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  const closed = once(probe, 'close');
  probe.close();
  await closed;
  if (typeof address !== 'object' || address === null) throw new Error('no free port on 127.0.0.1');
  return address.port;
}
