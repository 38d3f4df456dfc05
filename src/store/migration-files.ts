import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { StartupError } from '../errors.ts';

export interface MigrationFile {
  /** File name without extension and engine: `0001_documents`. */
  readonly name: string;
  readonly number: number;
  readonly text: string;
  /** SHA-256 of the text with `\n` line ends, hex. */
  readonly checksum: string;
  /** The first line is `--! breaking`: processes of the version before cannot work with the schema after it. */
  readonly breaking: boolean;
}

const FILE_NAME = /^((\d{4})_[a-z0-9_-]+)(?:\.(sqlite|postgres))?\.sql$/;

/** Beside the bundle (`dist/`), or two floors above this file in the source tree. */
export function defaultMigrationsFolder(): string {
  const beside = fileURLToPath(new URL('../migrations', import.meta.url));
  return existsSync(beside) ? beside : fileURLToPath(new URL('../../migrations', import.meta.url));
}

/**
 * The migrations of one engine, in order. `0008_x.sql` serves both engines, `0008_x.sqlite.sql` and
 * `0008_x.postgres.sql` one each.
 * @throws StartupError when the folder is missing or two files have one number.
 */
export async function readMigrations(folder: string, engine: 'sqlite' | 'postgres'): Promise<MigrationFile[]> {
  const names = await readdir(folder).catch((error: Error) => {
    throw new StartupError(`The migrations cannot be read: ${error.message}`);
  });
  const files: MigrationFile[] = [];
  for (const fileName of names.sort()) {
    const [, name, number, only] = FILE_NAME.exec(fileName) ?? [];
    if (name === undefined || (only !== undefined && only !== engine)) continue;
    const text = (await readFile(join(folder, fileName), 'utf8')).replaceAll('\r\n', '\n');
    files.push({
      name,
      number: Number(number),
      text,
      checksum: createHash('sha256').update(text).digest('hex'),
      breaking: text.startsWith('--! breaking\n'),
    });
  }
  const twice = files.find((file, index) => files[index + 1]?.number === file.number);
  if (twice) throw new StartupError(`Two migrations in ${folder} have the number of ${twice.name}`);
  return files;
}
