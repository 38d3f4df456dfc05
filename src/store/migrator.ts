import { type Kysely, type Migration, Migrator, sql } from 'kysely';
import { StartupError } from '../errors.ts';
import type { Database } from './database.ts';
import { defaultMigrationsFolder, type MigrationFile, readMigrations } from './migration-files.ts';
import type { Tables } from './tables.ts';

const APPLIED = 'schema_migrations';
const CHECKSUMS = 'schema_checksums';
/** How often a process that meets another migrating one looks again (each look already waits in the engine). */
const ATTEMPTS = 100;

interface AppliedMigration {
  readonly name: string;
  readonly checksum: string | null;
  readonly breaking: number | null;
}

/**
 * Brings the schema up to date.
 * `migrate` applies whatever is pending. `check`, for a process that is about to serve, does so on SQLite and on an
 * empty PostgreSQL; a PostgreSQL that holds an older schema is refused, because there migrating is a deploy step.
 * @returns the names of the migrations that were applied.
 * @throws StartupError for a database newer than the code (left as it is), an applied file that changed, or a failure.
 */
export async function migrate(
  database: Database,
  { folder = defaultMigrationsFolder(), mode }: { folder?: string; mode: 'migrate' | 'check' },
): Promise<string[]> {
  const files = await readMigrations(folder, database.kind);
  const applied = await readApplied(database.kysely);
  await refuseNewer(database, files, applied);
  refuseChanged(files, applied);
  const pending = files.filter((file) => !applied.some(({ name }) => name === file.name));
  if (pending.length > 0 && mode === 'check' && database.kind === 'postgres' && applied.length > 0) {
    throw new StartupError(
      `The PostgreSQL database holds an older schema (${pending.length} migrations behind, from ${pending[0]?.name}). ` +
        'Run `tenon migrate` with this version once, then start again',
    );
  }
  if (database.kind === 'sqlite') await sql`pragma journal_mode = wal`.execute(database.kysely);
  return pending.length === 0 ? [] : apply(database, files);
}

async function readApplied(kysely: Kysely<Tables>): Promise<AppliedMigration[]> {
  const tables = await kysely.introspection.getTables({ withInternalKyselyTables: true });
  const has = (table: string) => tables.some(({ name }) => name === table);
  if (!has(APPLIED) || !has(CHECKSUMS)) return [];
  const { rows } = await sql<AppliedMigration>`
    select applied.name, file.checksum, file.breaking
    from ${sql.table(APPLIED)} as applied left join ${sql.table(CHECKSUMS)} as file on file.name = applied.name
    order by applied.name`.execute(kysely);
  return rows;
}

async function refuseNewer(database: Database, files: MigrationFile[], applied: AppliedMigration[]): Promise<void> {
  const known = Math.max(0, ...files.map(({ number }) => number));
  const strangers = applied.filter(({ name }) => !files.some((file) => file.name === name));
  const version = database.kind === 'sqlite' ? await userVersion(database.kysely) : 0;
  if (strangers.length === 0 && version <= known) return;
  const what = strangers.length > 0 ? strangers.map(({ name }) => name).join(', ') : `schema version ${version}`;
  const breaking = strangers.some((stranger) => stranger.breaking === 1)
    ? ', marked as breaking for older programs'
    : '';
  throw new StartupError(
    `The database is newer than this program: it holds ${what}${breaking}, and this program knows up to ${known}. ` +
      'Nothing was changed. Start the newer version of Tenon, or restore a backup made by this one',
  );
}

async function userVersion(kysely: Kysely<Tables>): Promise<number> {
  const { rows } = await sql<{ user_version: number }>`pragma user_version`.execute(kysely);
  return rows[0]?.user_version ?? 0;
}

function refuseChanged(files: MigrationFile[], applied: AppliedMigration[]): void {
  const changed = files.filter(({ name, checksum }) =>
    applied.some((migration) => migration.name === name && migration.checksum !== checksum),
  );
  if (changed.length === 0) return;
  throw new StartupError(
    `Migrations that this database has already applied were changed since: ${changed.map(({ name }) => name).join(', ')}. ` +
      'Restore these files; a change of the schema is a new migration',
  );
}

async function apply(database: Database, files: MigrationFile[]): Promise<string[]> {
  const migrator = new Migrator({
    db: database.kysely,
    migrationTableName: APPLIED,
    migrationLockTableName: 'schema_migrations_lock',
    provider: {
      getMigrations: async () => Object.fromEntries(files.map((file) => [file.name, migration(database, file)])),
    },
  });
  for (let attempt = 1; ; attempt++) {
    const { error, results = [] } = await migrator.migrateToLatest();
    if (!error) return results.map(({ migrationName }) => migrationName);
    if (isLocked(error) && attempt < ATTEMPTS) continue;
    const failed = results.find(({ status }) => status === 'Error')?.migrationName;
    throw new StartupError(
      `The schema could not be brought up to date${failed ? ` (${failed})` : ''}: ${(error as Error).message}. ` +
        'Nothing of it was kept',
    );
  }
}

function isLocked(error: unknown): boolean {
  return String((error as { code?: unknown }).code).startsWith('SQLITE_BUSY');
}

/** The file, its checksum and (by the migrator) its mark are one transaction. */
function migration(database: Database, file: MigrationFile): Migration {
  return {
    async up(transaction: Kysely<Tables>) {
      await database.script(
        transaction,
        `create table if not exists ${CHECKSUMS} (name text primary key, checksum text not null, breaking smallint not null)`,
      );
      await database.script(transaction, file.text);
      await sql`insert into ${sql.table(CHECKSUMS)} (name, checksum, breaking)
        values (${file.name}, ${file.checksum}, ${file.breaking ? 1 : 0})`.execute(transaction);
      if (database.kind === 'sqlite') await database.script(transaction, `pragma user_version = ${file.number}`);
    },
  };
}
