import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import { startApp, type TestApp } from '../support/build-app.ts';
import { databases } from '../support/databases.ts';

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** Starts servers on one SQLite folder, or on one PostgreSQL database, with one key. */
async function place(kind: 'sqlite' | 'postgres'): Promise<() => Promise<TestApp>> {
  const folder = await mkdtemp(join(tmpdir(), 'tenon-two-'));
  closers.push(() => rm(folder, { recursive: true, force: true }));
  let databaseUrl: string | undefined;
  if (kind === 'postgres') {
    const fresh = await databases()
      .find((engine) => engine.kind === kind)
      ?.create();
    closers.push(async () => fresh?.dispose());
    databaseUrl = fresh?.options.url;
  }
  return async () => {
    const app = await startApp({ folder, config: { databaseUrl } });
    closers.push(() => app.close());
    return app;
  };
}

const MCP = 'plugins.ml_commons.mcp_connector_enabled';
const set = (app: TestApp, scope: string, value: string | null) =>
  app.request('PUT', '/_cluster/settings', { [scope]: { [MCP]: value } });
const warnings = (app: TestApp) => app.lines.filter((line) => line.includes('Another server is running'));

async function startRun(app: TestApp, messageId: string): Promise<void> {
  const { database, memory } = app.services;
  const { memory_id: memoryId } = await memory.create(OPEN_PRINCIPAL, { name: 'talk' });
  await database.kysely
    .insertInto('messages')
    .values({ id: messageId, memory_id: memoryId, seq: 1, input: 'q', response: '', version: 1, create_time: 1 })
    .execute();
  const { id } = await database.kysely.selectFrom('processes').select('id').executeTakeFirstOrThrow();
  await database.kysely
    .insertInto('runs')
    .values({
      id: `run-${messageId}`,
      agent_id: 'a',
      memory_id: memoryId,
      message_id: messageId,
      principal: 'open',
      state: 'running',
      request: '{}',
      process_id: id,
      create_time: 1,
      last_update_time: 1,
    })
    .execute();
}

async function runState(app: TestApp, messageId: string): Promise<unknown> {
  const { kysely } = app.services.database;
  const run = await kysely.selectFrom('runs').select('state').where('message_id', '=', messageId).executeTakeFirst();
  const message = await kysely.selectFrom('messages').select('response').where('id', '=', messageId).executeTakeFirst();
  return [run?.state, message?.response];
}

describe.each(['sqlite', 'postgres'] as const)('two servers on one database (%s)', (kind) => {
  it('see each other’s settings after a moment', async () => {
    const start = await place(kind);
    const [one, two] = [await start(), await start()];
    await set(one, 'persistent', 'false');
    await expect.poll(() => two.services.settings.flag(MCP), { timeout: 5000, interval: 50 }).toBe(false);
    await set(two, 'transient', 'true');
    await expect.poll(() => one.services.settings.flag(MCP), { timeout: 5000, interval: 50 }).toBe(true);
  });

  it('do not clear up what the other one is at', async () => {
    const start = await place(kind);
    const one = await start();
    await set(one, 'transient', 'false');
    await startRun(one, 'g1');
    const two = await start();
    expect(two.services.settings.flag(MCP)).toBe(false);
    expect(await runState(two, 'g1')).toEqual(['running', '']);
    expect(warnings(one)).toEqual([]);
    expect(warnings(two)).toHaveLength(kind === 'sqlite' ? 1 : 0);
  });

  it('end the runs that a stopped one left behind', async () => {
    const start = await place(kind);
    const one = await start();
    await startRun(one, 'g1');
    await one.close();
    const two = await start();
    const answer = 'Agent execution failed: the server stopped while it ran';
    expect(await runState(two, 'g1')).toEqual(['interrupted', answer]);
    expect(two.lines.join('\n')).toContain('1 runs of a server that stopped are marked as interrupted');
  });
});

it('a third server on a SQLite folder sees the second, though the first has stopped', async () => {
  const start = await place('sqlite');
  const one = await start();
  const two = await start();
  await one.close();
  expect(warnings(await start())).toHaveLength(1);
  await two.close();
});

it('a server that starts alone on SQLite forgets the transient settings', async () => {
  const start = await place('sqlite');
  const one = await start();
  await set(one, 'transient', 'false');
  await one.close();
  expect((await start()).services.settings.flag(MCP)).toBe(true);
});
