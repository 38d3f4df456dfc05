import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const INTERVAL_MS = 500;

/**
 * Calls `gone` once when a process above this one has ended: its parent, and under npm the parent's parents up to npm,
 * because a killed npm takes nothing along. Where `ps` is missing only the parent is watched.
 */
export async function watchParents(gone: () => void): Promise<void> {
  const { ppid } = process;
  const above = process.env.npm_lifecycle_event === undefined ? [] : await parentsUpToNpm(ppid);
  const timer = setInterval(() => {
    if (process.ppid === ppid && above.every(isAlive)) return;
    clearInterval(timer);
    gone();
  }, INTERVAL_MS);
  timer.unref();
}

async function parentsUpToNpm(pid: number): Promise<number[]> {
  const pids: number[] = [];
  for (let current = pid; current > 1 && pids.length < 4; ) {
    pids.push(current);
    const [, parent, command = ''] = /^\s*(\d+)\s+(.*)/.exec(await describe(current)) ?? [];
    if (/\bnpm\b/.test(command)) return pids;
    current = Number(parent ?? 0);
  }
  return [];
}

async function describe(pid: number): Promise<string> {
  const ps = promisify(execFile)('ps', ['-o', 'ppid=,args=', '-p', String(pid)]);
  return ps.then(
    ({ stdout }) => stdout,
    () => '',
  );
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
