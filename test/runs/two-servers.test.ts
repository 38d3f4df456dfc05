import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import type { JsonObject } from '../../src/json.ts';
import { startApp, type TestApp } from '../support/build-app.ts';
import { databases } from '../support/databases.ts';
import { type LlmReply, type LlmScript, startFakeLlm } from '../support/fake-llm-server.ts';
import { startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { createRest, registerChatModel } from '../support/rest.ts';

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

describe('a server that lost its run to another', () => {
  type Held = { readonly reached: Promise<void>; reply(given: LlmReply): void };

  /** A model whose first request waits; the later ones are answered as said. */
  function heldModel(...later: LlmReply[]): Held & { readonly script: LlmScript[] } {
    const given = deferred<LlmReply>();
    const arrived = deferred<void>();
    const first: LlmScript = () => {
      arrived.resolve();
      return given.promise;
    };
    return { script: [first, ...later], reached: arrived.promise, reply: given.resolve };
  }

  /** One server loses a run while its model thinks, the other one goes on with it. */
  async function takenOver(...later: LlmReply[]) {
    const start = await place('postgres');
    const held = heldModel(...later);
    const llm = await startFakeLlm({ replies: held.script });
    const bank = await startFakeMcpServer({ tools: [{ name: 'pay', inputSchema: { type: 'object' } }] });
    closers.push(() => Promise.all([llm.close(), bank.stop()]));
    const loser = await start();
    const rest = createRest(loser.url);
    const modelId = await registerChatModel(rest, llm.url);
    const connector = { name: 'bank', version: 1, protocol: 'mcp_streamable_http', url: bank.origin };
    const { connector_id } = await rest.ok('POST', '/connectors/_create', connector);
    const { agent_id } = await rest.ok('POST', '/agents/_register', {
      name: 'payer',
      type: 'conversational',
      llm: { model_id: modelId },
      tools: [{ type: 'MCPTool', parameters: { connector_id: String(connector_id) } }],
      parameters: { tool_permissions: [{ tool: '.*', permission: 'ask' }] },
    });
    const path = `/agents/${String(agent_id)}/_execute?async=true`;
    const { task_id, response } = await rest.ok('POST', path, { parameters: { question: 'q' } });
    await held.reached;
    // Stands for a minute in which it said nothing.
    await loser.services.database.kysely.deleteFrom('processes').execute();
    const winner = createRest((await start()).url);
    const taskId = String(task_id);
    return {
      held,
      winner,
      bank,
      taskId,
      state: async () => (await winner.ok('GET', `/tasks/${taskId}`)).state,
      requests: async () => (await winner.ok('GET', `/tasks/${taskId}/_requests`)).requests as JsonObject[],
      async answers(): Promise<unknown[]> {
        const { memory_id: memoryId } = response as JsonObject;
        const { messages } = await winner.ok('GET', `/memory/${String(memoryId)}/messages`);
        return (messages as JsonObject[]).map((message) => message.response);
      },
      leftAlone: () => expect.poll(() => loser.lines.some((line) => line.includes('run left alone'))).toBe(true),
    };
  }

  it.each<[string, LlmReply]>([
    ['its model fails', { destroy: true }],
    ['its model answers late', 'of the loser'],
    ['its model calls a tool late', { tool: 'pay' }],
  ])('does not touch the answer of the winner when %s', async (_what, reply) => {
    const { held, state, answers, leftAlone, requests } = await takenOver('of the winner');
    await expect.poll(state, { timeout: 15_000 }).toBe('COMPLETED');
    held.reply(reply);
    await leftAlone();
    expect(await answers()).toEqual(['of the winner']);
    expect(await state()).toBe('COMPLETED');
    expect(await requests()).toEqual([]);
  });

  it('closes no request of the winner, which gets its answer', async () => {
    const { held, winner, bank, taskId, state, answers, leftAlone, requests } = await takenOver(
      { tool: 'pay' },
      'paid',
    );
    await expect.poll(async () => (await requests()).length, { timeout: 15_000 }).toBe(1);
    held.reply({ destroy: true });
    await leftAlone();
    const [request] = await requests();
    expect(request?.state).toBe('open');
    expect(await answers()).toEqual(['']);
    const path = `/tasks/${taskId}/_requests/${String(request?.request_id)}`;
    await winner.ok('POST', path, { action: 'approve' });
    await expect.poll(state, { timeout: 15_000 }).toBe('COMPLETED');
    expect(bank.of('tools/call')).toHaveLength(1);
    expect(await answers()).toEqual(['paid']);
  });
});

function deferred<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve = (_value: T): void => undefined;
  const promise = new Promise<T>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
