import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { LocalServer } from '../../connectors/types.ts';
import { UpstreamError } from '../../errors.ts';
import { failure, passedOn, type Side } from '../failures.ts';
import type { ProcessExit } from './local-process.ts';

/**
 * Why a local server could not be started. The operating system answers ENOENT for a command, a working directory and an
 * interpreter alike: which of them is missing is looked up.
 */
export async function spawnFailure(side: Side, server: LocalServer, error: unknown): Promise<UpstreamError> {
  if (error instanceof UpstreamError) return error;
  const { what, remedy } = await reason(server, error);
  return failure(side, 'spawn_failed', `could not be started: ${side.clean(what)}`, {
    remedy,
    delivered: 'no',
    cause: error,
  });
}

async function reason({ command, cwd }: LocalServer, error: unknown): Promise<{ what: string; remedy: string }> {
  const folder = await stat(cwd).catch((failed: NodeJS.ErrnoException) => failed.code ?? 'UNKNOWN');
  if (typeof folder === 'string') {
    const what = folder === 'ENOENT' ? 'does not exist' : `cannot be entered (${folder})`;
    return {
      what: `its working directory ${cwd} ${what}`,
      remedy: 'Correct `cwd` of the server in the configuration file, or make that directory.',
    };
  }
  if (!folder.isDirectory()) {
    return {
      what: `its working directory ${cwd} is not a directory`,
      remedy: 'Correct `cwd` of the server in the configuration file.',
    };
  }
  const code = (error as NodeJS.ErrnoException).code ?? '';
  const named = `the command "${command}"`;
  if (code === 'ENOENT') return missing(named, command, cwd);
  if (code === 'EACCES') {
    return {
      what: `${named} is not a program this server may run (EACCES)`,
      remedy: `Make the file executable, check the rights on its folders and on ${cwd}, or correct \`command\`.`,
    };
  }
  const text = error instanceof Error ? error.message : 'an unknown failure';
  if (code === '') return { what: text, remedy: 'Look at the log of this server.' };
  return {
    what: `${named} was refused by the operating system: ${text}`,
    remedy: 'Check the command of the server in the configuration file and the limits of this machine.',
  };
}

async function missing(named: string, command: string, cwd: string): Promise<{ what: string; remedy: string }> {
  if (!command.includes('/')) {
    return {
      what: `${named} is not in the PATH it is given`,
      remedy: 'Install the command, give its full path in the configuration file, or set PATH in `environment`.',
    };
  }
  const there = await stat(resolve(cwd, command)).then(
    () => true,
    () => false,
  );
  return there
    ? {
        what: `${named} names an interpreter in its first line that does not exist`,
        remedy: 'Install the interpreter, or correct the first line of that file.',
      }
    : { what: `${named} does not exist`, remedy: 'Correct `command` of the server in the configuration file.' };
}

/** What Node.js writes when a program throws: the error is above its stack and a line with the version. */
const NODE_END = /^Node\.js v\d/;
const NODE_ERROR = /^(?:Uncaught )?\w*(?:Error|Exception)\b/;

/** How a process ended that nobody told to, for the sentence of a failure. `stderr` is the end of its standard error. */
export function exitText(
  side: Side,
  { code, signal }: ProcessExit,
  { negotiated, stderr }: { readonly negotiated: boolean; readonly stderr: readonly string[] },
): string {
  const how = code === null ? `was ended by signal ${signal}` : `exited with code ${code}`;
  const when = negotiated ? '' : ' before the connection was made';
  const last = stderr.at(-1);
  if (last === undefined) return `${how}${when} and wrote nothing to its standard error`;
  const telling = NODE_END.test(last) ? (stderr.findLast((line) => NODE_ERROR.test(line)) ?? last) : last;
  return `${how}${when}; its standard error ends with "${passedOn(side, telling)}"`;
}
