import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import type { AskPerson } from '../../src/mcp/types.ts';
import {
  type FakeMcpScript,
  type FakeMcpServer,
  type RecordedRequest,
  startFakeMcpServer,
} from '../support/fake-mcp-server.ts';
import { done, form, question } from './asked-forms.ts';
import { openPool, type Pool, textOf } from './pool.ts';

describe('questions that come with no call, or with one of several', () => {
  let pool: Pool;
  const servers: FakeMcpServer[] = [];

  async function serve(script: FakeMcpScript, config: Parameters<Pool['add']>[2] = {}): Promise<FakeMcpServer> {
    const server = await startFakeMcpServer(script);
    servers.push(server);
    pool.add('booking', `${server.origin}/mcp`, config);
    return server;
  }

  const logged = (pattern: RegExp): string[] => pool.lines.filter((line) => pattern.test(line));

  beforeEach(async () => {
    pool = await openPool();
  });
  afterEach(async () => {
    await pool.dispose();
    await Promise.all(servers.splice(0).map((server) => server.stop()));
  });

  it('belong to the call on whose stream they come', async () => {
    const server = await serve({}, { config: { elicitation: 'ask' } });
    const bothThere = server.seen('tools/call', 2);
    const answered = (id: string): Promise<RecordedRequest | undefined> =>
      expect
        .poll(() => server.of('(response)').find(({ message }) => message?.id === id), { timeout: 5000 })
        .toBeDefined()
        .then(() => server.of('(response)').find(({ message }) => message?.id === id));
    server.on('tools/call', ({ message }) => {
      const { who } = (message as { params: { arguments: { who: string } } }).params.arguments;
      return {
        sse: [
          async () => {
            await bothThere;
            return question(who, form());
          },
          async () => {
            await answered(who);
            return done(message?.id);
          },
        ],
      };
    });
    const as =
      (who: string): AskPerson =>
      async (questions) =>
        Object.fromEntries(
          Object.keys(questions).map((key) => [key, { action: 'accept' as const, content: { city: who } }]),
        );
    await Promise.all(['ann', 'bob'].map((who) => pool.call('booking', 'echo', { who }, { ask: as(who) })));
    const results = server.of('(response)').map(({ message }) => [message?.id, message?.result]);
    expect(Object.fromEntries(results)).toEqual({
      ann: { action: 'accept', content: { city: 'ann' } },
      bob: { action: 'accept', content: { city: 'bob' } },
    });
  });

  /** A server whose calls end when told, and that asks on its listening stream. */
  async function askingBeside(count: number) {
    const server = await serve({}, { config: { elicitation: 'ask' } });
    const said: ((text: string) => void)[] = [];
    const texts = Array.from({ length: count }, () => new Promise<string>((resolve) => void said.push(resolve)));
    server.on('GET', { sse: texts.map((text) => () => text), hold: 'open' });
    const release: (() => void)[] = [];
    server.on('tools/call', ({ message }) => ({
      sse: [() => new Promise((resolve) => void release.push(() => resolve(done(message?.id))))],
    }));
    const asked: string[] = [];
    const as =
      (who: string): AskPerson =>
      async (questions) => {
        asked.push(who);
        return Object.fromEntries(Object.keys(questions).map((key) => [key, { action: 'cancel' as const }]));
      };
    const endAll = async (calls: number): Promise<void> => {
      await expect.poll(() => release.length).toBe(calls);
      for (const end of release) end();
    };
    return { server, asked, as, endAll, say: (at: number) => said[at]?.(question(`q-${at + 1}`, form())) };
  }

  it('belong to the only call there is when they come on the listening stream', async () => {
    const { server, asked, as, endAll, say } = await askingBeside(1);
    const ann = pool.call('booking', 'echo', {}, { ask: as('ann') });
    await server.seen('tools/call');
    await server.seen('GET');
    say(0);
    expect((await server.seen('(response)')).message?.result).toEqual({ action: 'cancel' });
    expect(asked).toEqual(['ann']);
    await endAll(1);
    await ann;
  });

  it.each([
    ['can ask', true],
    ['cannot ask', false],
  ])('belong to none of two calls when they come on the listening stream: the other one %s', async (_what, asks) => {
    const { server, asked, as, endAll, say } = await askingBeside(1);
    const principal = { ...OPEN_PRINCIPAL, id: 'user:bob' };
    const bob = pool.call('booking', 'echo', {}, { principal, ...(asks && { ask: as('bob') }) });
    const ann = pool.call('booking', 'echo', {}, { ask: as('ann') });
    await server.seen('tools/call', 2);
    await server.seen('GET');
    say(0);
    expect((await server.seen('(response)')).message?.result).toEqual({ action: 'decline' });
    expect(asked).toEqual([]);
    expect(logged(/2 calls are under way, and it names none of them/)).toHaveLength(1);
    await endAll(2);
    await Promise.all([ann, bob]);
  });

  it('belong to no call while a prompt is asked for beside it', async () => {
    const { server, asked, as, endAll, say } = await askingBeside(1);
    const capabilities = { tools: {}, prompts: {} };
    server.on('initialize', { patch: { capabilities } });
    let given = (): void => undefined;
    const prompt = new Promise<void>((resolve) => {
      given = resolve;
    });
    server.on('prompts/get', async () => {
      await prompt;
      return { result: { messages: [] } };
    });
    const ann = pool.call('booking', 'echo', {}, { ask: as('ann') });
    const bob = pool.sessions.prompt('booking', 'greet', {});
    await Promise.all([server.seen('tools/call'), server.seen('prompts/get'), server.seen('GET')]);
    say(0);
    expect((await server.seen('(response)')).message?.result).toEqual({ action: 'decline' });
    expect(asked).toEqual([]);
    given();
    await endAll(1);
    await Promise.all([ann, bob]);
  });

  it('belong to no call when one was given up that the server may be at work on', async () => {
    const { server, asked, as, endAll, say } = await askingBeside(1);
    const stop = new AbortController();
    const bob = pool.call('booking', 'echo', {}, { signal: stop.signal }).catch((error: unknown) => error);
    await server.seen('tools/call');
    stop.abort(new Error('bob left'));
    expect(await bob).toMatchObject({ message: 'bob left' });
    const ann = pool.call('booking', 'echo', {}, { ask: as('ann') });
    await server.seen('tools/call', 2);
    await server.seen('GET');
    say(0);
    expect((await server.seen('(response)')).message?.result).toEqual({ action: 'decline' });
    expect(asked).toEqual([]);
    expect(logged(/1 of them given up, but perhaps not by the server/)).toHaveLength(1);
    await endAll(2);
    await ann;
  });

  it('belong to none of two calls of a local process, whoever of them can ask', async () => {
    const program = `
      const lines = require('node:readline').createInterface({ input: process.stdin });
      const say = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }));
      const calls = [];
      lines.on('line', (line) => {
        const { id, method, result } = JSON.parse(line);
        if (method === 'initialize') {
          say({ id, result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'p', version: '1' } } });
        } else if (method === 'tools/list') say({ id, result: { tools: [{ name: 'book', inputSchema: { type: 'object' } }] } });
        else if (method === 'tools/call') {
          calls.push(id);
          if (calls.length === 2) say({ id: 'q-1', method: 'elicitation/create', params: ${JSON.stringify(form())} });
        } else if (method !== undefined && id !== undefined) say({ id, error: { code: -32601, message: 'Method not found' } });
        else if (id === 'q-1') {
          for (const call of calls) say({ id: call, result: { content: [{ type: 'text', text: JSON.stringify(result) }] } });
        }
      });
    `;
    pool.addLocal('local', ['-e', program], { config: { elicitation: 'ask' } });
    const ask: AskPerson = () => Promise.reject(new Error('nobody is asked'));
    const bob = pool.call('local', 'book', {}, { principal: { ...OPEN_PRINCIPAL, id: 'user:bob' } });
    const ann = pool.call('local', 'book', {}, { ask });
    for (const result of await Promise.all([ann, bob])) {
      expect(JSON.parse(String(textOf(result)))).toEqual({ action: 'decline' });
    }
    expect(logged(/2 calls are under way/)).toHaveLength(1);
  });

  it('belong to the only call there is when they come from a local process', async () => {
    const program = `
      const lines = require('node:readline').createInterface({ input: process.stdin });
      const say = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }));
      let call;
      lines.on('line', (line) => {
        const { id, method, result } = JSON.parse(line);
        if (method === 'initialize') {
          say({ id, result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'p', version: '1' } } });
        } else if (method === 'tools/list') say({ id, result: { tools: [{ name: 'book', inputSchema: { type: 'object' } }] } });
        else if (method === 'tools/call') {
          call = id;
          say({ id: 'q-1', method: 'elicitation/create', params: ${JSON.stringify(form())} });
        } else if (method !== undefined && id !== undefined) say({ id, error: { code: -32601, message: 'Method not found' } });
        else if (id === 'q-1') say({ id: call, result: { content: [{ type: 'text', text: JSON.stringify(result) }] } });
      });
    `;
    pool.addLocal('local', ['-e', program], { config: { elicitation: 'ask', read_timeout: 1 } });
    const ask: AskPerson = async (questions) => {
      await new Promise((resolve) => setTimeout(resolve, 1200));
      return Object.fromEntries(
        Object.keys(questions).map((key) => [key, { action: 'accept', content: { city: 'Oslo' } }]),
      );
    };
    const answer = textOf(await pool.call('local', 'book', {}, { ask }));
    expect(JSON.parse(String(answer))).toEqual({ action: 'accept', content: { city: 'Oslo' } });
  });
});
