import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isJsonObject, type JsonObject } from '../../src/json.ts';
import { startAskingSessionServer, startAskingStatelessServer } from '../support/asking-peers.ts';
import { userPrincipal } from '../support/principals.ts';
import { ID } from '../support/rest.ts';
import { openRig, type Rig, toolMessages } from './rig.ts';

let rig: Rig;
const closers: (() => Promise<unknown>)[] = [];
beforeEach(async () => {
  rig = await openRig('final');
});
afterEach(async () => {
  await rig.dispose();
  for (const close of closers.splice(0)) await close();
});

const ASK = { parameters: { tool_permissions: JSON.stringify([{ tool: '.*', permission: 'ask' }]) } };
const echo = (text: string, id?: string) => ({ tool: 'echo', args: JSON.stringify({ text }), ...(id ? { id } : {}) });

/** A promise the test settles. */
function latch(): { promise: Promise<void>; open: () => void } {
  let open = (): void => undefined;
  const promise = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { promise, open };
}

async function echoAgent(more: JsonObject = ASK) {
  const server = await rig.server();
  const agentId = await rig.agent([await rig.connector('w', server.origin)], more);
  return { server, agentId };
}

async function begin(agentId: string, question: string, more: JsonObject = {}) {
  const body = await rig.ok('POST', `/agents/${agentId}/_execute?async=true`, { parameters: { question, ...more } });
  const { memory_id: memoryId, parent_interaction_id: messageId } = body.response as JsonObject;
  return { body, taskId: String(body.task_id), memoryId: String(memoryId), messageId: String(messageId) };
}

async function task(taskId: string): Promise<JsonObject & { response: JsonObject }> {
  return (await rig.ok('GET', `/tasks/${taskId}`)) as JsonObject & { response: JsonObject };
}

async function ended(taskId: string) {
  await expect.poll(async () => (await task(taskId)).state, { timeout: 10_000 }).not.toBe('RUNNING');
  return task(taskId);
}

/** The requests that are open, once there are so many. */
async function pending(taskId: string, count = 1): Promise<JsonObject[]> {
  const list = async () => ((await task(taskId)).response.pending_requests ?? []) as JsonObject[];
  await expect.poll(async () => (await list()).length, { timeout: 10_000 }).toBe(count);
  return list();
}

function answer(taskId: string, request: JsonObject | undefined, body: JsonObject) {
  return rig.send('POST', `/tasks/${taskId}/_requests/${String(request?.request_id)}`, body);
}

function textOf({ response }: { response: JsonObject }): unknown {
  const [first] = response.inference_results as { output: JsonObject[] }[];
  const shown = first?.output.at(-1)?.dataAsMap;
  return isJsonObject(shown) ? shown.response : undefined;
}

async function messages(memoryId: string): Promise<JsonObject[]> {
  return (await rig.ok('GET', `/memory/${memoryId}/messages`)).messages as JsonObject[];
}

async function traces(messageId: string): Promise<JsonObject[]> {
  return (await rig.ok('GET', `/memory/message/${messageId}/traces`)).traces as JsonObject[];
}

const runs = () => rig.services().database.kysely.selectFrom('runs').selectAll().execute();

describe('a run in the background', () => {
  it('answers at once with the documented body, under either prefix', async () => {
    const held = latch();
    rig.llm.reset({ text: 'the answer', hold: held.promise });
    const agentId = await rig.agent([]);
    const { body, taskId, memoryId, messageId } = await begin(agentId, 'q');
    expect(body).toEqual({
      task_id: expect.stringMatching(ID),
      status: 'RUNNING',
      response: { memory_id: expect.stringMatching(ID), parent_interaction_id: expect.stringMatching(ID) },
    });
    const times = { create_time: expect.any(Number), last_update_time: expect.any(Number) };
    const shown = { task_type: 'AGENT_EXECUTION', function_name: 'AGENT', is_async: true, ...times };
    expect(await task(taskId)).toEqual({
      ...shown,
      state: 'RUNNING',
      response: { memory_id: memoryId, parent_interaction_id: messageId },
    });
    expect(await messages(memoryId)).toMatchObject([{ message_id: messageId, input: 'q', response: '' }]);
    expect((await rig.send('DELETE', `/tasks/${taskId}`)).status).toBe(500);
    held.open();
    expect(await ended(taskId)).toEqual({
      ...shown,
      state: 'COMPLETED',
      response: {
        memory_id: memoryId,
        inference_results: [
          {
            output: [
              { name: 'memory_id', result: memoryId },
              { name: 'parent_interaction_id', result: messageId },
              { name: 'response', dataAsMap: { response: 'the answer', additional_info: {} } },
            ],
          },
        ],
      },
    });
    expect(await messages(memoryId)).toMatchObject([{ response: 'the answer' }]);
    expect(await runs()).toMatchObject([{ state: 'completed', task_id: taskId }]);
    const other = `/_plugins/_agent/agents/${agentId}/_execute?async=true`;
    expect(await rig.ok('POST', other, { parameters: { question: 'q' } })).toMatchObject({ status: 'RUNNING' });
    const sync = await rig.ok('POST', `/agents/${agentId}/_execute?async=false`, { parameters: { question: 'q' } });
    expect(sync).toHaveProperty('inference_results');
  });

  it('that fails says why, in its task and in the memory', async () => {
    rig.llm.reset({ status: 401, body: { error: { message: 'bad key' } } });
    const { taskId, memoryId } = await begin(await rig.agent([]), 'q');
    const { state, response } = await ended(taskId);
    expect(state).toBe('FAILED');
    expect(Object.keys(response)).toEqual(['error_message']);
    expect(response.error_message).toContain('bad key');
    expect((await messages(memoryId))[0]?.response).toBe(`Agent execution failed: ${String(response.error_message)}`);
    expect(await runs()).toMatchObject([{ state: 'failed' }]);
  });

  it('is refused at once for what its caller got wrong', async () => {
    const agentId = await rig.agent([]);
    const refused = (id: string, body: JsonObject) => rig.send('POST', `/agents/${id}/_execute?async=true`, body);
    expect((await refused('nobody', { parameters: { question: 'q' } })).status).toBe(404);
    expect((await refused(agentId, { parameters: { question: ' ' } })).status).toBe(400);
    expect((await refused(agentId, { parameters: { question: 'q', memory_id: 'none' } })).status).toBe(404);
    expect((await refused(agentId, { parameters: { question: 'q', max_iteration: 'x' } })).status).toBe(400);
    expect(await runs()).toEqual([]);
  });

  it('counts for the limits of its agent for as long as it runs', async () => {
    await rig.ok('PUT', '/_cluster/settings', {
      persistent: { 'plugins.ml_commons.limits.agent_concurrent_executions': '1' },
    });
    const held = latch();
    rig.llm.reset({ text: 'x', hold: held.promise });
    const agentId = await rig.agent([]);
    const { taskId } = await begin(agentId, 'q');
    const body = { parameters: { question: 'q' } };
    expect((await rig.send('POST', `/agents/${agentId}/_execute?async=true`, body)).status).toBe(429);
    held.open();
    await ended(taskId);
    expect((await rig.send('POST', `/agents/${agentId}/_execute?async=true`, body)).status).toBe(200);
  });

  it('keeps its place among the turns of its memory without holding up its caller', async () => {
    const held = latch();
    rig.llm.reset({ text: 'one', hold: held.promise }, 'two', 'three');
    const agentId = await rig.agent([]);
    const first = await begin(agentId, 'first');
    const second = await begin(agentId, 'second', { memory_id: first.memoryId });
    const third = rig.ask(agentId, 'third', { memory_id: first.memoryId });
    expect((await task(second.taskId)).state).toBe('RUNNING');
    held.open();
    await ended(second.taskId);
    await third;
    const [, , last] = rig.llm.requests;
    expect(last?.messages.map(({ role, content }) => [role, content]).slice(1)).toEqual([
      ['user', 'first'],
      ['assistant', 'one'],
      ['user', 'second'],
      ['assistant', 'two'],
      ['user', 'third'],
    ]);
    expect((await messages(first.memoryId)).map(({ input, response }) => [input, response])).toEqual([
      ['first', 'one'],
      ['second', 'two'],
      ['third', 'three'],
    ]);
  });

  it('keeps the warnings that a caller would have seen', async () => {
    const agentId = await rig.agent([await rig.connector('gone', 'http://127.0.0.1:9')]);
    const { taskId } = await begin(agentId, 'q');
    expect((await ended(taskId)).response.warnings).toEqual([expect.stringContaining('"gone"')]);
  });

  it('answers a question again, and takes up a message', async () => {
    const agentId = await rig.agent([]);
    rig.llm.reset('one', 'two', 'three');
    const first = await begin(agentId, 'q');
    await ended(first.taskId);
    const again = await begin(agentId, '', { memory_id: first.memoryId, regenerate_interaction_id: first.messageId });
    await ended(again.taskId);
    const taken = await begin(agentId, 'more', { memory_id: first.memoryId, parent_interaction_id: first.messageId });
    expect(taken.messageId).toBe(first.messageId);
    await ended(taken.taskId);
    expect((await messages(first.memoryId)).map(({ input, response }) => [input, response])).toEqual([
      ['q', 'three'],
      ['q', 'two'],
    ]);
  });

  it('tells how it goes, without arguments and content', async () => {
    const { agentId } = await echoAgent({});
    rig.llm.reset(echo('a secret'), 'done');
    const heard: JsonObject[] = [];
    const stop = rig.services().events.listen(({ type, data }) => {
      if (type === 'run') heard.push(data);
    });
    const { taskId } = await begin(agentId, 'a secret');
    await expect.poll(() => heard.at(-1)?.event).toBe('completed');
    stop();
    expect(heard.map(({ event }) => event)).toEqual(['started', 'tool_call', 'tool_result', 'completed']);
    expect(heard[1]).toMatchObject({ task_id: taskId, agent_id: agentId, tool: 'echo', turn: 0, index: 0 });
    expect(heard[2]).toMatchObject({ outcome: 'ok' });
    expect(JSON.stringify(heard)).not.toContain('secret');
    expect((await task(taskId)).state).toBe('COMPLETED');
  });
});

describe('a call that needs approval', () => {
  it('waits in its task until somebody approves it', async () => {
    const { server, agentId } = await echoAgent();
    rig.llm.reset(echo('hi', 'c1'), 'done');
    const { taskId } = await begin(agentId, 'q');
    const [request] = await pending(taskId);
    expect(request).toEqual({
      request_id: expect.stringMatching(ID),
      task_id: taskId,
      agent_id: agentId,
      kind: 'approval',
      state: 'open',
      offered_name: 'echo',
      tool: 'echo',
      connector_id: expect.stringMatching(ID),
      arguments: '{"text":"hi"}',
      actions: ['approve', 'refuse'],
      create_time: expect.any(Number),
      expires_time: Number(request?.create_time) + 300_000,
    });
    expect((await task(taskId)).state).toBe('RUNNING');
    expect(server.of('tools/call')).toEqual([]);
    expect(await rig.ok('GET', `/tasks/${taskId}/_requests`)).toEqual({ requests: [request] });
    const given = await answer(taskId, request, { action: 'approve' });
    expect(given).toMatchObject({ status: 200, body: { state: 'answered', answer: { action: 'approve' } } });
    const done = await ended(taskId);
    expect(textOf(done)).toBe('done');
    expect(done.response).not.toHaveProperty('pending_requests');
    expect(server.of('tools/call')).toHaveLength(1);
    expect((await rig.ok('GET', `/tasks/${taskId}/_requests`)).requests).toMatchObject([{ state: 'answered' }]);
    expect(await answer(taskId, request, { action: 'refuse' })).toMatchObject({
      status: 409,
      body: { error: { reason: expect.stringContaining('answered already: approve, by open') } },
    });
    expect(rig.lines.filter((line) => line.includes('audit: task.answer approve'))).toHaveLength(1);
  });

  it('is not made when it is refused', async () => {
    const { server, agentId } = await echoAgent();
    rig.llm.reset(echo('hi'), 'done');
    const { taskId } = await begin(agentId, 'q');
    const [request] = await pending(taskId);
    await answer(taskId, request, { action: 'refuse' });
    expect(textOf(await ended(taskId))).toBe('done');
    expect(server.of('tools/call')).toEqual([]);
    expect(toolMessages(rig.llm, 1)).toEqual([expect.stringContaining('not run: refused by a person')]);
  });

  it('is not made where nobody attends, and the model is told', async () => {
    const { server, agentId } = await echoAgent();
    rig.llm.reset(echo('hi'), 'I may not');
    const reply = await rig.ask(agentId, 'q');
    expect(reply.text).toBe('I may not');
    expect(server.of('tools/call')).toEqual([]);
    expect(toolMessages(rig.llm, 1)).toEqual([expect.stringContaining('?async=true')]);
    expect(reply.headers.get('warning')).toBe(
      '299 tenon "Calls of the tool echo were not run: they need the approval of a person. Execute the agent with ?async=true, and a person can approve them"',
    );
  });

  it('is answered wrongly with a 400 that names what fits, or not at all by others', async () => {
    const { agentId } = await echoAgent();
    rig.llm.reset(echo('hi'), 'done');
    const { taskId } = await begin(agentId, 'q');
    const [request] = await pending(taskId);
    expect(await answer(taskId, request, { action: 'accept' })).toMatchObject({
      status: 400,
      body: { error: { reason: expect.stringContaining('approve, refuse') } },
    });
    expect((await answer(taskId, { request_id: 'none' }, { action: 'approve' })).status).toBe(404);
    expect((await answer('none', request, { action: 'approve' })).status).toBe(404);
    const { tasks } = rig.services();
    const hidden = { statusCode: 404, message: 'Failed to find task' };
    const eve = userPrincipal('eve');
    await expect(tasks.requests(eve, taskId)).rejects.toMatchObject(hidden);
    await expect(tasks.answer(eve, taskId, String(request?.request_id), { action: 'approve' })).rejects.toMatchObject(
      hidden,
    );
    await answer(taskId, request, { action: 'approve' });
    await ended(taskId);
  });
});

describe('a server that asks', () => {
  const config = { client_config: { elicitation: 'ask', max_retry_times: 0, read_timeout: 1 } };
  const peers = { stateless: startAskingStatelessServer, session: startAskingSessionServer };

  it.each(['stateless', 'session'] as const)('is answered by a person (%s era)', async (era) => {
    const peer = await peers[era]();
    closers.push(() => peer.stop());
    const agentId = await rig.agent([await rig.connector('asking', peer.url, config)]);
    rig.llm.reset({ tool: 'book' }, 'done');
    const { taskId } = await begin(agentId, 'q');
    const [request] = await pending(taskId);
    expect(request).toMatchObject({
      kind: 'elicitation',
      tool: 'book',
      actions: ['accept', 'decline', 'cancel'],
      question: { mode: 'form', message: 'Where to?', schema: { required: ['city'] } },
    });
    // Longer than the server may take: a person has more time.
    await sleep(1200);
    expect(await answer(taskId, request, { action: 'accept', content: { city: 7 } })).toMatchObject({
      status: 400,
      body: { error: { reason: 'content.city must be a text' } },
    });
    await answer(taskId, request, { action: 'accept', content: { city: 'Bergen' } });
    expect(textOf(await ended(taskId))).toBe('done');
    expect(toolMessages(rig.llm, 1)).toEqual([expect.stringMatching(/accept.*Bergen/)]);
  });

  it('is told no where nobody attends', async () => {
    const peer = await startAskingStatelessServer();
    closers.push(() => peer.stop());
    const agentId = await rig.agent([await rig.connector('asking', peer.url, config)]);
    rig.llm.reset({ tool: 'book' }, 'done');
    await rig.ask(agentId, 'q');
    expect(toolMessages(rig.llm, 1)).toEqual([expect.stringContaining('decline')]);
  });
});

describe('a server that stops', () => {
  it('leaves a waiting run to the next one, which asks nothing twice', async () => {
    const { server, agentId } = await echoAgent();
    rig.llm.reset({ calls: [echo('a', 'c1'), echo('b', 'c2')] }, 'done');
    const { taskId, memoryId, messageId } = await begin(agentId, 'q');
    const before = await pending(taskId, 2);
    await answer(taskId, before[1], { action: 'approve' });
    await expect.poll(() => server.of('tools/call').length).toBe(1);
    await rig.restart();
    const [request, ...others] = await pending(taskId);
    expect(others).toEqual([]);
    expect(request).toEqual(before[0]);
    await answer(taskId, request, { action: 'approve' });
    expect(textOf(await ended(taskId))).toBe('done');
    expect(server.of('tools/call')).toHaveLength(2);
    expect(rig.llm.requests).toHaveLength(2);
    expect(await messages(memoryId)).toMatchObject([{ input: 'q', response: 'done' }]);
    const kept = await traces(messageId);
    expect(kept.map(({ trace_number }) => trace_number)).toEqual([1, 2, 3, 4]);
    expect(await runs()).toMatchObject([{ state: 'completed' }]);
  });

  it('leaves a run whose model was thinking, with the parameters it was begun with', async () => {
    const agentId = await rig.agent([], { parameters: { system_prompt: 'of the agent' } });
    const asked = latch();
    rig.llm.reset(() => {
      asked.open();
      return { text: 'too late', delayMs: 60_000 };
    }, 'done');
    const input = [
      { role: 'user', content: 'before' },
      { role: 'assistant', content: 'so' },
      { role: 'user', content: 'q' },
    ];
    const parameters = { system_prompt: 'of the caller' };
    const body = await rig.ok('POST', `/agents/${agentId}/_execute?async=true`, { input, parameters });
    await asked.promise;
    await rig.restart();
    expect(textOf(await ended(String(body.task_id)))).toBe('done');
    expect(rig.llm.requests[1]?.messages).toEqual(rig.llm.requests[0]?.messages);
    expect(rig.llm.requests[1]?.messages).toMatchObject([
      { role: 'system', content: 'of the caller' },
      { content: 'before' },
      { content: 'so' },
      { content: 'q' },
    ]);
  });

  it('does not repeat a call that was under way, and the model is told', async () => {
    const held = latch();
    const { server, agentId } = await echoAgent({});
    server.on('tools/call', async () => {
      await held.promise;
      return 'normal' as const;
    });
    rig.llm.reset(echo('once'), 'done');
    const { taskId } = await begin(agentId, 'q');
    await server.seen('tools/call');
    await rig.restart();
    expect(textOf(await ended(taskId))).toBe('done');
    held.open();
    expect(server.of('tools/call')).toHaveLength(1);
    expect(toolMessages(rig.llm, 1)).toEqual([expect.stringContaining('the outcome is unknown')]);
  });

  it('makes a call again that only reads', async () => {
    const held = latch();
    const { server, agentId } = await echoAgent({});
    server.tools([{ name: 'look', inputSchema: { type: 'object' }, annotations: { readOnlyHint: true } }]);
    let calls = 0;
    server.on('tools/call', async () => {
      calls += 1;
      if (calls === 1) await held.promise;
      return 'normal' as const;
    });
    rig.llm.reset({ tool: 'look' }, 'done');
    const { taskId } = await begin(agentId, 'q');
    await server.seen('tools/call');
    await rig.restart();
    expect(textOf(await ended(taskId))).toBe('done');
    held.open();
    expect(calls).toBe(2);
    expect(toolMessages(rig.llm, 1)).toEqual(['look: {}']);
  });

  it('leaves the questions of a stateless server open; the call goes on from the answer', async () => {
    const peer = await startAskingStatelessServer();
    closers.push(() => peer.stop());
    const connector = await rig.connector('asking', peer.url, { client_config: { elicitation: 'ask' } });
    const agentId = await rig.agent([connector]);
    rig.llm.reset({ tool: 'book' }, 'done');
    const { taskId } = await begin(agentId, 'q');
    const before = await pending(taskId);
    await rig.restart();
    const [request] = await pending(taskId);
    expect(request).toEqual(before[0]);
    await answer(taskId, request, { action: 'accept', content: { city: 'Oslo' } });
    expect(textOf(await ended(taskId))).toBe('done');
    expect(toolMessages(rig.llm, 1)).toEqual([expect.stringContaining('Oslo')]);
  });

  it('settles what it cannot go on with: headers of the caller, which are never stored', async () => {
    const setting = 'plugins.ml_commons.mcp_header_passthrough_enabled';
    await rig.ok('PUT', '/_cluster/settings', { persistent: { [setting]: 'true' } });
    const server = await rig.server();
    const connector = await rig.connector('w', server.origin, { passthrough_headers: ['x-team'] });
    const agentId = await rig.agent([connector], ASK);
    rig.llm.reset(echo('hi'), 'done');
    const execute = async (headers: Record<string, string>): Promise<string> => {
      const answered = await fetch(`${rig.url}/_plugins/_ml/agents/${agentId}/_execute?async=true`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ parameters: { question: 'q' } }),
      });
      return String(((await answered.json()) as JsonObject).task_id);
    };
    const taskId = await execute({ 'x-team': 'blue' });
    const [request] = await pending(taskId);
    await rig.restart();
    const { state, response } = await ended(taskId);
    expect([state, response.error_message]).toEqual(['FAILED', expect.stringContaining('headers of its caller')]);
    expect((await answer(taskId, request, { action: 'approve' })).status).toBe(409);
    rig.llm.reset(echo('hi'), 'done');
    const other = await execute({ 'x-other': 'blue' });
    await pending(other);
    await rig.restart();
    const [again] = await pending(other);
    await answer(other, again, { action: 'approve' });
    expect(textOf(await ended(other))).toBe('done');
  });
});
