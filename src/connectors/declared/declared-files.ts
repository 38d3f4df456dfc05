import { readFile, stat } from 'node:fs/promises';
import { StartupError } from '../../errors.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../json.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { parseConfigText } from './declared-json.ts';

export interface ConfigFile {
  /** Absolute. */
  readonly path: string;
  /** The variable that names it. */
  readonly variable: 'TENON_CONFIG' | 'TENON_GLOBAL_CONFIG';
  /** Whether it has to be there. */
  readonly required: boolean;
}

/** A server as a configuration file writes it. */
export interface DeclaredEntry {
  readonly name: string;
  readonly entry: JsonValue;
  readonly path: string;
  /** When the file was changed last, epoch milliseconds. */
  readonly time: number;
}

const MAPS = ['mcpServers', 'mcp'];
const OTHERS = ['$schema'];
const WRITABLE_BY_ALL = 0o002;

/**
 * The servers of all files by name, in order of declaration; of several entries of a name the one of the last file holds.
 * @throws StartupError naming the variable and the path: a file that is named and missing, or that cannot be read; the
 * path and the line: one that is not JSON
 */
export async function readConfigFiles(files: readonly ConfigFile[], log: Logger): Promise<DeclaredEntry[]> {
  const entries = new Map<string, DeclaredEntry>();
  for (const file of files) {
    const read = await contentOf(file);
    if (read === undefined) continue;
    if ((read.mode & WRITABLE_BY_ALL) !== 0) {
      log.warn(
        { path: file.path },
        `${file.path} can be written by every user of this machine, who can so run programs`,
      );
    }
    for (const { name, entry } of entriesOf(read.content, file.path, log)) {
      entries.set(name, { name, entry, path: file.path, time: read.time });
    }
  }
  return [...entries.values()];
}

async function contentOf({
  path,
  variable,
  required,
}: ConfigFile): Promise<{ content: JsonObject; mode: number; time: number } | undefined> {
  let text: string;
  let facts: { mode: number; mtimeMs: number };
  try {
    [text, facts] = await Promise.all([readFile(path, 'utf8'), stat(path)]);
  } catch (error) {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException;
    const missing = code === 'ENOENT' || code === 'ENOTDIR';
    if (missing && !required) return undefined;
    const why = missing ? 'there is no such file; correct the variable, or unset it' : `it cannot be read (${code})`;
    throw new StartupError(`${variable}: ${path}: ${why}`);
  }
  const content = parseConfigText(text, path);
  if (!isJsonObject(content)) throw new StartupError(`${path} must hold one JSON object, such as {"mcp":{}}`);
  return { content, mode: facts.mode, time: Math.round(facts.mtimeMs) };
}

function entriesOf(content: JsonObject, path: string, log: Logger): { name: string; entry: JsonValue }[] {
  const unknown = Object.keys(content).filter((name) => !MAPS.includes(name) && !OTHERS.includes(name));
  if (unknown.length > 0)
    log.warn({ path, unknown }, `${path}: not read, because Tenon has no such member: ${unknown}`);
  const found = MAPS.flatMap((map) => {
    const servers = content[map] ?? {};
    if (!isJsonObject(servers)) {
      throw new StartupError(`${path}: ${map} must be an object of servers by their names`);
    }
    return Object.entries(servers).map(([name, entry]) => ({ name, entry }));
  });
  const names = found.map(({ name }) => name);
  const twice = [...new Set(names.filter((name, at) => names.indexOf(name) !== at))];
  if (twice.length > 0)
    log.warn({ path, twice }, `${path}: mcp and mcpServers both name ${twice}; that of mcp is used`);
  return found;
}
