import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { StartupError } from '../../src/errors.ts';
import type { JsonObject } from '../../src/json.ts';
import { Sqlite } from '../../src/store/sqlite-binding.ts';
import { startApp } from '../support/build-app.ts';
import { lockElsewhere } from '../support/processes.ts';
import { reasonOf, startRig } from './rig.ts';

const rig = startRig();
const file = (): string => join(rig.app.config.dataDir, 'tenon.db');

describe('a database another process has locked', () => {
  const locks: { release(): Promise<void> }[] = [];
  afterEach(async () => {
    for (const lock of locks.splice(0)) await lock.release();
  });
  async function lock(): Promise<{ release(): Promise<void> }> {
    const held = await lockElsewhere(file());
    locks.push(held);
    return { release: async () => locks.splice(locks.indexOf(held), 1)[0]?.release() };
  }

  it('takes every write once it is free, and the server answers meanwhile', async () => {
    const server = await rig.serve();
    const connectorId = await rig.connector(server.origin);
    const agent = await rig.agent(connectorId);
    rig.llm.reset(({ messages }) => {
      const last = messages.at(-1);
      return last?.role === 'tool' ? `A ${last.content}` : { tool: 'echo', args: `{"text":"${last?.content}"}` };
    });
    const held = await lock();
    const names = [0, 1, 2, 3].map((index) => `made under a lock ${index}`);
    const writes = Promise.all([
      ...names.map((name) =>
        rig.send('POST', '/connectors/_create', {
          name,
          version: 1,
          protocol: 'mcp_streamable_http',
          url: server.origin,
        }),
      ),
      ...names.map((name) => rig.ask(agent, name)),
    ]);
    let done = false;
    void writes.then(() => {
      done = true;
    });
    for (const end = performance.now() + 1200; performance.now() < end; ) {
      const [health, shown] = await Promise.all([
        rig.app.request('GET', '/healthz'),
        rig.send('GET', `/connectors/${connectorId}`),
      ]);
      expect([health.status, shown.status]).toEqual([200, 200]);
      await sleep(100);
    }
    expect(done).toBe(false);
    await held.release();
    const answers = await writes;
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200));
    for (const { body } of answers.slice(0, 4)) {
      const { status } = await rig.send('GET', `/connectors/${body.connector_id}`);
      expect(status).toBe(200);
    }
    for (const [index, turn] of answers.slice(4).entries()) {
      const { memoryId } = turn as { memoryId: string } & typeof turn;
      const { messages } = await rig.ok('GET', `/memory/${memoryId}/messages`);
      expect((messages as JsonObject[]).map(({ input, response }) => [input, response])).toEqual([
        [names[index], `A echo: {"text":"${names[index]}"}`],
      ]);
    }
  });

  it('for too long answers 503, and nothing of it is stored', async () => {
    const server = await rig.serve();
    const agent = await rig.agent();
    rig.llm.reset('done');
    const before = await rig.ok('GET', '/memory?max_results=100');
    const held = await lock();
    const [created, updated, asked] = await Promise.all([
      rig.send('POST', '/connectors/_create', {
        connector_id: 'never-made',
        name: 'x',
        version: 1,
        protocol: 'mcp_streamable_http',
        url: server.origin,
      }),
      rig.send('PUT', `/agents/${agent}`, { description: 'never written' }),
      rig.ask(agent, 'never stored'),
    ]);
    await held.release();
    expect([created.status, updated.status, asked.status]).toEqual([503, 503, 503]);
    expect(reasonOf(created)).toMatch(/database/i);
    expect(Number(created.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await rig.send('GET', '/connectors/never-made')).status).toBe(404);
    expect(await rig.ok('GET', `/agents/${agent}`)).not.toHaveProperty('description');
    expect(await rig.ok('GET', '/memory?max_results=100')).toEqual(before);
    expect(rig.llm.requests).toEqual([]);
    expect((await rig.ask(agent, 'and now')).answer).toBe('done');
  });
});

describe('a database of a newer program', () => {
  it('stops the start with one sentence and keeps every byte', async () => {
    const app = await startApp();
    const { dataDir, keyFile } = app.config;
    const path = join(dataDir, 'tenon.db');
    await app.services.database.close();
    const other = new Sqlite(path);
    other.pragma('user_version = 999');
    other.close();
    const digest = async (): Promise<string> =>
      createHash('sha256')
        .update(await readFile(path))
        .digest('hex');
    const before = await digest();
    const refused = startApp({ folder: dataDir, config: { dataDir, keyFile } });
    await expect(refused).rejects.toBeInstanceOf(StartupError);
    await expect(refused).rejects.toThrow(/newer than this program.*999/);
    expect(await digest()).toBe(before);
    await app.close();
  });
});
