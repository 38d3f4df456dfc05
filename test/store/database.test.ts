import { chmod, mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { STORE_BUSY, StartupError } from '../../src/errors.ts';
import { openDatabase, UniqueViolation } from '../../src/store/database.ts';
import { createDocuments } from '../../src/store/documents.ts';
import { migrate } from '../../src/store/migrator.ts';
import { onEachEngine, sqliteDatabase } from '../support/databases.ts';
import { lockElsewhere } from '../support/processes.ts';

const setting = (name: string) => ({ scope: 'transient', name, value: '1', last_updated_time: 1 });

onEachEngine('a database', (database) => {
  it('undoes a write whose work fails, and stays usable', async () => {
    const { kysely, write } = database();
    const failing = write(async (transaction) => {
      await transaction.insertInto('settings').values(setting('a')).execute();
      throw new Error('changed my mind');
    });
    await expect(failing).rejects.toThrow('changed my mind');
    expect(await kysely.selectFrom('settings').select('name').execute()).toEqual([]);
    expect(await write(async () => 'usable')).toBe('usable');
  });

  it('names a unique violation the same on every engine, and no other failure', async () => {
    const { write } = database();
    const insert = (row: ReturnType<typeof setting>) =>
      write((transaction) => transaction.insertInto('settings').values(row).execute());
    await insert(setting('a'));
    await expect(insert(setting('a'))).rejects.toBeInstanceOf(UniqueViolation);
    const wrongScope = await insert({ ...setting('b'), scope: 'elsewhere' }).catch((error: unknown) => error);
    expect(wrongScope).toBeInstanceOf(Error);
    expect(wrongScope).not.toBeInstanceOf(UniqueViolation);
  });

  it('keeps the order of writes that come together, and lets none suffer for the failure of another', async () => {
    const { kysely, write } = database();
    const insert = (name: string) =>
      write((transaction) => transaction.insertInto('settings').values(setting(name)).execute());
    const names = ['a', 'b', 'a', 'c'];
    const written = await Promise.allSettled([
      ...names.map(insert),
      write(async () => {
        throw new Error('changed my mind');
      }),
    ]);
    expect(written.map(({ status }) => status).sort()).toEqual([
      'fulfilled',
      'fulfilled',
      'fulfilled',
      'rejected',
      'rejected',
    ]);
    expect(written.at(-1)).toMatchObject({ reason: { message: 'changed my mind' } });
    const rows = await kysely.selectFrom('settings').select('name').orderBy('name').execute();
    expect(rows.map(({ name }) => name)).toEqual(['a', 'b', 'c']);
  });

  it('writes inside the transaction of another write, which keeps or undoes both', async () => {
    const { kysely, write } = database();
    const both = (fails: boolean) =>
      write(async (unit) => {
        await write((within) => within.insertInto('settings').values(setting('inner')).execute(), { within: unit });
        if (fails) throw new Error('undone');
        await unit.insertInto('settings').values(setting('outer')).execute();
      });
    await expect(both(true)).rejects.toThrow('undone');
    expect(await kysely.selectFrom('settings').select('name').execute()).toEqual([]);
    await both(false);
    expect(await kysely.selectFrom('settings').select('name').execute()).toHaveLength(2);
  });

  it('gives whole numbers for 64-bit columns and counts', async () => {
    const { kysely, write } = database();
    const time = 1_796_000_000_123;
    await write((transaction) =>
      transaction
        .insertInto('settings')
        .values({ ...setting('a'), last_updated_time: time })
        .execute(),
    );
    const row = await kysely
      .selectFrom('settings')
      .select((select) => ['last_updated_time', select.fn.countAll<number>().over().as('count')])
      .executeTakeFirst();
    expect(row).toEqual({ last_updated_time: time, count: 1 });
  });

  it('finishes the write in progress before it closes, and closes only once', async () => {
    const { write, close } = database();
    const written = write((transaction) => transaction.insertInto('settings').values(setting('a')).execute());
    await Promise.all([close(), close()]);
    await expect(written).resolves.toBeDefined();
    await expect(write(async () => 'late')).rejects.toThrow('destroyed');
  });
});

describe('a SQLite file', () => {
  let home: string;
  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), 'tenon-files-'));
  });
  afterEach(async () => {
    await rm(home, { recursive: true, force: true });
  });
  const mode = async (path: string) => ((await stat(path)).mode & 0o777).toString(8);

  it('is open to its owner only, with everything beside it', async () => {
    const dataDir = join(home, 'deep', 'data');
    const database = await openDatabase({ dataDir });
    await migrate(database, { mode: 'check' });
    await createDocuments(database).insert('agent', 'a', { body: {} });
    expect(await mode(dataDir)).toBe('700');
    const files = await readdir(dataDir);
    expect(files.sort()).toEqual(['tenon.db', 'tenon.db-shm', 'tenon.db-wal']);
    for (const file of files) expect(await mode(join(dataDir, file))).toBe('600');
    await database.close();
    expect(await readdir(dataDir)).toEqual(['tenon.db']);
  });

  it('closes an empty directory to others, and reports one that somebody else fills', async () => {
    const warnings: string[] = [];
    const log = { warn: (_fields: object, message: string) => warnings.push(message) };
    const [empty, filled] = [join(home, 'empty'), join(home, 'filled')];
    for (const dataDir of [empty, filled]) {
      await mkdir(dataDir);
      await chmod(dataDir, 0o755);
    }
    await writeFile(join(filled, 'other'), '');
    await (await openDatabase({ dataDir: empty, log })).close();
    expect([await mode(empty), warnings]).toEqual(['700', []]);
    await (await openDatabase({ dataDir: filled, log })).close();
    expect(await mode(filled)).toBe('755');
    expect(warnings).toEqual([expect.stringContaining(`chmod 700 ${filled}`)]);
  });

  it('that is none, or cannot be reached, stops the start with one sentence', async () => {
    await writeFile(join(home, 'tenon.db'), 'this is a text file, and long enough to be read as a header '.repeat(20));
    await expect(openDatabase({ dataDir: home })).rejects.toThrow(
      new StartupError(`The database file ${join(home, 'tenon.db')} cannot be opened: file is not a database`),
    );
    const underFile = openDatabase({ dataDir: join(home, 'tenon.db', 'data') });
    await expect(underFile).rejects.toBeInstanceOf(StartupError);
  });
});

describe('writes to a SQLite file', () => {
  it('of one turn of the event loop are committed once, on the disk when one of them has to be', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'tenon-group-'));
    const statements: string[] = [];
    const database = await openDatabase({ dataDir, onStatement: (sql) => void statements.push(sql.toLowerCase()) });
    await migrate(database, { mode: 'migrate' });
    const insert = (name: string, durable: boolean) =>
      database.write((transaction) => transaction.insertInto('settings').values(setting(name)).execute(), { durable });
    statements.length = 0;
    await Promise.all([insert('a', false), insert('b', true), insert('c', false)]);
    await insert('d', true);
    await insert('e', false);
    const seen = statements.map((sql) => (sql.startsWith('insert') ? 'insert' : sql));
    const commit = (...inserts: string[]) => ['begin immediate', ...inserts, 'commit'];
    expect(seen).toEqual([
      'pragma synchronous = full',
      ...commit('insert', 'insert', 'insert'),
      ...commit('insert'),
      'pragma synchronous = normal',
      ...commit('insert'),
    ]);
    await database.close();
    await rm(dataDir, { recursive: true, force: true });
  });
});

describe('an address', () => {
  it('of another kind than PostgreSQL is refused without being repeated', async () => {
    const refused = openDatabase({ url: 'mysql://root:hunter2@db/x', dataDir: tmpdir() });
    await expect(refused).rejects.toBeInstanceOf(StartupError);
    await expect(refused).rejects.not.toThrow('hunter2');
  });

  it('nobody listens at stops the start and does not show the password', async () => {
    const refused = openDatabase({ url: 'postgres://tenon:hunter2@127.0.0.1:1/tenon', dataDir: tmpdir() });
    await expect(refused).rejects.toBeInstanceOf(StartupError);
    await expect(refused).rejects.toThrow(/cannot be reached: .*ECONNREFUSED/);
    await expect(refused).rejects.not.toThrow('hunter2');
  });
});

describe('a SQLite file another process has locked', () => {
  it('takes all writes once the lock ends, and meanwhile answers reads and leaves the event loop free', async () => {
    const { database, options, dispose } = await sqliteDatabase();
    const documents = createDocuments(database);
    await documents.insert('agent', 'before', { body: {} });
    const lock = await lockElsewhere(join(options.dataDir, 'tenon.db'));
    let ticks = 0;
    const ticker = setInterval(() => ticks++, 10);
    const creates = Promise.all(['a', 'b', 'c', 'd'].map((id) => documents.insert('connector', id, { body: {} })));
    let done = false;
    creates.then(
      () => {
        done = true;
      },
      () => {},
    );
    await sleep(1000);
    expect(await documents.get('agent', 'before')).toBeDefined();
    await sleep(1000);
    expect(done).toBe(false);
    expect(ticks).toBeGreaterThan(10);
    clearInterval(ticker);
    await lock.release();
    expect((await creates).map(({ result }) => result)).toEqual(Array(4).fill('created'));
    expect(await documents.count('connector')).toBe(4);
    await dispose();
  });

  it('refuses every waiting write after the limit with STORE_BUSY, stores none of them, and recovers', async () => {
    const { database, options, dispose } = await sqliteDatabase({ busyLimitMs: 300 });
    const documents = createDocuments(database);
    const lock = await lockElsewhere(join(options.dataDir, 'tenon.db'));
    const creates = await Promise.allSettled(
      ['a', 'b', 'c', 'd'].map((id) => documents.insert('connector', id, { body: {} })),
    );
    for (const create of creates) {
      expect(create).toMatchObject({ status: 'rejected', reason: { code: 'TENON_STORE_BUSY', statusCode: 503 } });
    }
    const durable = database.write(async () => 'never', { durable: true });
    await expect(durable).rejects.toBeInstanceOf(STORE_BUSY);
    await lock.release();
    expect(await documents.count('connector')).toBe(0);
    expect(await documents.insert('connector', 'a', { body: {} })).toMatchObject({ result: 'created' });
    await dispose();
  });
});
