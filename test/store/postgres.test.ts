import { sql } from 'kysely';
import pg from 'pg';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type CatalogueError, isCatalogueError } from '../../src/errors.ts';
import { createDocuments } from '../../src/store/documents.ts';
import { databases } from '../support/databases.ts';

type Fresh = Awaited<ReturnType<ReturnType<typeof databases>[number]['create']>>;
let fresh: Fresh;
let admin: pg.Client;
beforeEach(async () => {
  const postgres = databases().find(({ kind }) => kind === 'postgres');
  if (!postgres) throw new Error('PostgreSQL is one of the engines');
  fresh = await postgres.create();
  admin = new pg.Client({ connectionString: fresh.options.url });
  await admin.connect();
});
afterEach(async () => {
  await admin.end();
  await fresh.dispose();
});

const kill = () =>
  admin.query(
    'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
  );
const busy = async (): Promise<number> => {
  const { rows } = await admin.query<{ count: number }>(
    "select count(*)::int from pg_stat_activity where datname = current_database() and query like '%pg_sleep%' and pid <> pg_backend_pid()",
  );
  return rows[0]?.count ?? 0;
};
const failure = (work: Promise<unknown>): Promise<CatalogueError> =>
  work.then(
    () => {
      throw new Error('should have failed');
    },
    (error: unknown) => {
      if (!isCatalogueError(error)) throw error;
      return error;
    },
  );

it('connections that are ended while they write fail their writes with 503, and the next write works', async () => {
  const { database } = fresh;
  const documents = createDocuments(database);
  const slow = [1, 2, 3].map((index) =>
    failure(
      database.write(async (unit) => {
        await unit
          .insertInto('sequences')
          .values({ name: `slow ${index}`, value: 1 })
          .execute();
        await sql`select pg_sleep(20)`.execute(unit);
      }),
    ),
  );
  await expect.poll(busy).toBe(3);
  await kill();
  for (const error of await Promise.all(slow)) {
    expect([error.statusCode, error.code]).toEqual([503, 'TENON_STORE_BUSY']);
    expect(error.message).toMatch(/^The PostgreSQL database is not available: .*Nothing was stored; try again$/);
  }
  expect(await database.kysely.selectFrom('sequences').selectAll().where('name', 'like', 'slow%').execute()).toEqual(
    [],
  );
  await documents.insert('agent', 'after', { name: 'a', body: {} });
  expect(await documents.count('agent')).toBe(1);
});

it('a connection that is ended between two statements of a transaction harms nobody else', async () => {
  const { database } = fresh;
  const error = await failure(
    database.write(async (unit) => {
      await unit.insertInto('sequences').values({ name: 'held', value: 1 }).execute();
      await kill();
      await new Promise((done) => setTimeout(done, 100));
      await unit.insertInto('sequences').values({ name: 'held too', value: 1 }).execute();
    }),
  );
  expect(error.statusCode).toBe(503);
  await database.write((unit) => unit.insertInto('sequences').values({ name: 'next', value: 1 }).execute());
  const rows = await database.kysely.selectFrom('sequences').select('name').where('name', 'like', '%e%').execute();
  expect(rows.map(({ name }) => name)).toEqual(['next']);
});

it('a connection that is ended while it commits leaves the outcome open, and says so', async () => {
  const { database } = fresh;
  await sql`create function wait() returns trigger language plpgsql as $$ begin perform pg_sleep(20); return null; end $$`.execute(
    database.kysely,
  );
  await sql`create constraint trigger late after insert on sequences deferrable initially deferred for each row execute function wait()`.execute(
    database.kysely,
  );
  const written = failure(
    database.write((unit) => unit.insertInto('sequences').values({ name: 'x', value: 1 }).execute()),
  );
  await expect
    .poll(async () => {
      const { rows } = await admin.query("select 1 from pg_stat_activity where query = 'commit' and state = 'active'");
      return rows.length;
    })
    .toBe(1);
  await kill();
  expect((await written).message).toMatch(/while the change was being committed: read it again/);
});

it('reads fail with 503 too', async () => {
  const read = failure(sql`select pg_sleep(20)`.execute(fresh.database.kysely));
  await expect.poll(busy).toBe(1);
  await kill();
  expect((await read).statusCode).toBe(503);
});
