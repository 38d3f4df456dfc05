import { sql, type TableMetadata } from 'kysely';
import { expect, it } from 'vitest';
import { databases, sqliteDatabase } from '../support/databases.ts';

it('the tables that the migrations make are those of schema.sql', async () => {
  const { database, dispose } = await sqliteDatabase();
  const { rows } = await sql<{ sql: string }>`
    select sql from sqlite_master where sql is not null order by tbl_name, type desc, name`.execute(database.kysely);
  await dispose();
  const dump = rows.map((row) => `${row.sql};\n`).join('\n');
  await expect(dump).toMatchFileSnapshot('./schema.sql');
});

it('every engine gets the same tables and columns', async () => {
  const shapes: string[][] = [];
  for (const { create } of databases()) {
    const { database, dispose } = await create();
    const tables = await database.kysely.introspection.getTables();
    shapes.push(tables.flatMap(columns).sort());
    await dispose();
  }
  const [first, ...others] = shapes;
  expect(first?.length).toBeGreaterThan(100);
  for (const other of others) expect(other).toEqual(first);
});

function columns({ name, columns: all }: TableMetadata): string[] {
  return all.map((column) => `${name}.${column.name}`);
}
