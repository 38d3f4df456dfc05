import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { isJsonObject, type JsonObject } from '../../src/json.ts';
import { databases } from '../support/databases.ts';
import { type FakeLlmServer, startFakeLlm } from '../support/fake-llm-server.ts';
import { type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { createRest, type Rest, registerChatModel } from '../support/rest.ts';

const ROOT = new URL('../../', import.meta.url).pathname;
/** The bundle is what is shipped, so it is what is killed here. */
const BUNDLE = `reports/paused-${process.pid}`;

interface Server {
  readonly rest: Rest;
  kill(signal: 'SIGKILL' | 'SIGTERM'): Promise<void>;
}

let folder: string;
let llm: FakeLlmServer;
let bank: FakeMcpServer;
const children = new Set<ChildProcess>();

beforeAll(() => {
  execFileSync(process.execPath, ['scripts/build.mjs', BUNDLE], { cwd: ROOT, stdio: 'inherit' });
});
afterAll(() => rm(join(ROOT, BUNDLE), { recursive: true, force: true }));
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tenon-paused-'));
  llm = await startFakeLlm({ strict: true });
  bank = await startFakeMcpServer({ tools: [{ name: 'pay', inputSchema: { type: 'object' } }] });
});
afterEach(async () => {
  for (const child of children) child.kill('SIGKILL');
  await Promise.all([llm.close(), bank.stop()]);
  await rm(folder, { recursive: true, force: true });
});

/** A server of its own on the data, or on the database that is named. */
async function start(databaseUrl?: string): Promise<Server> {
  const env = {
    PATH: process.env['PATH'] ?? '',
    HOME: folder,
    TENON_PORT: '0',
    TENON_DATA_DIR: join(folder, 'data'),
    TENON_KEY_FILE: join(folder, 'key', 'master.key'),
    ...(databaseUrl === undefined ? {} : { TENON_DATABASE_URL: databaseUrl }),
  };
  const child = spawn(process.execPath, [`${BUNDLE}/main.js`, 'serve'], { cwd: ROOT, env });
  children.add(child);
  const closed = once(child, 'close').then(() => void children.delete(child));
  let said = '';
  const url = await new Promise<string>((resolve, reject) => {
    child.stderr.on('data', (text) => {
      said += text;
    });
    child.stdout.on('data', (text) => {
      said += text;
      const found = /serving on (http:\/\/[^"]+)/.exec(said)?.[1];
      if (found) resolve(found);
    });
    closed.then(() => reject(new Error(`ended before it served: ${said}`)), reject);
  });
  return {
    rest: createRest(url),
    kill(signal) {
      child.kill(signal);
      return closed;
    },
  };
}

/** An agent that needs approval for each payment, and a run of it that waits for one. */
async function waitingRun({ rest }: Server): Promise<{ taskId: string; memoryId: string; request: JsonObject }> {
  llm.reset({ tool: 'pay', args: '{"amount":5}' }, 'paid');
  const model_id = await registerChatModel(rest, llm.url);
  const connector = { name: 'bank', version: 1, protocol: 'mcp_streamable_http', url: bank.origin };
  const { connector_id } = await rest.ok('POST', '/connectors/_create', connector);
  const { agent_id } = await rest.ok('POST', '/agents/_register', {
    name: 'payer',
    type: 'conversational',
    llm: { model_id },
    tools: [{ type: 'MCPTool', parameters: { connector_id: String(connector_id) } }],
    parameters: { tool_permissions: [{ tool: 'pay', permission: 'ask' }] },
  });
  const path = `/agents/${String(agent_id)}/_execute?async=true`;
  const { task_id, response } = await rest.ok('POST', path, { parameters: { question: 'Pay the bill' } });
  const taskId = String(task_id);
  const request = await openRequest(rest, taskId);
  return { taskId, memoryId: String(isJsonObject(response) ? response.memory_id : ''), request };
}

async function openRequest(rest: Rest, taskId: string): Promise<JsonObject> {
  const pending = async (): Promise<JsonObject[]> => {
    const { response } = await rest.ok('GET', `/tasks/${taskId}`);
    return ((isJsonObject(response) && response.pending_requests) || []) as JsonObject[];
  };
  await expect.poll(async () => (await pending()).length, { timeout: 15_000 }).toBe(1);
  const [request] = await pending();
  return request ?? {};
}

async function approve(rest: Rest, taskId: string, request: JsonObject): Promise<void> {
  await rest.ok('POST', `/tasks/${taskId}/_requests/${String(request.request_id)}`, { action: 'approve' });
}

async function completed(rest: Rest, taskId: string): Promise<void> {
  const state = async () => (await rest.ok('GET', `/tasks/${taskId}`)).state;
  await expect.poll(state, { timeout: 15_000 }).toBe('COMPLETED');
}

async function answers(rest: Rest, memoryId: string): Promise<unknown[]> {
  const { messages } = await rest.ok('GET', `/memory/${memoryId}/messages`);
  return (messages as JsonObject[]).map(({ input, response }) => [input, response]);
}

describe('a run that waits for a person', () => {
  it('survives kill -9: the next process goes on with it (SQLite)', { timeout: 60_000 }, async () => {
    const first = await start();
    const { taskId, memoryId, request } = await waitingRun(first);
    await first.kill('SIGKILL');
    const second = await start();
    expect(await openRequest(second.rest, taskId)).toEqual(request);
    expect(bank.of('tools/call')).toEqual([]);
    await approve(second.rest, taskId, request);
    await completed(second.rest, taskId);
    expect(bank.of('tools/call')).toHaveLength(1);
    expect(llm.requests).toHaveLength(2);
    expect(await answers(second.rest, memoryId)).toEqual([['Pay the bill', 'paid']]);
    await second.kill('SIGTERM');
  });

  it('with its answer is not asked again when the process died before it heard it', { timeout: 60_000 }, async () => {
    let died = (): void => undefined;
    const dead = new Promise<void>((resolve) => {
      died = resolve;
    });
    bank.on('tools/call', async () => {
      died();
      return { hold: 'never' };
    });
    const first = await start();
    const { taskId, memoryId, request } = await waitingRun(first);
    await approve(first.rest, taskId, request);
    await dead;
    await first.kill('SIGKILL');
    bank.on('tools/call', 'normal');
    const second = await start();
    await completed(second.rest, taskId);
    // The payment left and its end is not known: it is not made again, and the model was told.
    expect(bank.of('tools/call')).toHaveLength(1);
    expect(JSON.stringify(llm.requests[1]?.messages)).toContain('the outcome is unknown');
    expect(await answers(second.rest, memoryId)).toEqual([['Pay the bill', 'paid']]);
    await second.kill('SIGTERM');
  });

  it('is answered through any process, and taken over by one of them (PostgreSQL)', { timeout: 90_000 }, async () => {
    const fresh = await databases()
      .find(({ kind }) => kind === 'postgres')
      ?.create();
    if (fresh === undefined) throw new Error('there is no PostgreSQL');
    try {
      const { url } = fresh.options;
      const [one, two] = [await start(url), await start(url)];
      const heard = await waitingRun(one);
      await approve(two.rest, heard.taskId, heard.request);
      await completed(two.rest, heard.taskId);
      expect(bank.of('tools/call')).toHaveLength(1);

      const left = await waitingRun(one);
      await one.kill('SIGKILL');
      // As if it had been silent for longer than a minute.
      const { kysely } = fresh.database;
      const { process_id } = await kysely
        .selectFrom('runs')
        .select('process_id')
        .where('task_id', '=', left.taskId)
        .executeTakeFirstOrThrow();
      await kysely.updateTable('processes').set({ seen_time: 1 }).where('id', '=', process_id).execute();
      const three = await start(url);
      expect(await openRequest(three.rest, left.taskId)).toEqual(left.request);
      await approve(two.rest, left.taskId, left.request);
      await completed(three.rest, left.taskId);
      expect(bank.of('tools/call')).toHaveLength(2);
      expect(await answers(three.rest, left.memoryId)).toEqual([['Pay the bill', 'paid']]);
      await Promise.all([two.kill('SIGTERM'), three.kill('SIGTERM')]);
    } finally {
      for (const child of children) child.kill('SIGKILL');
      await fresh.dispose();
    }
  });
});
