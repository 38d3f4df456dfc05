import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { type Caller, startTwoUsers, type TwoUsers } from '../support/two-users.ts';

const SECURITY = '/_plugins/_security/api';
const ASK = { tool_permissions: [{ tool: '.*', permission: 'ask' }] };

let office: TwoUsers;
let modelId: string;
let connectorId: string;
beforeAll(async () => {
  office = await startTwoUsers();
  modelId = await office.model('ann', 'chat', { access_mode: 'public' });
  connectorId = await office.connector('ann', { name: 'weather', access_mode: 'public' });
  const role = { cluster_permissions: ['task:read', 'task:answer'] };
  await office.send('operator', 'PUT', `${SECURITY}/roles/only_answers`, role);
  const unconnected = { cluster_permissions: ['agent:*', 'memory:*', 'task:read', 'model:*'] };
  await office.send('operator', 'PUT', `${SECURITY}/roles/without_connectors`, unconnected);
});
afterAll(() => office.close());
beforeEach(async () => {
  office.weather.requests.length = 0;
  await roles('ml_full_access');
});

/** Ann has these roles, and none other, from now on. */
async function roles(...names: string[]): Promise<void> {
  const user = { password: 'Sunny-4-afternoons', backend_roles: ['it'], opendistro_security_roles: names };
  expect((await office.send('operator', 'PUT', `${SECURITY}/internalusers/ann`, user)).status).toBeLessThan(300);
}

async function agent(parameters: JsonObject = ASK): Promise<string> {
  const tools = [{ type: 'MCPTool', parameters: { connector_id: connectorId } }];
  const body = { name: 'warner', type: 'conversational', llm: { model_id: modelId }, tools, parameters };
  return String((await office.ok('ann', 'POST', '/agents/_register', body)).agent_id);
}

async function begin(caller: Caller, agentId: string, more: JsonObject = {}) {
  const path = `/agents/${agentId}/_execute?async=true`;
  const { task_id, response } = await office.ok(caller, 'POST', path, { parameters: { question: 'Rain?', ...more } });
  const task = () =>
    office.ok('operator', 'GET', `/tasks/${String(task_id)}`) as Promise<JsonObject & { response: JsonObject }>;
  return {
    memoryId: String((response as JsonObject).memory_id),
    task,
    async approve(): Promise<void> {
      const open = async () => ((await task()).response.pending_requests ?? []) as JsonObject[];
      await expect.poll(async () => (await open()).length).toBe(1);
      const [request] = await open();
      const path = `/tasks/${String(task_id)}/_requests/${String(request?.request_id)}`;
      await office.ok('operator', 'POST', path, { action: 'approve' });
    },
    async waits(): Promise<void> {
      await expect
        .poll(async () => ((await task()).response.pending_requests as JsonObject[] | undefined)?.length)
        .toBe(1);
    },
    async ended() {
      await expect.poll(async () => (await task()).state, { timeout: 10_000 }).not.toBe('RUNNING');
      return task();
    },
  };
}

const calls = () => office.weather.of('tools/call').length;
const told = () =>
  office.llm.requests
    .at(-1)
    ?.messages.filter(({ role }) => role === 'tool')
    .map(({ content }) => content);

describe('while a run waits for an approval', () => {
  it.each<[string, (agentId: string) => Promise<unknown>, RegExp]>([
    [
      'a role of its caller comes to deny the tool',
      () => roles('ml_full_access', 'no_warnings'),
      /not run.*not offered any more/,
    ],
    [
      'its caller loses the right to use connectors',
      () => roles('without_connectors'),
      /not run.*not offered any more/,
    ],
    [
      'the agent comes to deny the tool',
      (id) =>
        office.ok('operator', 'PUT', `/agents/${id}`, {
          parameters: { tool_permissions: [{ tool: 'warn_.*', permission: 'deny' }] },
        }),
      /denied by the agent's permissions/,
    ],
    [
      'the agent comes to want other tools only',
      (id) =>
        office.ok('operator', 'PUT', `/agents/${id}`, {
          tools: [{ type: 'MCPTool', parameters: { connector_id: connectorId, tool_filters: '["forecast"]' } }],
        }),
      /not run.*not offered any more/,
    ],
  ])('and %s, its call is not made', async (_what, change, text) => {
    office.llm.reset({ tool: 'warn_everybody' }, 'could not');
    const agentId = await agent();
    const run = await begin('ann', agentId);
    await run.waits();
    await change(agentId);
    await run.approve();
    expect((await run.ended()).state).toBe('COMPLETED');
    expect(told()).toEqual([expect.stringMatching(text)]);
    expect(calls()).toBe(0);
  });

  it.each<[string, (agentId: string) => Promise<unknown>, RegExp]>([
    [
      'its caller may not execute agents any more',
      () => roles('only_answers'),
      /user:ann may not execute agents any more/,
    ],
    [
      'its caller is gone',
      () => office.send('operator', 'DELETE', `${SECURITY}/internalusers/ann`),
      /user:ann is gone/,
    ],
    ['its agent is gone', (id) => office.send('operator', 'DELETE', `/agents/${id}`), /Failed to find agent/],
  ])('and %s, it ends', async (_what, change, reason) => {
    office.llm.reset({ tool: 'warn_everybody' }, 'never said');
    const agentId = await agent({ ...ASK, tool_trust: 'block' });
    const run = await begin('ann', agentId);
    await run.waits();
    await change(agentId);
    await run.approve();
    const { state, response } = await run.ended();
    expect([state, response.error_message]).toEqual(['FAILED', expect.stringMatching(reason)]);
    expect(calls()).toBe(0);
    expect(office.llm.requests).toHaveLength(1);
    const { kysely } = office.app.services.database;
    const { response: answer } = await kysely
      .selectFrom('messages')
      .select('response')
      .where('memory_id', '=', run.memoryId)
      .where('parent_message_id', 'is', null)
      .executeTakeFirstOrThrow();
    expect(answer).toBe(`Agent execution failed: ${String(response.error_message)}`);
  });
});

describe('a turn that waits for the one before it', () => {
  it('is answered with the rights and the agent of when its turn comes', async () => {
    office.llm.reset({ tool: 'warn_everybody' }, 'first', { tool: 'warn_everybody' }, 'second');
    const [one, two] = [await agent(), await agent({})];
    const first = await begin('ann', one);
    await first.waits();
    const second = await begin('ann', two, { memory_id: first.memoryId });
    await office.ok('operator', 'PUT', `/agents/${two}`, {
      parameters: { tool_permissions: [{ tool: 'warn_.*', permission: 'deny' }] },
    });
    await first.approve();
    expect((await first.ended()).state).toBe('COMPLETED');
    expect((await second.ended()).state).toBe('COMPLETED');
    expect(told()).toEqual([expect.stringContaining("denied by the agent's permissions")]);
    expect(calls()).toBe(1);
  });

  it('is not begun for an agent that is gone, and nothing of it is pinned', async () => {
    office.llm.reset({ tool: 'warn_everybody' }, 'first');
    const [one, two] = [await agent(), await agent({})];
    const first = await begin('ann', one);
    await first.waits();
    const second = await begin('ann', two, { memory_id: first.memoryId });
    await office.ok('operator', 'DELETE', `/agents/${two}`);
    await first.approve();
    const { state, response } = await second.ended();
    expect([state, response.error_message]).toEqual(['FAILED', expect.stringContaining('Failed to find agent')]);
    const { kysely } = office.app.services.database;
    expect(await kysely.selectFrom('tool_pins').select('tool').where('agent_id', '=', two).execute()).toEqual([]);
  });
});
