import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { CommandFailure, EXIT } from './failure.ts';

/** Where a verb reads and writes; `process` is one. */
export interface Terminal {
  readonly stdin: NodeJS.ReadableStream & { readonly isTTY?: boolean };
  readonly stdout: NodeJS.WritableStream;
  readonly stderr: NodeJS.WritableStream;
  readonly env: Readonly<Record<string, string | undefined>>;
}

const LONGEST = 4096;

/**
 * A new password: typed twice without echo, or the first line of a standard input that is no terminal.
 * @throws CommandFailure when there is none, or the second time it is another
 */
export async function newPassword(terminal: Terminal, name: string): Promise<string> {
  if (!terminal.stdin.isTTY) return firstLine(terminal);
  const password = await typed(terminal, `New password of ${name}: `);
  if ((await typed(terminal, 'The same again: ')) === password) return password;
  throw new CommandFailure('The two passwords are not the same', EXIT.usage);
}

/** The caller's own password, typed without echo. @throws CommandFailure without a terminal */
export async function ownPassword(terminal: Terminal, name: string): Promise<string> {
  if (terminal.stdin.isTTY) return typed(terminal, `Password of ${name}: `);
  throw new CommandFailure('TENON_USER is set and TENON_PASSWORD is not, and there is no terminal to ask', EXIT.usage);
}

/** All of standard input, decoded as UTF-8. @throws CommandFailure beyond `longest` bytes */
export async function allOfInput({ stdin }: Terminal, longest: number): Promise<string> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of stdin) {
    const octets = Buffer.from(part);
    length += octets.length;
    if (length > longest) throw new CommandFailure(`Standard input has more than ${longest} bytes`, EXIT.usage);
    parts.push(octets);
  }
  return Buffer.concat(parts).toString('utf8');
}

async function firstLine(terminal: Terminal): Promise<string> {
  const [line = ''] = (await allOfInput(terminal, LONGEST)).split(/\r?\n/, 1);
  return nonEmpty(line);
}

async function typed({ stdin, stderr }: Terminal, prompt: string): Promise<string> {
  stderr.write(prompt);
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: stdin, output: nowhere, terminal: true, historySize: 0 });
  try {
    const given = new Promise<string>((resolve, reject) => {
      lines.once('line', resolve);
      for (const event of ['SIGINT', 'close']) {
        lines.once(event, () => reject(new CommandFailure('No password was given', EXIT.usage)));
      }
    });
    return nonEmpty(await given);
  } finally {
    lines.close();
    stderr.write('\n');
  }
}

function nonEmpty(password: string): string {
  if (password !== '') return password;
  throw new CommandFailure('No password was given: type it, or write it to standard input', EXIT.usage);
}
