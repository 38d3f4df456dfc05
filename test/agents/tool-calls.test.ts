import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { runToolCalls } from '../../src/agents/tool-calls.ts';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import type { ToolCall } from '../../src/llm/types.ts';
import type { CallStep } from '../../src/runs/steps.ts';
import { createArgumentChecker } from '../../src/tools/arguments.ts';
import type { Tool, WithheldTool } from '../../src/tools/tool.ts';
import { call, ECHO_SCHEMA, fakeTool } from './fixtures.ts';

interface Options {
  signal?: AbortSignal;
  concurrency?: number;
  resultLimit?: number;
  withheld?: readonly WithheldTool[];
  record?: (step: CallStep) => Promise<void>;
}

async function run(calls: readonly ToolCall[], tools: readonly Tool[], options: Options = {}) {
  const steps: CallStep[] = [];
  const signal = options.signal ?? new AbortController().signal;
  const context = { principal: OPEN_PRINCIPAL, agentId: 'agent', runId: 'run', signal };
  const ended = runToolCalls(
    4,
    calls.map((made, index) => ({ call: made, index })),
    {
      tools,
      ...(options.withheld && { withheld: options.withheld }),
      checker: createArgumentChecker(),
      context,
      concurrency: options.concurrency ?? 8,
      resultLimit: options.resultLimit ?? 1000,
      async record(step) {
        await options.record?.(step);
        steps.push(step);
      },
    },
  );
  const error = await ended.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  const outcomes = steps.filter((step) => step.kind === 'tool_outcome').sort((a, b) => a.index - b.index);
  return { steps, outcomes, texts: outcomes.map((step) => step.text), error, context };
}

describe('tool calls of one answer', () => {
  it('each have one outcome, also when one fails, throws, is unknown or has broken arguments', async () => {
    const tools = [
      fakeTool('ok'),
      fakeTool('boom', { run: async () => ({ text: 'answered 403', isError: true, outcome: 'error' }) }),
      fakeTool('thrower', { run: () => Promise.reject(new Error('secret stack')) }),
      fakeTool('reader', { repeatable: true, run: () => Promise.reject(new Error('x')) }),
    ];
    const calls = [call('ok'), call('boom'), call('thrower'), call('reader'), call('nope'), call('ok', '{', 'broken')];
    const { outcomes, error } = await run(calls, tools);
    expect(error).toBeUndefined();
    expect(
      outcomes.map(({ callId, text, isError, outcome, cause }) => [callId, text, isError, outcome, cause]),
    ).toEqual([
      ['id-ok', 'ok got {}', false, 'ok', undefined],
      ['id-boom', 'Error: answered 403', true, 'error', undefined],
      ['id-thrower', 'Error: the tool thrower failed inside the platform', true, 'unknown', undefined],
      ['id-reader', 'Error: the tool reader failed inside the platform', true, 'error', undefined],
      ['id-nope', 'Error: unknown tool nope; available: ok, boom, thrower, reader', true, 'not_run', 'unknown_tool'],
      ['broken', expect.stringContaining('not valid JSON'), true, 'not_run', 'malformed_arguments'],
    ]);
    expect(outcomes.map((step) => step.index)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(outcomes.every((step) => step.turn === 4)).toBe(true);
  });

  it('say so when no tool is offered at all', async () => {
    expect((await run([call('x')], [])).texts).toEqual(['Error: unknown tool x; available: none']);
  });

  it('tell a call of a denied or blocked tool from one of a tool that is not there', async () => {
    const from = { connectorId: 'c' };
    const withheld: WithheldTool[] = [
      {
        ...from,
        tool: 'pay',
        offeredAs: 'pay',
        code: 'denied_by_policy',
        message: 'it is denied by tool_permissions[0]',
      },
      { ...from, tool: 'send', offeredAs: 'send', code: 'pin_changed', message: 'it is blocked until it is approved' },
    ];
    const { outcomes } = await run([call('pay'), call('send'), call('nope')], [fakeTool('ok')], { withheld });
    expect(outcomes.map(({ text, outcome, cause }) => [text, outcome, cause])).toEqual([
      [
        "Error: the tool pay was not called: it is denied by the agent's permissions. Go on without it.",
        'not_run',
        'denied',
      ],
      ['Error: the tool send was not called: it is blocked until it is approved', 'not_run', 'needs_approval'],
      ['Error: unknown tool nope; available: ok', 'not_run', 'unknown_tool'],
    ]);
  });

  it('name the parse error and the schema of broken arguments', async () => {
    const echo = fakeTool('echo', { schema: ECHO_SCHEMA });
    const { texts } = await run([call('echo', '{"text": 7'), call('echo', '[1]')], [echo]);
    expect(texts[0]).toMatch(
      /^Error: the arguments of echo are not valid JSON: .+\. Nothing was run; send the call again with a JSON object of this schema: \{"type":"object","properties":\{"text":\{"type":"string"\}\},"required":\["text"\]\}$/,
    );
    expect(texts[1]).toContain('the arguments of echo are not a JSON object. Nothing was run');
    expect(echo.ran).toEqual([]);
  });

  it('say what does not fit the schema', async () => {
    const echo = fakeTool('echo', { schema: ECHO_SCHEMA });
    const { outcomes } = await run([call('echo', '{"text":7}')], [echo]);
    expect(outcomes[0]).toMatchObject({
      outcome: 'not_run',
      cause: 'invalid_arguments',
      repeatable: true,
      isError: true,
    });
    expect(outcomes[0]?.text).toContain(
      'the arguments of echo do not fit the schema: /text must be string. Nothing was run',
    );
    expect(echo.ran).toEqual([]);
  });

  it('cut a long schema in what the model is told', async () => {
    const schema = { type: 'object', properties: {}, description: 'd'.repeat(5000) };
    const { texts } = await run([call('echo', '{')], [fakeTool('echo', { schema })]);
    expect(texts[0]).toMatch(/d\n\[cut: 4000 of \d+ characters\]$/);
  });

  it('keep the digits of arguments', async () => {
    const get = fakeTool('get');
    const { steps } = await run([call('get', '{"id":2512292042121000001}')], [get]);
    expect(get.ran).toEqual(['{"id":2512292042121000001}']);
    expect(steps[0]).toMatchObject({ kind: 'tool_intent', argumentsText: '{"id":2512292042121000001}' });
  });

  it('record the intent before the call leaves and the outcome after', async () => {
    const order: string[] = [];
    const run1 = async () => {
      order.push('left');
      return { text: '', isError: false, outcome: 'ok' } as const;
    };
    const record = async (step: { kind: string }): Promise<void> => {
      await sleep(2);
      order.push(step.kind);
    };
    const { context } = await run([call('a')], [fakeTool('a', { run: run1 })], { record });
    expect(order).toEqual(['tool_intent', 'left', 'tool_outcome']);
    expect(context.runId).toBe('run');
  });

  it('carry whether they may be repeated, and where they go', async () => {
    const source = { connectorId: 'c', tool: 'get.it' };
    const { steps } = await run([call('get')], [fakeTool('get', { repeatable: true, source })]);
    expect(steps).toEqual([
      {
        kind: 'tool_intent',
        turn: 4,
        index: 0,
        callId: 'id-get',
        offeredName: 'get',
        connectorId: 'c',
        serverTool: 'get.it',
        argumentsText: '{}',
        repeatable: true,
      },
      {
        kind: 'tool_outcome',
        turn: 4,
        index: 0,
        callId: 'id-get',
        offeredName: 'get',
        text: 'get got {}',
        isError: false,
        outcome: 'ok',
        repeatable: true,
      },
    ]);
    const plain = await run([call('own')], [fakeTool('own')]);
    expect(plain.steps[0]).not.toHaveProperty('connectorId');
  });

  it('run side by side up to the bound, one after another when told so', async () => {
    async function peak(concurrency: number): Promise<number> {
      let running = 0;
      let most = 0;
      const slow = fakeTool('slow', {
        run: async () => {
          running += 1;
          most = Math.max(most, running);
          await sleep(10);
          running -= 1;
          return { text: '', isError: false, outcome: 'ok' };
        },
      });
      const calls = Array.from({ length: 7 }, (_, index) => call('slow', '{}', `c${index}`));
      const { outcomes } = await run(calls, [slow], { concurrency });
      expect(outcomes).toHaveLength(7);
      return most;
    }
    expect(await peak(3)).toBe(3);
    expect(await peak(1)).toBe(1);
    expect(await peak(0)).toBe(1);
    expect(await peak(50)).toBe(7);
  });

  it('begun after the caller went away are not run', async () => {
    const controller = new AbortController();
    const first = fakeTool('first', {
      run: async (_text, { signal }) => {
        controller.abort(new Error('gone'));
        return { text: String(signal.aborted), isError: false, outcome: 'ok' };
      },
    });
    const { outcomes } = await run([call('first'), call('first', '{}', 'second')], [first], {
      concurrency: 1,
      signal: controller.signal,
    });
    expect(outcomes.map(({ text, outcome, cause }) => [text, outcome, cause])).toEqual([
      ['true', 'ok', undefined],
      ['Error: not run, the request was cancelled', 'not_run', 'aborted'],
    ]);
    expect(first.ran).toHaveLength(1);
  });

  it('that cannot be recorded end the turn, once those under way have ended', async () => {
    const ended: string[] = [];
    const slow = fakeTool('slow', {
      run: async () => {
        await sleep(20);
        ended.push('slow');
        return { text: '', isError: false, outcome: 'ok' };
      },
    });
    const fast = fakeTool('fast');
    const full = new Error('disk full');
    const record = async (step: CallStep): Promise<void> => {
      if (step.kind === 'tool_intent' && step.offeredName === 'fast') throw full;
    };
    const calls = [call('slow'), call('fast'), call('slow', '{}', 'never')];
    const { error } = await run(calls, [slow, fast], { record, concurrency: 2 });
    expect(error).toBe(full);
    expect(ended).toEqual(['slow']);
    expect(fast.ran).toEqual([]);
  });
});

describe('results', () => {
  const text = async (value: string, resultLimit: number, isError = false) => {
    const tool = fakeTool('t', { run: async () => ({ text: value, isError, outcome: isError ? 'error' : 'ok' }) });
    return (await run([call('t')], [tool], { resultLimit })).texts[0];
  };

  it('are cut at the limit with a visible mark', async () => {
    expect(await text('x'.repeat(10), 10)).toBe('x'.repeat(10));
    expect(await text('x'.repeat(11), 10)).toBe(`${'x'.repeat(10)}\n[cut: 10 of 11 characters]`);
  });

  it('are not cut inside a character, and hold no lone surrogate', async () => {
    expect(await text('ab🦉cd', 3)).toBe('ab\n[cut: 2 of 6 characters]');
    expect(await text('ab🦉cd', 4)).toBe('ab🦉\n[cut: 4 of 6 characters]');
    expect(await text('a\udc00b', 10)).toBe('a\ufffdb');
  });

  it('that are errors are marked once', async () => {
    expect(await text('no such city', 100, true)).toBe('Error: no such city');
    expect(await text('Error: no such city', 100, true)).toBe('Error: no such city');
    expect(await text('error 7', 100, true)).toBe('error 7');
    expect(await text('errors happen', 100, true)).toBe('Error: errors happen');
    expect(await text('An error', 100, true)).toBe('Error: An error');
    expect(await text('fine', 100)).toBe('fine');
  });
});
