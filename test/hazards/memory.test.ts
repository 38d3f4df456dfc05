import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import type { LlmRequest } from '../support/fake-llm-server.ts';
import { startRig, until } from './rig.ts';

const rig = startRig();

/** What a request holds beside the system prompt: who said what. */
const spoken = (request: LlmRequest | undefined): string[] =>
  (request?.messages ?? []).filter(({ role }) => role !== 'system').map(({ role, content }) => `${role}: ${content}`);
const messagesOf = async (memoryId: string, query = ''): Promise<JsonObject[]> =>
  (await rig.ok('GET', `/memory/${memoryId}/messages${query}`)).messages as JsonObject[];
const turnsOf = async (memoryId: string, query = ''): Promise<unknown[][]> =>
  (await messagesOf(memoryId, query)).map(({ input, response }) => [input, response]);

/** Three calls at once, then an answer that names the question. */
function scriptThreeCalls(): void {
  rig.llm.reset(({ messages }) => {
    if (messages.at(-1)?.role === 'tool') return `A ${messages.findLast(({ role }) => role === 'user')?.content}`;
    return { calls: ['1', '2', '3'].map((text) => ({ tool: 'echo', args: `{"text":"${text}"}` })) };
  });
}

describe('the history of a conversation', () => {
  it('is cut between turns, newest kept, whatever the limit', async () => {
    const server = await rig.serve();
    const agent = await rig.agent(await rig.connector(server.origin));
    let memory: string | undefined;
    const asked: string[] = [];
    const ask = async (limit?: number) => {
      const question = `Q${asked.length + 1}`;
      scriptThreeCalls();
      const turn = await rig.ask(agent, {
        question,
        ...(memory !== undefined && { memory_id: memory }),
        ...(limit !== undefined && { message_history_limit: limit }),
      });
      expect(turn).toMatchObject({ status: 200, answer: `A ${question}` });
      expect(rig.llm.faults).toEqual([]);
      expect(rig.llm.requests).toHaveLength(2);
      memory = turn.memoryId;
      const kept = limit === 0 ? [] : asked.slice(-(limit ?? 10));
      expect(spoken(rig.llm.requests[0])).toEqual([
        ...kept.flatMap((earlier) => [`user: ${earlier}`, `assistant: A ${earlier}`]),
        `user: ${question}`,
      ]);
      asked.push(question);
    };
    for (let turn = 0; turn < 5; turn += 1) await ask();
    for (const limit of [1, 2, 3, 4, 5, 7, 0, 100]) await ask(limit);
    expect(server.of('tools/call')).toHaveLength(asked.length * 3);
  });

  it('begins with whole turns where one of them failed', async () => {
    const agent = await rig.agent();
    rig.llm.reset('A1');
    const { memoryId } = await rig.ask(agent, 'Q1');
    rig.llm.reset({ status: 500, body: { error: { message: 'overloaded' } } });
    expect((await rig.ask(agent, { question: 'Q2', memory_id: memoryId })).status).toBeGreaterThanOrEqual(500);
    rig.llm.reset('A3');
    expect((await rig.ask(agent, { question: 'Q3', memory_id: memoryId })).answer).toBe('A3');
    expect(rig.llm.faults).toEqual([]);
    const heard = spoken(rig.llm.requests[0]);
    expect(heard.slice(0, 2)).toEqual(['user: Q1', 'assistant: A1']);
    expect(heard.at(-1)).toBe('user: Q3');
    expect(heard.length % 2).toBe(1);
  });
});

describe('turns of one conversation at the same time', () => {
  it('are answered one after another, each knowing the one before', async () => {
    const agent = await rig.agent();
    rig.llm.reset('A0');
    const { memoryId } = await rig.ask(agent, 'Q0');
    rig.llm.reset({ text: 'A1', delayMs: 500 }, 'A2');
    const first = rig.ask(agent, { question: 'Q1', memory_id: memoryId });
    const second = new Promise((resolve) => setTimeout(resolve, 50)).then(() =>
      rig.ask(agent, { question: 'Q2', memory_id: memoryId }),
    );
    expect([(await first).answer, (await second).answer]).toEqual(['A1', 'A2']);
    expect(await turnsOf(memoryId)).toEqual([
      ['Q0', 'A0'],
      ['Q1', 'A1'],
      ['Q2', 'A2'],
    ]);
    expect(spoken(rig.llm.requests[1])).toEqual(['user: Q0', 'assistant: A0', 'user: Q1', 'assistant: A1', 'user: Q2']);
  });

  it('never interleave, however many they are, nor do their steps', async () => {
    const server = await rig.serve();
    const agent = await rig.agent(await rig.connector(server.origin));
    rig.llm.reset('A0');
    const { memoryId } = await rig.ask(agent, 'Q0');
    scriptThreeCalls();
    const questions = ['Qa', 'Qb', 'Qc', 'Qd', 'Qe'];
    const turns = await Promise.all(questions.map((question) => rig.ask(agent, { question, memory_id: memoryId })));
    expect(turns.map(({ answer }) => answer)).toEqual(questions.map((question) => `A ${question}`));
    const stored = await turnsOf(memoryId);
    expect(stored.slice(1).map(String).sort()).toEqual(questions.map((question) => `${question},A ${question}`));
    const firsts = rig.llm.requests.filter(({ messages }) => messages.at(-1)?.role === 'user').map(spoken);
    expect(firsts.map((heard) => heard.length).sort()).toEqual([11, 3, 5, 7, 9]);
    for (const { messageId } of turns) {
      const { traces } = await rig.ok('GET', `/memory/message/${messageId}/traces?max_results=50`);
      expect((traces as JsonObject[]).map(({ origin }) => origin)).toEqual(['LLM', 'echo', 'echo', 'echo', 'LLM']);
    }
  });

  it('hold up no other conversation, and none for a caller who left', async () => {
    const agent = await rig.agent();
    rig.llm.reset('A0');
    const [one, two] = [await rig.ask(agent, 'Q0'), await rig.ask(agent, 'P0')];
    let release = (): void => undefined;
    const hold = new Promise<void>((resolve) => {
      release = resolve;
    });
    rig.llm.reset(({ messages }) =>
      messages.at(-1)?.content === 'slow' ? { text: 'slow answer', hold } : { text: `A ${messages.at(-1)?.content}` },
    );
    const slow = rig.ask(agent, { question: 'slow', memory_id: one.memoryId });
    const gone = new AbortController();
    const left = fetch(`${rig.app.url}/_plugins/_ml/agents/${agent}/_execute`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ parameters: { question: 'left', memory_id: one.memoryId } }),
      signal: gone.signal,
    });
    const other = await rig.ask(agent, { question: 'P1', memory_id: two.memoryId });
    expect(other.answer).toBe('A P1');
    gone.abort();
    await expect(left).rejects.toThrow();
    await until(() => rig.app.lines.some((line) => line.includes('the client closed the connection')));
    const last = rig.ask(agent, { question: 'last', memory_id: one.memoryId });
    release();
    expect((await slow).answer).toBe('slow answer');
    expect((await last).answer).toBe('A last');
    expect((await turnsOf(one.memoryId)).map(([question]) => question)).toEqual(['Q0', 'slow', 'last']);
  });

  it('are not held up by one that fails', async () => {
    const agent = await rig.agent();
    rig.llm.reset('A0');
    const { memoryId } = await rig.ask(agent, 'Q0');
    rig.llm.reset({ status: 503, body: { error: { message: 'overloaded' } }, delayMs: 100 }, 'A2');
    const [first, second] = await Promise.all([
      rig.ask(agent, { question: 'Q1', memory_id: memoryId }),
      rig.ask(agent, { question: 'Q2', memory_id: memoryId }),
    ]);
    const failed = [first, second].filter(({ status }) => status !== 200);
    expect(failed).toHaveLength(1);
    expect((await turnsOf(memoryId)).map(([question]) => question).sort()).toEqual(['Q0', 'Q1', 'Q2']);
    expect(
      (await turnsOf(memoryId)).filter(([, response]) => String(response).startsWith('Agent execution failed')),
    ).toHaveLength(1);
  });
});

describe('what is stored at one moment', () => {
  it('keeps its order, the newest included, and every character', async () => {
    const server = await rig.serve();
    const agent = await rig.agent(await rig.connector(server.origin));
    const calls = Array.from({ length: 12 }, (_, index) => ({ tool: 'echo', args: `{"text":"n${index}"}` }));
    rig.llm.reset({ calls }, 'all twelve');
    const { memoryId, messageId } = await rig.ask(agent, 'twelve');
    rig.llm.reset('it was 🦉, 𠜎 and e\u0301');
    await rig.ask(agent, { question: 'last? 🦉', memory_id: memoryId });

    const listed = await turnsOf(memoryId, '?max_results=10');
    expect(listed).toEqual([
      ['twelve', 'all twelve'],
      ['last? 🦉', 'it was 🦉, 𠜎 and e\u0301'],
    ]);
    const { traces } = await rig.ok('GET', `/memory/message/${messageId}/traces?max_results=100`);
    expect((traces as JsonObject[]).map(({ trace_number: number }) => number)).toEqual(
      [...Array(14).keys()].map((n) => n + 1),
    );
    const outcomes = (traces as JsonObject[]).filter(({ origin }) => origin === 'echo').map(({ response }) => response);
    expect(new Set(outcomes)).toEqual(new Set(calls.map(({ args }) => `echo: ${args}`)));

    rig.llm.reset('done');
    await rig.ask(agent, { question: 'and?', memory_id: memoryId, message_history_limit: 1 });
    expect(spoken(rig.llm.requests[0])).toEqual([
      'user: last? 🦉',
      'assistant: it was 🦉, 𠜎 and e\u0301',
      'user: and?',
    ]);
  });

  it('is paged in its order, nothing twice and nothing lost', async () => {
    const { memory_id: memoryId } = await rig.ok('POST', '/memory', { name: 'many 🦉' });
    const inputs = Array.from({ length: 25 }, (_, index) => `m${index} 🦉`);
    for (const input of inputs) await rig.ok('POST', `/memory/${memoryId}/messages`, { input, response: 'r' });
    const pages: unknown[] = [];
    let token: unknown = 0;
    while (token !== undefined) {
      const page = await rig.ok('GET', `/memory/${memoryId}/messages?max_results=10&next_token=${token}`);
      pages.push(...(page.messages as JsonObject[]).map(({ input }) => input));
      token = page.next_token;
    }
    expect(pages).toEqual(inputs);
    expect(await rig.ok('GET', `/memory/${memoryId}`)).toMatchObject({ name: 'many 🦉' });
  });

  it('holds half a character of nobody: a model is never sent a broken text', async () => {
    const server = await rig.serve({
      on: { 'tools/call': { result: { content: [{ type: 'text', text: 'half \ud83e' }] } } },
    });
    const agent = await rig.agent(await rig.connector(server.origin));
    rig.llm.reset({ tool: 'echo', args: '{"text":"x"}' }, 'done');
    const { memoryId } = await rig.ask(agent, 'question with half \ud83e');
    rig.llm.reset('done again');
    expect((await rig.ask(agent, { question: 'and?', memory_id: memoryId })).answer).toBe('done again');
    expect(rig.llm.faults).toEqual([]);
  });
});
