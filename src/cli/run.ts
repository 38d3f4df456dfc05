import { Command, CommanderError } from 'commander';
import { type ClientConfig, readClientConfig } from '../config.ts';
import { StartupError } from '../errors.ts';
import { createApi } from './api.ts';
import type { CommandContext } from './context.ts';
import { CommandFailure, EXIT } from './failure.ts';
import { addKeyVerbs } from './keys.ts';
import { addMcpVerbs } from './mcp.ts';
import { plainText } from './output.ts';
import { ownPassword, type Terminal } from './password.ts';
import { addRoleVerbs } from './roles.ts';
import { addUserVerbs } from './users.ts';

/**
 * One verb that talks to a running server, and nothing else: the store is never opened.
 * @param argv from the verb on
 * @returns the exit code: 0, or one of `EXIT`
 */
export async function runCommand(argv: readonly string[], terminal: Terminal): Promise<number> {
  const note = (text: string): void => void terminal.stderr.write(`${plainText(text)}\n`);
  try {
    const config = readClientConfig(terminal.env);
    const authorization = once(() => credentials(config, terminal));
    const context: CommandContext = {
      api: createApi({ url: config.url, authorization }),
      terminal,
      say: (text) => void terminal.stdout.write(`${text}\n`),
      note,
    };
    await createProgram(context).parseAsync([...argv], { from: 'user' });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) {
      if (error.exitCode !== 0 && !error.code.startsWith('commander.help'))
        note(`tenon: ${error.message.replace(/^error: /, '')}`);
      return error.exitCode === 0 ? 0 : EXIT.usage;
    }
    if (!(error instanceof CommandFailure || error instanceof StartupError)) throw error;
    note(`tenon: ${error.message}`);
    return error instanceof CommandFailure ? error.exitCode : EXIT.usage;
  }
}

function createProgram(context: CommandContext): Command {
  const program = new Command('tenon').exitOverride().configureOutput({
    writeOut: (text) => void context.terminal.stdout.write(text),
    writeErr: (text) => void context.terminal.stderr.write(text),
    outputError: () => undefined,
  });
  addUserVerbs(program, context);
  addKeyVerbs(program, context);
  addRoleVerbs(program, context);
  addMcpVerbs(program, context);
  return program;
}

const UNENCRYPTED = /^http:\/\/(?!localhost[:/]|localhost$|127\.[\d.]+([:/]|$)|\[::1\])/;

async function credentials(config: ClientConfig, terminal: Terminal): Promise<string | undefined> {
  const { apiKey, user, password, url } = config;
  if ((user ?? apiKey) !== undefined && UNENCRYPTED.test(url)) {
    terminal.stderr.write(`tenon: warning: credentials go to ${url} unencrypted\n`);
  }
  if (user === undefined) return apiKey === undefined ? undefined : `Bearer ${apiKey}`;
  const secret = password ?? (await ownPassword(terminal, user));
  return `Basic ${Buffer.from(`${user}:${secret}`, 'utf8').toString('base64')}`;
}

function once<T>(work: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  return () => {
    result ??= work();
    return result;
  };
}
