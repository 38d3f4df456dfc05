import { createHash } from 'node:crypto';
import { appendFile, cp, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { StartupError } from '../../src/errors.ts';
import { type Database, openDatabase } from '../../src/store/database.ts';
import { createDocuments } from '../../src/store/documents.ts';
import { migrate } from '../../src/store/migrator.ts';
import { Sqlite } from '../../src/store/sqlite-binding.ts';
import { databases, sqliteDatabase } from '../support/databases.ts';
import { migrateElsewhere } from '../support/processes.ts';

const MIGRATIONS = fileURLToPath(new URL('../../migrations', import.meta.url));
const names = (await readdir(MIGRATIONS)).map((file) => file.replace('.sql', '')).sort();

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenon-migrations-'));
  await cp(MIGRATIONS, folder, { recursive: true });
});
afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await sleep(20);
}

async function tables({ kysely }: Database): Promise<string[]> {
  return (await kysely.introspection.getTables()).map(({ name }) => name);
}

const digest = async (file: string) =>
  createHash('sha256')
    .update(await readFile(file))
    .digest('hex');

describe.each(databases())('migrations on $kind', ({ kind, create }) => {
  it('are applied once, in order', async () => {
    const { database, dispose } = await create({ empty: true });
    expect(await migrate(database, { mode: 'check' })).toEqual(names);
    expect(await migrate(database, { mode: 'check' })).toEqual([]);
    expect(await migrate(database, { folder, mode: 'migrate' })).toEqual([]);
    await dispose();
  });

  it('are all or nothing: one that fails is named, leaves nothing, and can be mended', async () => {
    const { database, dispose } = await create({ empty: true });
    await writeFile(join(folder, '0099_broken.sql'), 'CREATE TABLE half (id TEXT);\nCREATE TABLE half (id TEXT);\n');
    const failed = migrate(database, { folder, mode: 'migrate' });
    await expect(failed).rejects.toBeInstanceOf(StartupError);
    await expect(failed).rejects.toThrow('0099_broken');
    const left = await tables(database);
    expect(left).not.toContain('half');
    expect(left).not.toContain('documents');
    await writeFile(join(folder, '0099_broken.sql'), 'CREATE TABLE half (id TEXT);\n');
    expect(await migrate(database, { folder, mode: 'check' })).toEqual([...names, '0099_broken']);
    await dispose();
  });

  it('take the variant of the engine', async () => {
    const { database, dispose } = await create({ empty: true });
    await writeFile(join(folder, '0099_own.sqlite.sql'), 'CREATE TABLE made_on_sqlite (id TEXT);');
    await writeFile(join(folder, '0099_own.postgres.sql'), 'CREATE TABLE made_on_postgres (id TEXT);');
    await migrate(database, { folder, mode: 'migrate' });
    const made = (await tables(database)).filter((name) => name.startsWith('made_on_'));
    expect(made).toEqual([`made_on_${kind}`]);
    await dispose();
  });

  it('refuse a database of a newer program', async () => {
    const { database, dispose } = await create();
    await writeFile(join(folder, '0099_later.sql'), '--! breaking\nCREATE TABLE later (id TEXT);\n');
    await migrate(database, { folder, mode: 'migrate' });
    for (const mode of ['check', 'migrate'] as const) {
      const refused = migrate(database, { mode });
      await expect(refused).rejects.toBeInstanceOf(StartupError);
      await expect(refused).rejects.toThrow(
        /newer than this program: it holds 0099_later, marked as breaking.* Nothing was changed/,
      );
    }
    await dispose();
  });

  it('refuse an applied file that was changed, but not other line ends', async () => {
    const { database, dispose } = await create();
    const file = join(folder, `${names[0]}.sql`);
    await writeFile(file, (await readFile(file, 'utf8')).replaceAll('\n', '\r\n'));
    expect(await migrate(database, { folder, mode: 'check' })).toEqual([]);
    await appendFile(file, '-- a comment\n');
    const refused = migrate(database, { folder, mode: 'check' });
    await expect(refused).rejects.toBeInstanceOf(StartupError);
    await expect(refused).rejects.toThrow(`changed since: ${names[0]}.`);
    await dispose();
  });

  it('refuse two files of one number and a missing folder', async () => {
    const { database, dispose } = await create({ empty: true });
    await expect(migrate(database, { folder: `${folder}-none`, mode: 'check' })).rejects.toBeInstanceOf(StartupError);
    await writeFile(join(folder, '0001_again.sql'), 'SELECT 1;');
    await expect(migrate(database, { folder, mode: 'check' })).rejects.toThrow(/have the number of 0001_/);
    await dispose();
  });

  it('go on cleanly after a process was killed in the middle of its first start', async () => {
    const { database, options, dispose } = await create({ empty: true });
    await writeFile(join(folder, '0099_slow.postgres.sql'), 'CREATE TABLE slow (id TEXT); SELECT pg_sleep(2);');
    await writeFile(
      join(folder, '0099_slow.sqlite.sql'),
      `CREATE TABLE slow AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000000000)
       SELECT hex(randomblob(500)) AS filler FROM n;`,
    );
    const { child, applied } = migrateElsewhere(options, folder);
    await until(async () => {
      if (child.exitCode !== null) throw new Error(`it was not killed: ${await applied}`);
      if (kind === 'sqlite') {
        const log = await stat(join(options.dataDir, 'tenon.db-wal')).catch(() => undefined);
        return (log?.size ?? 0) > 8_000_000;
      }
      const { rows } = await sql<{ query: string }>`
        select query from pg_stat_activity
        where datname = current_database() and state = 'active' and pid <> pg_backend_pid()`.execute(database.kysely);
      return rows.some(({ query }) => query.includes('pg_sleep'));
    });
    child.kill('SIGKILL');
    await expect(applied).rejects.toThrow('SIGKILL');
    const { applied: second } = migrateElsewhere(options, MIGRATIONS);
    expect(await second).toEqual(names);
    expect(await tables(database)).not.toContain('slow');
    expect(await createDocuments(database).insert('agent', 'a', { body: {} })).toMatchObject({ result: 'created' });
    await dispose();
  });

  it('meet no trouble when several processes start at once', async () => {
    const { options, dispose } = await create({ empty: true });
    const starts =
      kind === 'sqlite'
        ? [1, 2].map(() => migrateElsewhere(options, MIGRATIONS).applied)
        : [1, 2, 3, 4].map(async () => {
            const database = await openDatabase(options);
            const applied = await migrate(database, { mode: 'check' });
            await database.close();
            return applied;
          });
    const applied = await Promise.all(starts);
    expect(applied.filter(({ length }) => length > 0)).toEqual([names]);
    await dispose();
  });

  it('bring an older schema up to date where that is no deploy step', async () => {
    const { database, dispose } = await create();
    await writeFile(join(folder, '0099_next.sql'), 'CREATE TABLE next (id TEXT);');
    if (kind === 'postgres') {
      const refused = migrate(database, { folder, mode: 'check' });
      await expect(refused).rejects.toBeInstanceOf(StartupError);
      await expect(refused).rejects.toThrow(/older schema.*0099_next.*`tenon migrate`/);
      expect(await tables(database)).not.toContain('next');
    }
    const mode = kind === 'postgres' ? 'migrate' : 'check';
    expect(await migrate(database, { folder, mode })).toEqual(['0099_next']);
    await dispose();
  });
});

describe('a SQLite file of a newer program', () => {
  it.each([
    ['migrated by this one before', false],
    ['unknown to this one', true],
  ])('%s is refused and keeps every byte', async (_name, empty) => {
    const { database, options, dispose } = await sqliteDatabase({ empty });
    await database.close();
    const file = join(options.dataDir, 'tenon.db');
    const other = new Sqlite(file);
    other.pragma('user_version = 999');
    other.close();
    const before = await digest(file);
    const opened = await openDatabase(options);
    const refused = migrate(opened, { mode: 'check' });
    await expect(refused).rejects.toBeInstanceOf(StartupError);
    await expect(refused).rejects.toThrow(/newer than this program: it holds schema version 999/);
    await opened.close();
    expect(await digest(file)).toBe(before);
    expect(await readdir(options.dataDir)).toEqual(['tenon.db']);
    await dispose();
  });
});
