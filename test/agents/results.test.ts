import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { openRig, paramsOf, type Rig, toolMessages } from './rig.ts';

let rig: Rig;
beforeEach(async () => {
  rig = await openRig('final');
});
afterEach(() => rig.dispose());

const tool = (name: string, more: JsonObject = {}): JsonObject => ({
  name,
  inputSchema: { type: 'object', properties: {} },
  ...more,
});

async function agentOf(script: Parameters<Rig['server']>[0], config: JsonObject = {}) {
  const server = await rig.server(script);
  const connector = await rig.connector('w', server.origin, config);
  return { server, agent: await rig.agent([connector]) };
}

describe('what the model is told of a tool call', () => {
  it('is the data of structuredContent when there is no text', async () => {
    const { agent } = await agentOf({
      on: { 'tools/call': { result: { content: [], isError: false, structuredContent: { lat: 50.5, id: 10491 } } } },
    });
    rig.llm.reset({ tool: 'echo', args: '{"text":"x"}' }, 'final');
    await rig.ask(agent, 'q');
    expect(toolMessages(rig.llm, 1)).toEqual(['{"lat":50.5,"id":10491}']);
  });

  it('is marked when the tool failed, and the run goes on', async () => {
    const failed = { result: { isError: true, content: [{ type: 'text', text: 'date must be in the future' }] } };
    const { agent, server } = await agentOf({ on: { 'tools/call': [failed, 'normal'] } });
    const call = { tool: 'echo', args: '{"text":"x"}' };
    rig.llm.reset(call, call, 'final');
    const reply = await rig.ask(agent, 'q');
    expect(reply.text).toBe('final');
    expect(toolMessages(rig.llm, 2)).toEqual(['Error: date must be in the future', 'echo: {"text":"x"}']);
    expect(server.of('tools/call')).toHaveLength(2);
  });

  it('is one message for each call, also when some fail or never end', async () => {
    const { agent } = await agentOf(
      {
        tools: ['ok', 'boom', 'slow'].map((name) => tool(name)),
        on: {
          'tools/call': (request) => {
            const { name } = paramsOf(request);
            return name === 'boom' ? { status: 403, body: 'no' } : name === 'slow' ? { hold: 'never' } : 'normal';
          },
        },
      },
      { client_config: { max_retry_times: 0, connection_timeout: 1, read_timeout: 1 } },
    );
    const calls = ['ok', 'boom', 'slow'].map((name, index) => ({ id: `c${index + 1}`, tool: name }));
    rig.llm.reset({ calls }, 'final');
    const first = await rig.ask(agent, 'q');
    expect(first.text).toBe('final');
    const messages = rig.llm.requests[1]?.messages.filter((message) => message.role === 'tool') ?? [];
    expect(messages.map((message) => message.tool_call_id)).toEqual(['c1', 'c2', 'c3']);
    expect(messages.map((message) => String(message.content).startsWith('Error: '))).toEqual([false, true, true]);
    expect((await rig.ask(agent, 'again', { memory_id: first.memoryId })).text).toBe('final');
    expect(rig.llm.faults).toEqual([]);
  });

  it('is that the outcome is unknown when the connection broke, and nothing is sent twice', async () => {
    const { agent, server } = await agentOf({ on: { 'tools/call': { reset: true } } });
    rig.llm.reset({ tool: 'echo', args: '{"text":"x"}' }, 'final');
    expect((await rig.ask(agent, 'q')).text).toBe('final');
    expect(toolMessages(rig.llm, 1)[0]).toMatch(
      /^Error: .+ The outcome of the call is unknown; it is not sent again\. Find out what happened/,
    );
    expect(server.of('tools/call')).toHaveLength(1);
  });

  it('is cut when it is huge', async () => {
    const { agent } = await agentOf({
      on: { 'tools/call': { result: { content: [{ type: 'text', text: 'x'.repeat(3 * 1024 * 1024) }] } } },
    });
    rig.llm.reset({ tool: 'echo', args: '{"text":"x"}' }, 'final');
    await rig.ask(agent, 'q');
    expect(rig.llm.requests[1]?.text.length).toBeLessThan(200_000);
    expect(toolMessages(rig.llm, 1)[0]).toMatch(/x\n\[cut: 100000 of 3145728 characters\]$/);
    rig.llm.reset({ tool: 'echo', args: '{"text":"x"}' }, 'final');
    await rig.ask(agent, 'q', { tool_result_limit: '10' });
    expect(toolMessages(rig.llm, 1)[0]).toBe('xxxxxxxxxx\n[cut: 10 of 3145728 characters]');
  });
});

describe('what the server gets', () => {
  const argumentsOf = (server: Awaited<ReturnType<typeof agentOf>>['server']) =>
    server.of('tools/call').map((request) => paramsOf(request).arguments);

  it('is {} for empty, blank and null arguments', async () => {
    const { agent, server } = await agentOf({ tools: [tool('now')] });
    rig.llm.reset({ tool: 'now', args: '' }, { tool: 'now', args: '  ' }, { tool: 'now', args: null }, 'final');
    await rig.ask(agent, 'q');
    expect(argumentsOf(server)).toEqual([{}, {}, {}]);
  });

  it('is nothing for arguments that are no JSON; the model may try again', async () => {
    const remove = tool('delete', { inputSchema: { type: 'object', properties: { id: { type: 'integer' } } } });
    const { agent, server } = await agentOf({ tools: [remove] });
    rig.llm.reset({ tool: 'delete', args: '{"id": 7' }, { tool: 'delete', args: '{"id": 7}' }, 'final');
    expect((await rig.ask(agent, 'q')).text).toBe('final');
    expect(argumentsOf(server)).toEqual([{ id: 7 }]);
    expect(toolMessages(rig.llm, 1)[0]).toMatch(/not valid JSON: .+"id":\{"type":"integer"\}/);
  });

  it('keeps the digits of large integers, and so does the conversation', async () => {
    const get = tool('get', { inputSchema: { type: 'object', properties: { id: { type: 'integer' } } } });
    const { agent, server } = await agentOf({ tools: [get] });
    rig.llm.reset({ tool: 'get', args: '{"id":2512292042121000001}' }, 'final');
    const reply = await rig.ask(agent, 'q');
    expect(server.of('tools/call')[0]?.body).toContain('2512292042121000001');
    expect(rig.llm.requests[1]?.text).toContain('2512292042121000001');
    const { traces } = await rig.ok('GET', `/memory/message/${reply.messageId}/traces`);
    expect(JSON.stringify(traces)).toContain('2512292042121000001');
  });

  it('is nothing for a tool that is not offered', async () => {
    const { agent, server } = await agentOf({});
    rig.llm.reset({ tool: 'search_files' }, { tool: 'echo', args: '{"text":"x"}' }, 'final');
    expect((await rig.ask(agent, 'q')).text).toBe('final');
    expect(toolMessages(rig.llm, 1)).toEqual(['Error: unknown tool search_files; available: echo']);
    expect(server.of('tools/call')).toHaveLength(1);
  });

  it('is nothing of a turn that was cut off', async () => {
    const { agent, server } = await agentOf({ tools: [tool('write')] });
    rig.llm.reset({ tool: 'write', args: '{"path":"/a"}', finish: 'length' }, 'final');
    expect((await rig.ask(agent, 'q')).text).toBe('final');
    expect(server.of('tools/call')).toHaveLength(0);
    expect(toolMessages(rig.llm, 1)[0]).toContain('cut off, send again');
  });
});

describe('a run', () => {
  it('that never comes to an end says so within its limit, and the conversation goes on', async () => {
    const { agent } = await agentOf({});
    rig.llm.reset({ tool: 'echo', args: '{"text":"x"}' });
    const reply = await rig.ask(agent, 'q', { max_iteration: 3 });
    expect(reply.status).toBe(200);
    expect(reply.text).toMatch(
      /^Agent reached maximum iterations \(3\) without completing the task\. Here's a summary of the steps completed so far:/,
    );
    expect(reply.text).toContain('1. echo({"text":"x"}): echo: {"text":"x"}');
    expect(rig.llm.requests).toHaveLength(4);
    const message = await rig.ok('GET', `/memory/message/${reply.messageId}`);
    expect(message.response).toBe(reply.text);
    rig.llm.reset('fine');
    expect((await rig.ask(agent, 'next', { memory_id: reply.memoryId })).text).toBe('fine');
  });

  it.each([
    [
      { choices: [{ finish_reason: 'content_filter', message: { role: 'assistant', content: null } }] },
      'content_filter',
    ],
    [{ choices: [] }, 'empty choices'],
    [{ choices: [{ finish_reason: 'stop', message: null }] }, 'no message'],
    [{ error: { message: 'overloaded', code: 503 } }, 'overloaded'],
    [{ choices: [{ finish_reason: 'stop', message: { role: 'assistant', content: null, refusal: 'no' } }] }, 'refusal'],
  ])('whose model gives nothing usable fails with a clear cause: %j', async (body, cause) => {
    const agent = await rig.agent([]);
    rig.llm.reset({ body });
    const reply = await rig.ask(agent, 'q');
    expect(reply.status).toBeGreaterThanOrEqual(400);
    expect(JSON.stringify(reply.body)).toContain(cause);
    const { memories } = await rig.ok('GET', '/memory');
    const [memory] = memories as JsonObject[];
    const { messages } = await rig.ok('GET', `/memory/${String(memory?.memory_id)}/messages`);
    expect(messages).toMatchObject([
      { input: 'q', response: expect.stringMatching(new RegExp(`^Agent execution failed: .*${cause}`)) },
    ]);
  });

  it('whose model answers an error passes its status and text on, and keeps its traces', async () => {
    const { agent } = await agentOf({});
    rig.llm.reset(
      { tool: 'echo', args: '{"text":"x"}' },
      { status: 401, body: { error: { message: 'Incorrect API key provided.' } } },
    );
    const reply = await rig.ask(agent, 'q');
    expect(JSON.stringify(reply.body)).toContain('Incorrect API key provided.');
    expect(reply.body).toMatchObject({ error: { type: 'OpenSearchStatusException', reason: 'System Error' } });
    const { memories } = await rig.ok('GET', '/memory');
    const [memory] = memories as JsonObject[];
    const { messages } = await rig.ok('GET', `/memory/${String(memory?.memory_id)}/messages`);
    const [message] = messages as JsonObject[];
    const { traces } = await rig.ok('GET', `/memory/message/${String(message?.message_id)}/traces`);
    expect(traces).toMatchObject([{ origin: 'LLM' }, { origin: 'echo', response: 'echo: {"text":"x"}' }]);
  });
});
