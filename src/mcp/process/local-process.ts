import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import type { LocalServer } from '../../connectors/types.ts';
import { groupEnded, signalGroup } from './process-group.ts';

/** How a process ended: by itself with a code, or by a signal. */
export interface ProcessExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A child process and everything it started: one process group, led by the child. */
export interface LocalProcess {
  readonly pid: number;
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Resolves when the child itself has ended, whatever is left of its group. */
  readonly exited: Promise<ProcessExit>;
  /**
   * Ends the group (MCP, stdio, Shutdown): closes the standard input, after 2 s SIGTERM, after 2 s more SIGKILL; where only
   * descendants are left the first wait is skipped. Settles when nothing is left. Whoever asks again waits for the same end.
   */
  end(): Promise<void>;
}

/** The child processes of one owner of connections. */
export interface LocalProcesses {
  /**
   * Starts a child: no shell, the environment of `server` and no other. A process of the same `connectorId` that is being
   * ended is waited for, so that the two never hold the same files or ports.
   * @throws the error of the operating system
   */
  start(connectorId: string, server: LocalServer): Promise<LocalProcess>;
  /** Kills every group that is left, without asking; settles when nothing is left. Nothing is started any more. */
  close(): Promise<void>;
}

const STDIN_MS = 2000;
const SIGTERM_MS = 2000;
/** The kernel's own work, and that of whoever has to collect orphans. */
const SIGKILL_MS = 1000;

/** No process runs. Groups that are alive when this process exits are killed then. */
export function createLocalProcesses(): LocalProcesses {
  const groups = new Set<number>();
  const endings = new Map<string, Set<Promise<void>>>();
  let closed = false;

  function killAll(): void {
    for (const pid of groups) signalGroup(pid, 'SIGKILL');
  }

  function opened(pid: number): void {
    if (groups.size === 0) process.on('exit', killAll);
    groups.add(pid);
  }

  function gone(pid: number): void {
    groups.delete(pid);
    if (groups.size === 0) process.off('exit', killAll);
  }

  async function endGroup(child: Omit<LocalProcess, 'end'>): Promise<void> {
    const { pid } = child;
    child.stdin.end();
    await within(child.exited, STDIN_MS);
    signalGroup(pid, 'SIGTERM');
    if (!(await groupEnded(pid, SIGTERM_MS))) {
      signalGroup(pid, 'SIGKILL');
      await groupEnded(pid, SIGKILL_MS);
    }
    for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
    gone(pid);
  }

  function tracked(connectorId: string, ending: Promise<void>): Promise<void> {
    const mine = endings.get(connectorId) ?? new Set();
    endings.set(connectorId, mine.add(ending));
    return ending.finally(() => {
      mine.delete(ending);
      if (mine.size === 0) endings.delete(connectorId);
    });
  }

  return {
    async start(connectorId, { command, args, environment, cwd }) {
      await Promise.allSettled(endings.get(connectorId) ?? []);
      if (closed) throw new Error('this server is shutting down');
      const child = spawn(command, args, {
        cwd,
        env: { ...environment },
        shell: false,
        detached: true,
        stdio: ['pipe', 'pipe', 'pipe'],
      });
      const { pid, stdin, stdout, stderr } = child;
      const exited = new Promise<ProcessExit>((resolve) => {
        child.once('exit', (code, signal) => resolve({ code, signal }));
      });
      if (pid !== undefined) opened(pid);
      await once(child, 'spawn');
      if (pid === undefined) throw new Error('it has no process id');
      // What goes wrong from here on, the end of the process or of its pipes tells too.
      for (const emitter of [child, stdin, stdout, stderr]) emitter.on('error', () => undefined);
      const running = { pid, stdin, stdout, stderr, exited };
      let ending: Promise<void> | undefined;
      return {
        ...running,
        end() {
          ending ??= tracked(connectorId, endGroup(running));
          return ending;
        },
      };
    },
    async close() {
      closed = true;
      killAll();
      await Promise.all([...groups].map((pid) => groupEnded(pid, SIGKILL_MS)));
    },
  };
}

/** Whether the promise settles within the time. */
export async function within(promise: Promise<unknown>, limitMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, limitMs, false);
  });
  const inTime = await Promise.race([promise.then(() => true), late]);
  clearTimeout(timer);
  return inTime;
}
