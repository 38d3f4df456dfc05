import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { afterEach, beforeEach, describe } from 'vitest';
import { type Database, type DatabaseOptions, openDatabase } from '../../src/store/database.ts';
import { migrate } from '../../src/store/migrator.ts';

/** A database of its own for one test. */
interface FreshDatabase {
  /** For opening it, also from another process. */
  readonly options: DatabaseOptions;
  /** Opened, and migrated unless it was asked for empty. */
  readonly database: Database;
  /** Closes the database and removes it. */
  dispose(): Promise<void>;
}

interface TestEngine {
  readonly kind: Database['kind'];
  create(options?: { empty?: boolean; busyLimitMs?: number }): Promise<FreshDatabase>;
}

const sqlite: TestEngine = {
  kind: 'sqlite',
  create: (options = {}) => sqliteDatabase(options),
};

const postgres: TestEngine = {
  kind: 'postgres',
  async create(options = {}) {
    const { address, template } = await postgresServer();
    const name = `test_${randomBytes(8).toString('hex')}`;
    await administer(address, `create database ${name} ${options.empty ? '' : `template ${template}`}`);
    return open({ url: `${address}/${name}`, dataDir: tmpdir() }, options, () =>
      administer(address, `drop database ${name} with (force)`),
    );
  },
};

/** Every engine the store serves: a SQLite file, and a real PostgreSQL that is started once for each worker. */
export function databases(): readonly TestEngine[] {
  return [sqlite, postgres];
}

/** One contract suite for every engine; `database()` is a migrated one of its own for each test. */
export function onEachEngine(name: string, suite: (database: () => Database) => void): void {
  describe.each(databases())(`${name} on $kind`, ({ create }) => {
    let fresh: FreshDatabase | undefined;
    beforeEach(async () => {
      fresh = await create();
    });
    afterEach(async () => {
      await fresh?.dispose();
    });
    suite(() => {
      if (!fresh) throw new Error('There is a database only while a test runs');
      return fresh.database;
    });
  });
}

/** A SQLite file in a directory of its own. */
export async function sqliteDatabase(options: { empty?: boolean; busyLimitMs?: number } = {}): Promise<FreshDatabase> {
  const dataDir = await mkdtemp(join(tmpdir(), 'tenon-sqlite-'));
  return open({ dataDir }, options, () => rm(dataDir, { recursive: true, force: true }));
}

async function open(
  where: DatabaseOptions,
  { empty = false, busyLimitMs }: { empty?: boolean; busyLimitMs?: number },
  remove: () => Promise<void>,
): Promise<FreshDatabase> {
  const options = { ...where, ...(busyLimitMs !== undefined && { busyLimitMs }) };
  const database = await openDatabase(options);
  if (!empty) await migrate(database, { mode: 'migrate' });
  return {
    options,
    database,
    async dispose() {
      await database.close();
      await remove();
    },
  };
}

async function administer(address: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: `${address}/postgres` });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

interface PostgresServer {
  /** `postgres://user:password@host:port`, without a database name. */
  readonly address: string;
  /** A migrated database to copy. */
  readonly template: string;
}

let server: Promise<PostgresServer> | undefined;

function postgresServer(): Promise<PostgresServer> {
  server ??= startPostgres().then(async (address) => {
    const template = 'migrated';
    await administer(address, `create database ${template}`);
    const database = await openDatabase({ url: `${address}/${template}`, dataDir: tmpdir() });
    await migrate(database, { mode: 'migrate' });
    await database.close();
    return { address, template };
  });
  return server;
}

async function startPostgres(): Promise<string> {
  const script = fileURLToPath(new URL('./postgres-server.mjs', import.meta.url));
  const child = spawn(process.execPath, [script], { detached: true, stdio: ['pipe', 'pipe', 'pipe'] });
  let complaint = '';
  child.stderr.on('data', (chunk) => {
    complaint += chunk;
  });
  const ended = once(child, 'close').then(() => {
    throw new Error(`PostgreSQL did not start: ${complaint}`);
  });
  const lines = createInterface({ input: child.stdout });
  const [line] = (await Promise.race([once(lines, 'line'), ended])) as [string];
  ended.catch(() => {});
  lines.close();
  child.unref();
  for (const pipe of [child.stdin, child.stdout, child.stderr]) (pipe as unknown as Socket).unref();
  return line;
}
