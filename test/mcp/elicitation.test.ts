import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/json.ts';
import type { AskPerson, McpCall, ServerQuestion } from '../../src/mcp/types.ts';
import { startAskingSessionServer } from '../support/asking-peers.ts';
import { type FakeMcpScript, type FakeMcpServer, startFakeMcpServer } from '../support/fake-mcp-server.ts';
import { done, form, question } from './asked-forms.ts';
import { openPool, type Pool, textOf } from './pool.ts';

describe('questions of servers of the session era', () => {
  let pool: Pool;
  const servers: FakeMcpServer[] = [];

  async function serve(script: FakeMcpScript, config: Parameters<Pool['add']>[2] = {}): Promise<FakeMcpServer> {
    const server = await startFakeMcpServer(script);
    servers.push(server);
    pool.add('booking', `${server.origin}/mcp`, config);
    return server;
  }

  /** A server whose tool asks this on the stream of its call and ends when it has the answer. */
  async function asking(params: JsonObject, elicitation: 'decline' | 'accept_defaults' | 'ask', config = {}) {
    const server = await serve({}, { config: { elicitation, ...config } });
    server.on('tools/call', ({ message }) => ({
      sse: [
        question('q-1', params),
        async () => {
          await server.seen('(response)');
          return done(message?.id);
        },
      ],
    }));
    return server;
  }

  async function answerTo(server: FakeMcpServer, more: Partial<McpCall> = {}): Promise<JsonValue | undefined> {
    expect(textOf(await pool.call('booking', 'echo', {}, more))).toBe('done');
    const answers = server.of('(response)');
    expect(answers).toHaveLength(1);
    expect(answers[0]?.message?.id).toBe('q-1');
    return answers[0]?.message?.result;
  }

  const logged = (pattern: RegExp): string[] => pool.lines.filter((line) => pattern.test(line));

  beforeEach(async () => {
    pool = await openPool();
  });
  afterEach(async () => {
    await pool.dispose();
    await Promise.all(servers.splice(0).map((server) => server.stop()));
  });

  it('are offered to be asked, in forms and by address; sampling and roots are not', async () => {
    const server = await serve({});
    await pool.call('booking', 'echo', {});
    expect(server.of('initialize')[0]?.message?.params).toHaveProperty('capabilities', {
      elicitation: { form: {}, url: {} },
    });
  });

  it('are declined unless the connector says otherwise', async () => {
    const server = await asking(form(), 'decline');
    const ask: AskPerson = () => Promise.reject(new Error('nobody is asked'));
    expect(await answerTo(server, { ask })).toEqual({ action: 'decline' });
    expect(logged(/MCP question .*declined/)).toHaveLength(1);
  });

  it('are accepted with the defaults of their form', async () => {
    const server = await asking(form(), 'accept_defaults');
    expect(await answerTo(server)).toEqual({ action: 'accept', content: { city: 'Bergen' } });
  });

  it('are declined by address where only defaults are accepted', async () => {
    const server = await asking(
      { mode: 'url', message: 'Sign in', url: 'https://a.example/', elicitationId: '1' },
      'accept_defaults',
    );
    expect(await answerTo(server)).toEqual({ action: 'decline' });
  });

  it('are declined where nobody is there who could be asked', async () => {
    const server = await asking(form(), 'ask');
    expect(await answerTo(server)).toEqual({ action: 'decline' });
    expect(logged(/nobody is there/)).toHaveLength(1);
  });

  it('reach a person cleaned, and the answer holds fields of the form only', async () => {
    const schema: JsonObject = {
      type: 'object',
      properties: { city: { type: 'string', title: 'Ci\u200bty', description: 'In\u202ebound' } },
    };
    const server = await asking(form(schema, `Where\u200b to?${'x'.repeat(5000)}`), 'ask');
    const seen: ServerQuestion[] = [];
    const ask: AskPerson = async (questions, paused) => {
      expect(paused).toBeUndefined();
      const [[key = '', shown] = []] = Object.entries(questions);
      if (shown) seen.push(shown);
      return { [key]: { action: 'accept', content: { city: 'Oslo', extra: 'no' } } };
    };
    expect(await answerTo(server, { ask })).toEqual({ action: 'accept', content: { city: 'Oslo' } });
    expect(seen).toEqual([
      {
        mode: 'form',
        message: `Where to?${'x'.repeat(4086)}…`,
        schema: { type: 'object', properties: { city: { type: 'string', title: 'City', description: 'Inbound' } } },
      },
    ]);
  });

  it.each([
    ['password', {}],
    ['db_password', {}],
    ['userPassword', {}],
    ['pass\u200bword', {}],
    ['value', { title: 'API key' }],
    ['value', { title: 'Your PIN' }],
    ['value', { title: 'Ｐassword' }],
    ['accessToken', {}],
    ['credit_card', {}],
    ['creditCardNumber', {}],
    ['clientSecret', {}],
    ['password2', {}],
    ['p a s s w o r d', {}],
    ['p4ssw0rd', {}],
    ['раsswоrd', {}],
    ['mypasswordagain', {}],
    ['Kennwort', {}],
    ['Passwort', {}],
    ['contraseña', {}],
    ['mot_de_passe', {}],
    ['value', { title: 'PIN code' }],
    ['otp', {}],
    ['ssn', {}],
    ['cvv2', {}],
    ['пароль', {}],
    ['密码', {}],
    ['value', { description: 'Enter the password of your account' }],
    ['value', { description: 'Your PIN, please' }],
  ])('are declined when a form asks for a secret: %s %o', async (name, more) => {
    const properties = { [name]: { type: 'string', default: 'x', ...more } };
    const server = await asking(form({ type: 'object', properties }), 'accept_defaults');
    expect(await answerTo(server)).toEqual({ action: 'decline' });
    expect(logged(/asks for a secret/)).toHaveLength(1);
  });

  it.each([
    [{ type: 'string', default: 'x' }, 'decline'],
    [{ type: 'string', enum: ['x', 'y'], default: 'x' }, 'accept'],
    [{ type: 'string', format: 'email', default: 'x' }, 'accept'],
    [{ type: 'integer', default: 1 }, 'accept'],
  ] as const)(
    'whose message asks for a password are declined where a field is free to hold one: %j',
    async (field, action) => {
      const schema = { type: 'object', properties: { value: field } } as unknown as JsonObject;
      const server = await asking(form(schema, 'Please enter your password'), 'accept_defaults');
      expect(await answerTo(server)).toMatchObject({ action });
    },
  );

  it('are declined when the name of a field holds hidden characters', async () => {
    const server = await asking(
      form({ type: 'object', properties: { 'ci\u200bty': { type: 'string', default: 'x' } } }),
      'accept_defaults',
    );
    expect(await answerTo(server)).toEqual({ action: 'decline' });
    expect(logged(/a name of its form holds hidden characters \(field \\?"city/)).toHaveLength(1);
  });

  it.each([
    'pinned',
    'tokens',
    'shipping_address',
    'secretary',
    'passenger',
    'keyboard',
    'parole',
    'spinning',
    'opt_in',
  ])('are not taken for a secret by a part of a word: %s', async (name) => {
    const properties = { [name]: { type: 'string', default: 'x' } };
    const server = await asking(form({ type: 'object', properties }), 'accept_defaults');
    expect(await answerTo(server)).toEqual({ action: 'accept', content: { [name]: 'x' } });
  });

  it('do not use up the time limits of their call', async () => {
    const server = await asking(form(), 'ask', { read_timeout: 1, max_total_timeout: 2 });
    const ask: AskPerson = async (questions) => {
      await new Promise((resolve) => setTimeout(resolve, 2300));
      return Object.fromEntries(Object.keys(questions).map((key) => [key, { action: 'cancel' as const }]));
    };
    expect(await answerTo(server, { ask })).toEqual({ action: 'cancel' });
    expect(server.of('notifications/cancelled')).toEqual([]);
  });

  it('leave the limits in force after the answer', async () => {
    const server = await serve({}, { config: { elicitation: 'ask', read_timeout: 1 } });
    server.on('tools/call', () => ({ sse: [question('q-1', form())], hold: 'open' }));
    const ask: AskPerson = async () => ({});
    await expect(pool.call('booking', 'echo', {}, { ask })).rejects.toThrow(/read_timeout/);
    expect((await server.seen('(response)')).message?.result).toEqual({ action: 'cancel' });
  });

  it.each(['https://pay.example/step?id=1', 'http://localhost/x', 'http://127.0.0.1'])(
    'show the address %s, and never fetch it',
    async (given) => {
      const target = await startFakeMcpServer();
      servers.push(target);
      const url = given === 'http://127.0.0.1' ? `${target.origin}/x` : given;
      const server = await asking({ mode: 'url', message: 'Pay', url, elicitationId: 'e-1' }, 'ask');
      const seen: ServerQuestion[] = [];
      const ask: AskPerson = async (questions) => {
        seen.push(...Object.values(questions));
        return Object.fromEntries(Object.keys(questions).map((key) => [key, { action: 'accept' as const }]));
      };
      expect(await answerTo(server, { ask })).toEqual({ action: 'accept' });
      expect(seen).toEqual([{ mode: 'url', message: 'Pay', url }]);
      expect(target.requests).toEqual([]);
    },
  );

  it.each([
    'http://pay.example/',
    'javascript:alert(1)',
    'file:///etc/passwd',
    'https://user:secret@pay.example/',
    'data:text/html,x',
  ])('do not show the address %s', async (url) => {
    const server = await asking({ mode: 'url', message: 'Pay', url, elicitationId: 'e-1' }, 'ask');
    const ask: AskPerson = () => Promise.reject(new Error('nobody is asked'));
    expect(await answerTo(server, { ask })).toEqual({ action: 'decline' });
  });

  it.each(['the server takes it back', 'the server ends the call'])('are cancelled when %s', async (how) => {
    const server = await serve({}, { config: { elicitation: 'ask', read_timeout: 1 } });
    let wake = (): void => undefined;
    const asked = new Promise<void>((resolve) => {
      wake = resolve;
    });
    const back = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'q-1' } };
    server.on('tools/call', ({ message }) => ({
      sse: [
        question('q-1', form()),
        async () => {
          await asked;
          return how === 'the server ends the call' ? done(message?.id) : JSON.stringify(back);
        },
      ],
      hold: 'open',
    }));
    let told: AbortSignal | undefined;
    const ask: AskPerson = (_questions, _paused, withdrawn) => {
      told = withdrawn;
      wake();
      return new Promise(() => undefined);
    };
    const call = pool.call('booking', 'echo', {}, { ask });
    if (how === 'the server ends the call') {
      expect(textOf(await call)).toBe('done');
      expect(told?.reason).toBe('The call it belongs to has ended');
    } else {
      await expect.poll(() => told?.aborted).toBe(true);
      expect(told?.reason).toBe('Its server took it back');
      await expect(call).rejects.toThrow(/read_timeout/);
    }
  });

  it('are declined when a call asks for the seventeenth time, and told of a hundred times at most', async () => {
    const server = await serve({}, { config: { elicitation: 'ask' } });
    const ids = Array.from({ length: 300 }, (_none, index) => `q-${index}`);
    server.on('tools/call', ({ message }) => ({
      sse: [
        ...ids.map((id) => question(id, form())),
        async () => {
          await server.seen('(response)', ids.length);
          return done(message?.id);
        },
      ],
    }));
    let times = 0;
    const ask: AskPerson = async () => {
      times += 1;
      return {};
    };
    expect(textOf(await pool.call('booking', 'echo', {}, { ask }))).toBe('done');
    expect(times).toBe(16);
    expect(logged(/asked 16 questions already/)).toHaveLength(100);
  });

  it('end the call with the failure of asking', async () => {
    const server = await serve({}, { config: { elicitation: 'ask' } });
    server.on('tools/call', { sse: [question('q-1', form())], hold: 'open' });
    const ask: AskPerson = () => Promise.reject(new Error('the run was stopped'));
    await expect(pool.call('booking', 'echo', {}, { ask })).rejects.toThrow('the run was stopped');
    await server.seen('notifications/cancelled');
  });

  describe('that want an address visited before the call', () => {
    const required = (url: string): JsonObject => ({
      elicitations: [{ mode: 'url', message: 'Connect your account', url, elicitationId: 'e-1' }],
    });
    async function refusing(url: string, elicitation: 'decline' | 'ask'): Promise<FakeMcpServer> {
      const server = await serve({}, { config: { elicitation } });
      const error = { code: -32042, message: 'Not connected yet', data: required(url) };
      server.on('tools/call', [{ error }, 'normal']);
      return server;
    }
    const as =
      (action: 'accept' | 'decline'): AskPerson =>
      async (questions, paused) => {
        expect(paused).toMatchObject({ questions, round: 1 });
        return Object.fromEntries(Object.keys(questions).map((key) => [key, { action }]));
      };

    it('have a person asked, and the call made again', async () => {
      const server = await refusing('https://a.example/connect', 'ask');
      expect(textOf(await pool.call('booking', 'echo', { n: 1 }, { ask: as('accept') }))).toBe('echo: {"n":1}');
      expect(server.of('tools/call')[1]?.message?.params).not.toHaveProperty('inputResponses');
    });

    it.each([
      ['http://a.example/', 'ask'],
      ['https://a.example/', 'decline'],
    ] as const)('tell the model why it does not work where nobody is asked: %s, %s', async (url, policy) => {
      const server = await refusing(url, policy);
      const result = await pool.call('booking', 'echo', {}, { ask: () => Promise.reject(new Error('nobody')) });
      expect([result.isError, textOf(result)]).toEqual([true, expect.stringContaining('Not connected yet')]);
      expect(server.of('tools/call')).toHaveLength(1);
    });

    it('are not asked for a second time', async () => {
      const server = await refusing('https://a.example/connect', 'ask');
      server.on('tools/call', { error: { code: -32042, message: 'Not yet', data: required('https://a.example/') } });
      const result = await pool.call('booking', 'echo', {}, { ask: as('decline') });
      expect(result.isError).toBe(true);
      expect(server.of('tools/call')).toHaveLength(2);
    });
  });

  it('are answered to a server of the first SDK generation', async () => {
    const peer = await startAskingSessionServer();
    try {
      pool.add('real', peer.url, { config: { elicitation: 'ask' } });
      const ask: AskPerson = async (questions) =>
        Object.fromEntries(
          Object.keys(questions).map((key) => [key, { action: 'accept' as const, content: { city: 'Oslo' } }]),
        );
      expect(textOf(await pool.call('real', 'book', {}, { ask }))).toBe('accept {"city":"Oslo"}');
    } finally {
      await peer.stop();
    }
  });
});
