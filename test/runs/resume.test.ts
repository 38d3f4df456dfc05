import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { startRecovery } from '../../src/runs/recovery.ts';
import { type RunStep, stepBody } from '../../src/runs/steps.ts';
import type { Database } from '../../src/store/database.ts';
import { createProcessStore } from '../../src/store/processes.ts';
import { createRunRequestStore } from '../../src/store/run-requests.ts';
import { createRunStore } from '../../src/store/runs.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { createRedactor } from '../../src/telemetry/redactor.ts';
import { openRig, type Rig } from '../agents/rig.ts';
import { onEachEngine } from '../support/databases.ts';

const log = createLogger({ level: 'silent', redactor: createRedactor() });

/** A process on the database that has just started. */
async function process(database: Database, processId: string, company: 'alone' | 'shared' | 'unknown' = 'shared') {
  const runs = createRunStore(database, { processId });
  const recovery = await startRecovery({ processes: createProcessStore(database), runs, processId, company, log });
  const taken: string[] = [];
  return {
    recovery,
    runs,
    taken,
    takeOver: () => recovery.takeOver((runIds) => void taken.push(...runIds)),
  };
}

const run = (id: string, more: JsonObject = {}) => ({ id, agentId: 'a', principal: 'open', request: {}, ...more });

onEachEngine('runs whose process is gone', (database) => {
  it('go on in one process when a task shows them, and end when none does', async () => {
    const gone = await process(database(), 'gone');
    await gone.runs.insert(run('shown', { taskId: 't1' }));
    await gone.runs.insert(run('unseen'));
    await gone.recovery.stop();
    const [one, two] = [await process(database(), 'one'), await process(database(), 'two')];
    await one.runs.insert(run('own', { taskId: 't2' }));
    await Promise.all([one.takeOver(), two.takeOver()]);
    expect([...one.taken, ...two.taken]).toEqual(['shown']);
    expect((await one.runs.get('unseen'))?.state).toBe('interrupted');
    expect((await one.runs.get('shown'))?.state).toBe('running');
    await Promise.all([one.recovery.stop(), two.recovery.stop()]);
  });

  it('are taken by one of many, each of them', async () => {
    const gone = await process(database(), 'gone');
    const ids = Array.from({ length: 250 }, (_, n) => `r${n}`);
    for (const id of ids) await gone.runs.insert(run(id, { taskId: 't' }));
    await gone.recovery.stop();
    const heirs = await Promise.all(['one', 'two', 'three'].map((id) => process(database(), id)));
    await Promise.all(heirs.map((heir) => heir.takeOver()));
    expect(heirs.flatMap(({ taken }) => taken).sort()).toEqual([...ids].sort());
    await Promise.all(heirs.map(({ recovery }) => recovery.stop()));
  });

  it('are left alone while their process lives, or nobody knows whether it does', async () => {
    const living = await process(database(), 'living');
    await living.runs.insert(run('r', { taskId: 't' }));
    const other = await process(database(), 'other');
    await other.takeOver();
    await living.recovery.stop();
    const blind = await process(database(), 'blind', 'unknown');
    await blind.takeOver();
    expect([...other.taken, ...blind.taken]).toEqual([]);
    await Promise.all([other.recovery.stop(), blind.recovery.stop()]);
  });
});

describe('a run that a dead process left', () => {
  let rig: Rig;
  let agentId: string;
  beforeEach(async () => {
    rig = await openRig('from the model');
    agentId = await rig.agent([]);
  });
  afterEach(() => rig.dispose());

  const answered: RunStep = { kind: 'model_answer', text: 'recorded', toolCalls: [], stopReason: 'stop' };
  const final: RunStep = { kind: 'final_answer', text: 'recorded', reason: 'answered' };

  /** Leaves a run behind as a process does that was killed after these steps. */
  async function leave(steps: readonly RunStep[], more: { principal?: string; agentId?: string } = {}) {
    const { database } = rig.services();
    const { kysely } = database;
    const { memory_id: memoryId } = await rig.ok('POST', '/memory', { name: 'talk' });
    const message = await rig.ok('POST', `/memory/${String(memoryId)}/messages`, { input: 'q', response: '' });
    const messageId = String(message.message_id);
    const runs = createRunStore(database, { processId: 'dead' });
    const time = Date.now();
    const times = { create_time: time, last_update_time: time };
    const body = JSON.stringify({ is_async: true, response: { memory_id: memoryId } });
    await kysely
      .insertInto('tasks')
      .values({
        id: 't',
        task_type: 'AGENT_EXECUTION',
        state: 'RUNNING',
        body,
        version: 1,
        seq_no: 1,
        attempts: 0,
        ...times,
      })
      .execute();
    await kysely.updateTable('tasks').set({ owner: 'open' }).execute();
    await runs.insert({
      id: 'r',
      agentId: more.agentId ?? agentId,
      principal: more.principal ?? 'open',
      memoryId: String(memoryId),
      messageId,
      request: { question: 'q', parameters: { question: 'q' } },
      taskId: 't',
    });
    for (const [at, step] of steps.entries()) {
      await runs.append('r', { seq: at + 1, kind: step.kind, body: stepBody(step) }, { durable: false });
    }
    const answer = async () => {
      const { messages } = await rig.ok('GET', `/memory/${String(memoryId)}/messages`);
      return (messages as JsonObject[]).map(({ response }) => response);
    };
    return { memoryId: String(memoryId), answer };
  }

  async function ended(): Promise<JsonObject & { response: JsonObject }> {
    const task = async () => (await rig.ok('GET', '/tasks/t')) as JsonObject & { response: JsonObject };
    await expect.poll(async () => (await task()).state, { timeout: 10_000 }).not.toBe('RUNNING');
    return task();
  }

  it('goes on from its last step', async () => {
    const { answer } = await leave([answered]);
    await rig.restart();
    expect((await ended()).state).toBe('COMPLETED');
    expect(await answer()).toEqual(['recorded']);
    expect(rig.llm.requests).toEqual([]);
  });

  it('closes the question of a call that ended with the process, and says so', async () => {
    const place = { turn: 0, index: 0, callId: 'c' };
    const call: RunStep = { ...answered, toolCalls: [{ id: 'c', name: 'book', arguments: '{}' }] };
    const question = { mode: 'form', message: 'Who?', schema: {} } as const;
    const members = { requestKind: 'elicitation', resumable: false, key: 'question', question } as const;
    await leave([
      call,
      { kind: 'tool_intent', ...place, offeredName: 'book', argumentsText: '{}', repeatable: false },
      { kind: 'request', ...place, requestId: 'q1', ...members },
    ]);
    const store = createRunRequestStore(rig.services().database);
    const request = { id: 'q1', runId: 'r', taskId: 't', owner: 'open', kind: 'elicitation', lifeMs: 300_000 };
    await store.insert({ ...request, body: { agent_id: agentId, offered_name: 'book', arguments: '{}' } });
    rig.llm.reset('done');
    await rig.restart();
    await ended();
    expect(await rig.ok('GET', '/tasks/t/_requests')).toMatchObject({
      requests: [{ request_id: 'q1', state: 'expired', reason: expect.stringMatching(/^The server stopped/) }],
    });
  });

  it('that had its answer already only tells it', async () => {
    const { answer, memoryId } = await leave([answered, final]);
    await rig.restart();
    expect(await ended()).toMatchObject({ state: 'COMPLETED', response: { memory_id: memoryId } });
    expect(await answer()).toEqual(['recorded']);
    expect(rig.llm.requests).toEqual([]);
    const { kysely } = rig.services().database;
    const steps = await kysely.selectFrom('run_steps').select('kind').where('run_id', '=', 'r').execute();
    expect(steps.map(({ kind }) => kind)).toEqual(['model_answer', 'final_answer']);
    expect(await kysely.selectFrom('runs').select('state').execute()).toEqual([{ state: 'completed' }]);
  });

  it.each([
    ['token:https://issuer.test|ann', 'is gone, or is only known by a token'],
    ['user:nobody', 'is gone, or is only known by a token'],
    ['key:nothing', 'is gone, or is only known by a token'],
    ['api_key', 'is gone, or is only known by a token'],
  ])('in the name of %s fails: it %s', async (principal, why) => {
    const { answer } = await leave([answered], { principal });
    await rig.restart();
    const { state, response } = await ended();
    expect([state, response]).toEqual(['FAILED', { error_message: expect.stringContaining(`${principal} ${why}`) }]);
    expect(await answer()).toEqual([`Agent execution failed: ${String(response.error_message)}`]);
  });

  it('of an agent that is gone fails', async () => {
    const { answer } = await leave([], { agentId: 'deleted' });
    await rig.restart();
    const reason = 'Failed to find agent with the provided agent id: deleted';
    expect(await ended()).toMatchObject({ state: 'FAILED', response: { error_message: reason } });
    expect(await answer()).toEqual([`Agent execution failed: ${reason}`]);
  });

  it('in a memory that is gone fails', async () => {
    const { memoryId } = await leave([answered]);
    await rig.ok('DELETE', `/memory/${memoryId}`);
    await rig.restart();
    expect((await ended()).response.error_message).toContain('not found');
  });
});

it('a process that lost its run to another leaves it alone', async () => {
  const rig = await openRig({ tool: 'echo', args: '{"text":"hi"}' }, 'done');
  try {
    const permissions = JSON.stringify([{ tool: '.*', permission: 'ask' }]);
    const server = await rig.server();
    const agentId = await rig.agent([await rig.connector('w', server.origin)], {
      parameters: { tool_permissions: permissions },
    });
    const body = { parameters: { question: 'q' } };
    const { task_id: taskId } = await rig.ok('POST', `/agents/${agentId}/_execute?async=true`, body);
    const requests = async () => (await rig.ok('GET', `/tasks/${String(taskId)}/_requests`)).requests as JsonObject[];
    await expect.poll(async () => (await requests()).length).toBe(1);
    const { database } = rig.services();
    const { id } = await database.kysely.selectFrom('runs').select('id').executeTakeFirstOrThrow();
    await database.kysely.updateTable('runs').set({ process_id: 'other' }).execute();
    const other = createRunStore(database, { processId: 'other' });
    const [request] = await requests();
    const path = `/tasks/${String(taskId)}/_requests/${String(request?.request_id)}`;
    await rig.ok('POST', path, { action: 'approve' });
    await expect.poll(() => rig.lines.some((line) => line.includes('another process drives it'))).toBe(true);
    expect(await other.get(id)).toMatchObject({ state: 'running' });
    expect((await other.steps(id)).map(({ kind }) => kind)).toEqual(['model_answer', 'request']);
    expect(await rig.ok('GET', `/tasks/${String(taskId)}`)).toMatchObject({ state: 'RUNNING' });
    expect(server.of('tools/call')).toEqual([]);
  } finally {
    await rig.dispose();
  }
});
