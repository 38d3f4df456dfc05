import { readdir, readFile } from 'node:fs/promises';

const LOOK_MS = 10;
const MAX_LOOK_MS = 100;

/** Signals every process of the group that is led by `pid`; whether there is one. */
export function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-pid, signal);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

/** Whether nothing of the group runs any more, looked at until it is so or the time is over. */
export async function groupEnded(pid: number, limitMs: number): Promise<boolean> {
  const until = performance.now() + limitMs;
  for (let waitMs = LOOK_MS; await runs(pid); waitMs = Math.min(2 * waitMs, MAX_LOOK_MS)) {
    if (performance.now() >= until) return false;
    await new Promise((resolve) => setTimeout(resolve, waitMs));
  }
  return true;
}

/** A process that has ended takes signals until its parent collects it, which in a container without `init` nobody does. */
async function runs(pid: number): Promise<boolean> {
  if (!signalGroup(pid, 0)) return false;
  const processes = await readdir('/proc').catch(() => []);
  if (processes.length === 0) return true;
  const states = await Promise.all(
    processes
      .filter((name) => /^\d+$/.test(name))
      .map((name) => readFile(`/proc/${name}/stat`, 'latin1').catch(() => '')),
  );
  return states.some((line) => {
    // The name of the program stands in parentheses and may hold anything.
    const [state, , group] = line.slice(line.lastIndexOf(')') + 2).split(' ');
    return Number(group) === pid && state !== 'Z' && state !== 'X';
  });
}
