import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import type { ClientConfig, Connector, LocalServer } from '../../src/connectors/types.ts';
import { UpstreamError } from '../../src/errors.ts';
import { createLocalProcesses } from '../../src/mcp/process/local-process.ts';
import { type Opened, openWithRetry } from '../../src/mcp/session/opening.ts';
import type { McpCall, McpCallResult } from '../../src/mcp/types.ts';
import { createOutbound } from '../../src/outbound/fetch.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { createRedactor } from '../../src/telemetry/redactor.ts';

/** The scripted server of the fixtures: its flags are in the file. */
export const SERVER = fileURLToPath(new URL('../fixtures/stdio/server.mjs', import.meta.url));
export const PLAIN: Readonly<Record<string, string>> = { PATH: process.env.PATH ?? '' };

const CONFIG: ClientConfig = {
  max_connection: 30,
  connection_timeout: 10,
  read_timeout: 10,
  retry_backoff_policy: 'exponential_full_jitter',
  max_retry_times: 0,
  retry_backoff_millis: 20,
  retry_timeout_seconds: 20,
  skip_ssl_verification: false,
  max_total_timeout: 20,
  protocol_version: 'auto',
  elicitation: 'decline',
};

export interface ProcessRig {
  /** Opens a session with a process of its own; `args` are those of Node.js. @throws UpstreamError */
  open(
    args: readonly string[],
    options?: Partial<Omit<LocalServer, 'args'>> & { config?: Partial<ClientConfig>; signal?: AbortSignal },
  ): Promise<Opened>;
  /** Failures told of processes that ended by themselves. */
  readonly gone: Error[];
  /** What the latest process wrote to its standard error. */
  stderr(): readonly string[];
  readonly lines: string[];
  readonly listChanges: () => number;
  readonly taint: (secrets: readonly string[]) => void;
  /** Waits for everything that was given up. */
  settled(): Promise<void>;
  dispose(): Promise<void>;
}

/** Sessions with local servers, opened without a pool. */
export function processRig(): ProcessRig {
  const outbound = createOutbound();
  const redactor = createRedactor();
  const lines: string[] = [];
  const log = createLogger({ level: 'trace', redactor, stream: { write: (line: string) => void lines.push(line) } });
  const processes = createLocalProcesses();
  const gone: Error[] = [];
  const closing = new Set<Promise<unknown>>();
  let stderr: () => readonly string[] = () => [];
  let listChanges = 0;
  const settled = async (): Promise<void> => void (await Promise.allSettled(closing));
  return {
    async open(args, { command, cwd, environment, config, signal } = {}) {
      const connector: Connector = {
        id: 'local',
        name: 'local',
        protocol: 'mcp_stdio',
        parameters: {},
        clientConfig: { ...CONFIG, ...config },
        revision: 1,
      };
      const server: LocalServer = {
        command: command ?? process.execPath,
        args,
        cwd: cwd ?? process.cwd(),
        environment: environment ?? PLAIN,
      };
      const opened = await openWithRetry(
        connector,
        {
          connectors: {
            mcpEndpoint: () => Promise.reject(new Error('it has no address')),
            localServer: async () => server,
          },
          outbound,
          processes,
          redactor,
          log,
          now: Date.now,
          random: Math.random,
        },
        {
          signal: signal ?? new AbortController().signal,
          knownLegacy: false,
          onHeard: () => undefined,
          onMissed: () => undefined,
          onListChanged: () => {
            listChanges += 1;
          },
          onClosing: (closed) => void closing.add(closed),
          onGone: (error) => void gone.push(error),
          onStderr: (read) => {
            stderr = read;
          },
        },
      );
      return opened;
    },
    gone,
    stderr: () => stderr(),
    lines,
    listChanges: () => listChanges,
    taint: (secrets) => redactor.taint(secrets),
    settled,
    async dispose() {
      await processes.close();
      await outbound.close();
    },
  };
}

/** Calls a tool with the limits of a test. */
export function callTool(
  { session }: Pick<Opened, 'session'>,
  tool: string,
  values: object | string = {},
  more: Pick<McpCall, 'signal' | 'onProgress'> = {},
): Promise<McpCallResult> {
  const argumentsText = typeof values === 'string' ? values : JSON.stringify(values);
  return session.call({
    tool,
    inputSchema: { type: 'object' },
    argumentsText,
    arguments: JSON.parse(argumentsText),
    readTimeoutMs: 10_000,
    totalTimeoutMs: 20_000,
    ...more,
  }) as Promise<McpCallResult>;
}

/** The text of a result. */
export function textOf(result: McpCallResult): string {
  return String(result.content[0]?.text);
}

/** The failure of a promise that must fail with a remote side's. */
export async function failureOf(promise: Promise<unknown>): Promise<UpstreamError> {
  const error = await promise.then(
    () => undefined,
    (failed: unknown) => failed,
  );
  expect(error).toBeInstanceOf(UpstreamError);
  return error as UpstreamError;
}

/** Ids of the children of this process that run that script. */
export function childrenRunning(script: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const parent = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)?.split(' ')[1];
        return Number(parent) === process.pid && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(script);
      } catch {
        return false;
      }
    });
}

/** Whether a process runs, or with a negative number any of its group; what only waits to be collected does not. */
export function isAlive(pid: number): boolean {
  const processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return processes.some((name) => {
    try {
      const line = readFileSync(`/proc/${name}/stat`, 'latin1');
      const [state, , group] = line.slice(line.lastIndexOf(')') + 2).split(' ');
      return state !== 'Z' && (pid < 0 ? Number(group) === -pid : Number(name) === pid);
    } catch {
      return false;
    }
  });
}
