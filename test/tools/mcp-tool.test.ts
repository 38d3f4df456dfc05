import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { CONNECTOR_NOT_FOUND, UpstreamError } from '../../src/errors.ts';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import type { JsonObject } from '../../src/json.ts';
import type { McpCall, McpCallResult } from '../../src/mcp/types.ts';
import { resultText } from '../../src/tools/mcp-result.ts';
import { createMcpTool, type McpToolDefinition } from '../../src/tools/mcp-tool.ts';
import type { ToolContext } from '../../src/tools/tool.ts';
import { userPrincipal } from '../support/principals.ts';

const neverMoved = async () => ({ signal: new AbortController().signal, end: () => undefined });

const result = (content: JsonObject[], rest: Partial<McpCallResult> = {}): McpCallResult => ({
  content,
  isError: false,
  bytes: 1,
  warnings: [],
  ...rest,
});
const text = (value: string): JsonObject => ({ type: 'text', text: value });

describe('a tool denied to the caller', () => {
  const denied = userPrincipal('ann', { access: { deniesTool: (id, tool) => id === 'c' && tool === 'own' } });
  const context = { principal: denied, agentId: 'a', runId: 'r', signal: new AbortController().signal };
  const definition: McpToolDefinition = {
    offeredAs: 'own',
    connectorId: 'c',
    tool: 'own',
    description: '',
    inputSchema: {},
    annotations: undefined,
    includeOutput: false,
    permission: 'allow',
    guard: async () => undefined,
  };

  async function run(more: Partial<McpToolDefinition>) {
    const called: string[] = [];
    const audited: unknown[] = [];
    const authorization = { refused: (...row: unknown[]) => void audited.push(row) };
    const sessions = {
      watchPause: neverMoved,
      async call(connectorId: string): Promise<McpCallResult> {
        called.push(connectorId);
        if (connectorId === 'down')
          throw new UpstreamError({
            code: 'connection_refused',
            destination: 'down',
            message: 'Down.',
            statusCode: 502,
            delivered: 'no',
          });
        return result([text('ok')]);
      },
    };
    const tool = createMcpTool({ ...definition, ...more }, { sessions, authorization, log: pino({ level: 'silent' }) });
    const answer = await tool.execute('{}', context);
    for (const row of audited) {
      const facts = { connectorId: expect.any(String), tool: definition.tool };
      expect(row).toEqual([context.principal, 'connector:use', expect.objectContaining(facts)]);
    }
    return { called, audited: audited.length, result: answer };
  }

  it('is not called', async () => {
    expect(await run({})).toEqual({
      called: [],
      audited: 1,
      result: {
        text: expect.stringContaining("You don't have permission to call the tool own"),
        isError: true,
        outcome: 'error',
      },
    });
    expect((await run({ connectorId: 'other' })).result.text).toBe('ok');
  });

  it('is not called at the fallback connector either', async () => {
    const { called, result: refused } = await run({ connectorId: 'down', fallbackConnectorId: 'c' });
    expect(called).toEqual(['down']);
    expect(refused).toMatchObject({ isError: true, text: expect.stringContaining('permission') });
  });
});

describe('a call', () => {
  const principal = userPrincipal('ann');
  const context = { principal, agentId: 'a', runId: 'r', signal: new AbortController().signal };
  const resume = { paused: { questions: {}, round: 1 }, answers: {} };

  async function run(given: Partial<McpToolDefinition>, more: Partial<ToolContext> = {}) {
    const calls: { connectorId: string; call: McpCall }[] = [];
    const sessions = {
      watchPause: neverMoved,
      async call(connectorId: string, call: McpCall): Promise<McpCallResult> {
        calls.push({ connectorId, call });
        if (connectorId !== 'down') return result([text('ok')]);
        const failure = { code: 'connection_refused', destination: 'down', message: 'Down.', statusCode: 502 } as const;
        throw new UpstreamError({ ...failure, delivered: 'no' });
      },
    };
    const definition: McpToolDefinition = {
      offeredAs: 'own',
      connectorId: 'c',
      tool: 'own',
      description: '',
      inputSchema: {},
      annotations: undefined,
      includeOutput: false,
      permission: 'ask',
      guard: async () => undefined,
      ...given,
    };
    const authorization = { refused: () => undefined };
    const tool = createMcpTool(definition, { sessions, authorization, log: pino({ level: 'silent' }) });
    expect(tool.permission).toBe('ask');
    return { calls, answer: await tool.execute('{}', { ...context, ...more }) };
  }

  it('passes on who may be asked, where it goes on from and who hears of its progress', async () => {
    const more = { ask: async () => ({}), onProgress: () => undefined, resume };
    const { calls } = await run({}, more);
    expect(calls).toEqual([{ connectorId: 'c', call: { tool: 'own', argumentsText: '{}', ...context, ...more } }]);
  });

  it('that is refused at the last moment does not leave', async () => {
    const asked: string[] = [];
    const guard = async (target: string) => {
      asked.push(target);
      return target === 'c' ? 'the tool own was not called: it is blocked' : undefined;
    };
    expect(await run({ guard })).toEqual({
      calls: [],
      answer: { text: 'Error: the tool own was not called: it is blocked', isError: true, outcome: 'error' },
    });
    const fallback = await run({ guard, connectorId: 'down', fallbackConnectorId: 'c' });
    expect(fallback.calls.map(({ connectorId }) => connectorId)).toEqual(['down']);
    expect(fallback.answer.text).toContain('it is blocked');
    expect(asked).toEqual(['c', 'down', 'c']);
  });

  it('asks nobody at the fallback connector, and goes on where it began', async () => {
    const ask = async () => ({});
    const { calls } = await run({ connectorId: 'down', fallbackConnectorId: 'spare' }, { ask });
    expect(calls.map(({ connectorId, call }) => [connectorId, call.ask])).toEqual([
      ['down', ask],
      ['spare', undefined],
    ]);
    const resumed = await run({ connectorId: 'down', fallbackConnectorId: 'spare' }, { ask, resume });
    expect(resumed.calls.map(({ connectorId }) => connectorId)).toEqual(['down']);
    expect(resumed.answer.isError).toBe(true);
  });
});

describe('the text of a result', () => {
  it('joins texts', () => {
    expect(resultText(result([text('a'), text('b')]))).toBe('a\nb');
  });

  it('is the structured content when nothing else has text', () => {
    const structuredContent = { lat: 50.5, id: 10491 };
    expect(resultText(result([], { structuredContent }))).toBe('{"lat":50.5,"id":10491}');
    expect(resultText(result([text('  ')], { structuredContent }))).toBe('{"lat":50.5,"id":10491}\n  ');
    expect(resultText(result([text('words')], { structuredContent }))).toBe('words');
    const image = { type: 'image', data: 'AAAA', mimeType: 'image/png' };
    expect(resultText(result([image], { structuredContent }))).toBe(
      '{"lat":50.5,"id":10491}\n[image image/png, 3 bytes, not shown]',
    );
  });

  it('shows every kind of part and never base64', () => {
    const shown = resultText(
      result([
        { type: 'image', data: 'iVBORw0KGgo=', mimeType: 'image/png' },
        { type: 'audio', data: 'AAAA', mimeType: 'audio/wav' },
        { type: 'resource', resource: { uri: 'file:///a.txt', mimeType: 'text/plain', text: 'RES-TXT' } },
        { type: 'resource', resource: { uri: 'file:///b.pdf', mimeType: 'application/pdf', blob: 'JVBERi0=' } },
        { type: 'resource_link', uri: 'https://x/y', name: 'Y', mimeType: 'text/html' },
        { type: 'json', json: { k: 1 } },
        {},
        { type: 'image' },
        { type: 'resource', resource: 'broken' },
      ]),
    );
    expect(shown.split('\n')).toEqual([
      '[image image/png, 8 bytes, not shown]',
      '[audio audio/wav, 3 bytes, not shown]',
      'RES-TXT',
      '[resource file:///b.pdf application/pdf, 5 bytes, not shown]',
      '[link https://x/y Y text/html]',
      '[content of unknown type json]',
      '[content of unknown type none]',
      '[image of unknown type, no data]',
      '[resource of unknown type, no data]',
    ]);
  });

  it('says that there is none', () => {
    expect(resultText(result([]))).toBe('(the tool returned no content)');
    expect(resultText(result([{ type: 'text' }], { isError: true }))).toBe('the tool failed and gave no reason');
  });
});

interface Asked extends McpCall {
  readonly connectorId: string;
}

function tool(answers: Record<string, () => McpCallResult>, options: Partial<McpToolDefinition> = {}) {
  const asked: Asked[] = [];
  const definition: McpToolDefinition = {
    offeredAs: 'get_it',
    connectorId: 'c1',
    tool: 'get.it',
    description: 'gets it',
    inputSchema: { type: 'object', properties: {} },
    annotations: undefined,
    includeOutput: false,
    permission: 'allow' as const,
    guard: async () => undefined,
    ...options,
  };
  const made = createMcpTool(definition, {
    log: pino({ level: 'silent' }),
    authorization: { refused: () => undefined },
    sessions: {
      watchPause: neverMoved,
      async call(connectorId, call) {
        asked.push({ connectorId, ...call });
        const answer = answers[connectorId];
        if (answer === undefined) throw new Error('unexpected connector');
        return answer();
      },
    },
  });
  const controller = new AbortController();
  const context = { principal: OPEN_PRINCIPAL, agentId: 'agent', runId: 'run', signal: controller.signal };
  return { tool: made, asked, controller, run: () => made.execute('{"n":1}', context) };
}

function upstream(delivered: 'no' | 'unknown', message = 'connector "w": connection refused.'): UpstreamError {
  return new UpstreamError({
    code: 'connection_refused',
    destination: 'connector "w"',
    message,
    statusCode: 502,
    delivered,
  });
}

const failing = (error: Error) => () => {
  throw error;
};
const UNKNOWN =
  'The outcome is unknown: the call was sent and may have been carried out; it was not repeated. Find out what happened before you call it again.';

describe('an MCP tool', () => {
  it('says once that an outcome is unknown', async () => {
    const message = 'connector "w" broke off. The outcome of the call is unknown; it is not sent again.';
    const code = 'outcome_unknown' as const;
    const error = new UpstreamError({ code, destination: 'connector "w"', message, statusCode: 502 });
    expect(await tool({ c1: failing(error) }).run()).toEqual({
      text: `Error: ${message} Find out what happened before you call it again.`,
      isError: true,
      outcome: 'unknown',
    });
  });

  it('calls the own name of the tool for the principal of the run', async () => {
    const { tool: made, asked, run } = tool({ c1: () => result([text('fine')]) });
    expect(await run()).toEqual({ text: 'fine', isError: false, outcome: 'ok' });
    expect(asked).toMatchObject([
      {
        connectorId: 'c1',
        tool: 'get.it',
        argumentsText: '{"n":1}',
        principal: OPEN_PRINCIPAL,
        agentId: 'agent',
        runId: 'run',
      },
    ]);
    expect(made).toMatchObject({
      spec: { name: 'get_it', description: 'gets it' },
      type: 'McpStreamableHttpTool',
      source: { connectorId: 'c1', tool: 'get.it' },
    });
  });

  it('gives a failure of the tool to the model', async () => {
    const { run } = tool({ c1: () => result([text('date must be in the future')], { isError: true }) });
    expect(await run()).toEqual({ text: 'date must be in the future', isError: true, outcome: 'error' });
  });

  it.each([
    [undefined, false],
    [{}, false],
    [{ readOnlyHint: true }, true],
    [{ idempotentHint: true }, true],
    [{ readOnlyHint: 'true', idempotentHint: false }, false],
  ])('may be repeated only when it says so: %j', (annotations, repeatable) => {
    expect(tool({}, { annotations }).tool.repeatable).toBe(repeatable);
  });

  it('tells the model when the outcome is unknown', async () => {
    const lost = failing(upstream('unknown', 'connector "w" closed the connection.'));
    expect(await tool({ c1: lost }).run()).toEqual({
      text: `Error: connector "w" closed the connection. ${UNKNOWN}`,
      isError: true,
      outcome: 'unknown',
    });
    expect(await tool({ c1: lost }, { annotations: { readOnlyHint: true } }).run()).toEqual({
      text: 'Error: connector "w" closed the connection.',
      isError: true,
      outcome: 'error',
    });
  });

  it('tells the model when the call surely did not arrive', async () => {
    expect(await tool({ c1: failing(upstream('no')) }).run()).toEqual({
      text: 'Error: connector "w": connection refused.',
      isError: true,
      outcome: 'error',
    });
    expect(await tool({ c1: failing(new CONNECTOR_NOT_FOUND('c1')) }).run()).toEqual({
      text: 'Error: Failed to find connector with the provided connector id: c1',
      isError: true,
      outcome: 'error',
    });
  });

  it('hides what broke inside the platform', async () => {
    expect(await tool({ c1: failing(new TypeError('x is not a function')) }).run()).toEqual({
      text: `Error: the call failed inside the platform. ${UNKNOWN}`,
      isError: true,
      outcome: 'unknown',
    });
  });

  it('that was cancelled has an unknown outcome', async () => {
    const made = tool({
      c1: () => {
        made.controller.abort();
        throw upstream('no');
      },
    });
    expect(await made.run()).toEqual({
      text: `Error: the call was cancelled. ${UNKNOWN}`,
      isError: true,
      outcome: 'unknown',
    });
  });

  it('goes to the fallback connector only when the call surely did not arrive', async () => {
    const fallbackConnectorId = 'c2';
    const c2 = () => result([text('from the other')]);
    const saved = tool({ c1: failing(upstream('no')), c2 }, { fallbackConnectorId });
    expect(await saved.run()).toEqual({ text: 'from the other', isError: false, outcome: 'ok' });
    expect(saved.asked.map((call) => call.connectorId)).toEqual(['c1', 'c2']);
    const maybe = tool({ c1: failing(upstream('unknown')), c2 }, { fallbackConnectorId });
    expect((await maybe.run()).outcome).toBe('unknown');
    expect(maybe.asked).toHaveLength(1);
    const broken = tool({ c1: failing(new Error('bug')), c2 }, { fallbackConnectorId });
    expect((await broken.run()).outcome).toBe('unknown');
    const both = tool(
      { c1: failing(upstream('no')), c2: failing(upstream('unknown', 'gone.')) },
      { fallbackConnectorId },
    );
    expect(await both.run()).toMatchObject({ outcome: 'unknown', text: `Error: gone. ${UNKNOWN}` });
  });

  it('has a description of at most 1024 characters', () => {
    const length = (description: string) => tool({}, { description }).tool.spec.description.length;
    expect(length('d'.repeat(1024))).toBe(1024);
    expect(tool({}, { description: 'd'.repeat(3000) }).tool.spec.description).toBe(`${'d'.repeat(1023)}…`);
    expect(tool({}, { description: `${'d'.repeat(1022)}🦉${'d'.repeat(9)}` }).tool.spec.description).toBe(
      `${'d'.repeat(1022)}…`,
    );
  });
});
