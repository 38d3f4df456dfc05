import { sql } from 'kysely';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { startApp, type TestApp } from '../support/build-app.ts';

let app: TestApp;
beforeEach(async () => {
  app = await startApp();
});
afterEach(() => app.close());

const create = (name: string) => app.request('POST', '/_plugins/_ml/memory', { name: name.repeat(2000) });

/** SQLite refuses to grow the file, as it does on a full disk. */
async function fill(): Promise<void> {
  const { kysely } = app.services.database;
  const { rows } = await sql<{ page_count: number }>`pragma page_count`.execute(kysely);
  await sql.raw(`pragma max_page_count = ${rows[0]?.page_count}`).execute(kysely);
}

it('a full disk is answered with 503 that says so, reads go on, and writes work again once there is room', async () => {
  await fill();
  let refused = await create('a');
  for (let more = 0; refused.status === 200 && more < 20; more += 1) refused = await create('a');
  expect(refused.status).toBe(503);
  expect(refused.headers.get('retry-after')).toBe('1');
  expect(refused.text).toContain('The disk of the database is full. Nothing was stored; make room on the disk');
  expect((await app.request('GET', '/_plugins/_ml/memory')).status).toBe(200);
  await sql`pragma max_page_count = 1000000`.execute(app.services.database.kysely);
  expect((await create('b')).status).toBe(200);
});

it('a database that takes no write is not ready', async () => {
  expect(await app.request('GET', '/readyz')).toMatchObject({ status: 200, body: { status: 'ready' } });
  await sql`pragma query_only = on`.execute(app.services.database.kysely);
  expect(await app.request('GET', '/readyz')).toMatchObject({
    status: 503,
    body: { status: 'unavailable', reason: 'The database takes no write; the log of the server says why' },
  });
  const refused = await create('a');
  expect(refused.status).toBe(503);
  expect(refused.text).toContain('SQLITE_READONLY');
  await sql`pragma query_only = off`.execute(app.services.database.kysely);
  expect((await app.request('GET', '/readyz')).status).toBe(200);
});
