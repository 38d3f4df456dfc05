import { describe, expect, it } from 'vitest';
import { driveRun } from '../../src/agents/loop.ts';
import { UpstreamError } from '../../src/errors.ts';
import type { ModelRequest } from '../../src/llm/types.ts';
import type { RunStep } from '../../src/runs/steps.ts';
import { answer, answered, call, ECHO_SCHEMA, fakeTool, play } from './fixtures.ts';

const toolTexts = (request: ModelRequest | undefined): string[] =>
  (request?.interactions ?? []).flatMap((message) => (message.role === 'tool' ? [message.text] : []));

describe('a run', () => {
  it('answers without tools', async () => {
    const { final, steps, events, model } = await play(['hello']);
    expect(final).toEqual({ kind: 'final_answer', text: 'hello', reason: 'answered' });
    expect(steps).toEqual([answered('hello'), final]);
    expect(events).toEqual([
      { type: 'text', turn: 0, delta: 'hello' },
      { type: 'answer', turn: 0, text: 'hello', toolCalls: [], stopReason: 'stop' },
      { type: 'final', text: 'hello', reason: 'answered' },
    ]);
    expect(model.requests).toHaveLength(1);
  });

  it('shows what it asks a person, and what they say', async () => {
    const people = { open: async () => undefined, answered: async () => ({ action: 'approve' }) as const };
    const pay = fakeTool('pay', { permission: 'ask' });
    const { steps, events, final } = await play([{ calls: [call('pay')] }, 'done'], [pay], { people });
    expect(final?.text).toBe('done');
    expect(steps.map(({ kind }) => kind).slice(1, 5)).toEqual([
      'request',
      'request_answer',
      'tool_intent',
      'tool_outcome',
    ]);
    expect(events.slice(1, 5)).toEqual([
      { type: 'request', request: steps[1] },
      { type: 'request_answer', answer: steps[2] },
      { type: 'tool_call', call: steps[3] },
      { type: 'tool_result', result: steps[4] },
    ]);
  });

  it('calls a tool and gives its result back to the model', async () => {
    const echo = fakeTool('echo', { schema: ECHO_SCHEMA, source: { connectorId: 'c1', tool: 'server.echo' } });
    const made = call('echo', '{"text":"x"}');
    const { final, steps, events, model } = await play([{ calls: [made], text: 'let me see' }, 'done'], [echo]);
    expect(final?.text).toBe('done');
    expect(echo.ran).toEqual(['{"text":"x"}']);
    const place = { turn: 0, index: 0, callId: 'id-echo', offeredName: 'echo', repeatable: false };
    expect(steps).toEqual([
      answered('let me see', [made]),
      { kind: 'tool_intent', ...place, connectorId: 'c1', serverTool: 'server.echo', argumentsText: '{"text":"x"}' },
      { kind: 'tool_outcome', ...place, text: 'echo got {"text":"x"}', isError: false, outcome: 'ok' },
      answered('done'),
      { kind: 'final_answer', text: 'done', reason: 'answered' },
    ]);
    expect(events.map((event) => event.type)).toEqual([
      'text',
      'answer',
      'tool_call',
      'tool_result',
      'text',
      'answer',
      'final',
    ]);
    expect(events[2]).toEqual({ type: 'tool_call', call: steps[1] });
    expect(events[3]).toEqual({ type: 'tool_result', result: steps[2] });
    expect(events[4]).toEqual({ type: 'text', turn: 1, delta: 'done' });
    expect(model.requests[0]?.interactions).toEqual([]);
    expect(model.requests[1]?.interactions).toEqual([
      { role: 'assistant', text: 'let me see', toolCalls: [made] },
      { role: 'tool', toolCallId: 'id-echo', name: 'echo', text: 'echo got {"text":"x"}', isError: false },
    ]);
    expect(model.requests[0]?.tools.map((spec) => spec.name)).toEqual(['echo']);
  });

  it('reports the usage of each answer', async () => {
    const usage = { inputTokens: 5, outputTokens: 2, totalTokens: 7 };
    const { events } = await play([{ answer: { ...answer('hi'), usage } }]);
    expect(events).toContainEqual({ type: 'usage', turn: 0, usage });
  });

  it('commits each step before the next action begins', async () => {
    const order: string[] = [];
    const echo = fakeTool('echo', {
      run: async () => {
        order.push('ran');
        return { text: 'x', isError: false, outcome: 'ok' };
      },
    });
    const append = async (step: RunStep): Promise<void> => {
      await new Promise((resolve) => setImmediate(resolve));
      order.push(step.kind);
    };
    const ask = async () => {
      order.push('asked');
      return order.includes('ran') ? 'done' : { calls: [call('echo')] };
    };
    await play([ask], [echo], { append });
    expect(order).toEqual([
      'asked',
      'model_answer',
      'tool_intent',
      'ran',
      'tool_outcome',
      'asked',
      'model_answer',
      'final_answer',
    ]);
  });

  it('does not announce a step that could not be committed, and ends', async () => {
    const failed = new Error('disk full');
    const { error, events } = await play(['hello'], [], { append: () => Promise.reject(failed) });
    expect(error).toBe(failed);
    expect(events.map((event) => event.type)).toEqual(['text']);
  });

  it('goes on from recorded steps', async () => {
    const echo = fakeTool('echo');
    const recorded: RunStep[] = [
      answered('', [call('echo', '{}', 'c1'), call('echo', '{}', 'c2')]),
      {
        kind: 'tool_intent',
        turn: 0,
        index: 0,
        callId: 'c1',
        offeredName: 'echo',
        argumentsText: '{}',
        repeatable: false,
      },
    ];
    const { final, steps, model, events } = await play(['done'], [echo], { recorded });
    expect(final?.text).toBe('done');
    expect(echo.ran).toEqual(['{}']);
    expect(steps[0]).toEqual({
      kind: 'tool_outcome',
      turn: 0,
      index: 0,
      callId: 'c1',
      offeredName: 'echo',
      text: 'Error: the outcome is unknown. The platform stopped while this call was under way; it may have been carried out and was not repeated.',
      isError: true,
      outcome: 'unknown',
      repeatable: false,
    });
    expect(toolTexts(model.requests[0])).toEqual([expect.stringContaining('outcome is unknown'), 'echo got {}']);
    expect(events).toContainEqual({ type: 'text', turn: 1, delta: 'done' });
  });

  it('returns a recorded final answer without doing anything', async () => {
    const final = { kind: 'final_answer', text: 'bye', reason: 'answered' } as const;
    const aborted = AbortSignal.abort(new Error('too late'));
    const played = await play(['never'], [], { recorded: [answered('bye'), final], signal: aborted });
    expect(played.final).toEqual(final);
    expect(played.model.requests).toHaveLength(0);
    expect(played.steps).toEqual([]);
  });
});

describe('a run whose model fails', () => {
  it('ends with the error of the model and keeps the steps', async () => {
    const failed = new UpstreamError({
      code: 'server_error',
      destination: 'model m',
      message: 'model m answered 503: overloaded',
      statusCode: 503,
    });
    const { error, steps } = await play([{ calls: [call('echo')] }, { error: failed }], [fakeTool('echo')]);
    expect(error).toBe(failed);
    expect(steps.map((step) => step.kind)).toEqual(['model_answer', 'tool_intent', 'tool_outcome']);
  });

  it.each([
    ['content_filter', 'The provider filtered the answer: change the question or the prompt.'],
    ['refusal', 'The model refused to answer: change the question or the prompt.'],
    ['length', 'Raise the token limit of the model (max_tokens or max_completion_tokens).'],
    ['stop', 'Ask again, or use another model.'],
    ['tool_calls', 'Ask again, or use another model.'],
    ['other', 'Ask again, or use another model.'],
  ] as const)('names finish_reason %s of an empty answer', async (stopReason, remedy) => {
    const { error } = await play([{ answer: answer('', [], stopReason) }]);
    expect(error).toBeInstanceOf(UpstreamError);
    expect(error).toMatchObject({
      code: 'invalid_response',
      statusCode: 502,
      destination: 'model',
      remedy,
      message: `The model gave an empty answer (finish_reason ${stopReason}). ${remedy}`,
    });
  });

  it('does not take the end of a stream for an answer', async () => {
    const run = driveRun([], {
      limits: { maxIterations: 1, maxFaultyAnswers: 3 },
      signal: new AbortController().signal,
      append: async () => undefined,
      emit: () => undefined,
      runCalls: async () => undefined,
      model: async () =>
        (async function* () {
          yield { type: 'text', delta: 'half' } as const;
        })(),
    });
    await expect(run).rejects.toMatchObject({
      message: 'The model stopped without giving an answer.',
      statusCode: 502,
      remedy: undefined,
    });
  });

  it('stops when the caller goes away, with his reason', async () => {
    const controller = new AbortController();
    const gone = new Error('client gone');
    const echo = fakeTool('echo', {
      run: async () => {
        controller.abort(gone);
        return { text: 'late', isError: false, outcome: 'ok' };
      },
    });
    const { error, model, steps } = await play([{ calls: [call('echo')] }, 'never'], [echo], {
      signal: controller.signal,
    });
    expect(error).toBe(gone);
    expect(model.requests).toHaveLength(1);
    expect(steps.map((step) => step.kind)).toEqual(['model_answer', 'tool_intent', 'tool_outcome']);
  });
});

describe('calls the model got wrong', () => {
  it('an answer cut off by the token limit runs none of its calls', async () => {
    const write = fakeTool('write');
    const cutOff = {
      calls: [call('write', '{"path":"/a"}', 'c1'), call('write', '{}', 'c2')],
      stopReason: 'length',
    } as const;
    const { final, model, steps } = await play([cutOff, 'done'], [write]);
    expect(final?.text).toBe('done');
    expect(write.ran).toEqual([]);
    const text =
      'Error: this call was cut off, send again. The answer ended before it was complete, so nothing of it was run; keep the next one shorter.';
    expect(toolTexts(model.requests[1])).toEqual([text, text]);
    expect(steps[2]).toEqual({
      kind: 'tool_outcome',
      turn: 0,
      index: 1,
      callId: 'c2',
      offeredName: 'write',
      text,
      isError: true,
      outcome: 'not_run',
      cause: 'cut_off',
      repeatable: true,
    });
  });

  it('three answers cut off in a row end the run', async () => {
    const cutOff = { calls: [call('write')], stopReason: 'length' } as const;
    const { error, model } = await play([cutOff], [fakeTool('write')]);
    expect(model.requests).toHaveLength(3);
    expect(error).toMatchObject({
      statusCode: 502,
      message:
        "The model's answers were cut off again and again while it was calling tools (finish_reason length); no cut-off call was run. Raise the token limit of the model (max_tokens or max_completion_tokens).",
    });
  });

  it('three answers with broken arguments in a row end the run', async () => {
    const { error, model } = await play([{ calls: [call('echo', '{"text"')] }], [fakeTool('echo')]);
    expect(model.requests).toHaveLength(3);
    expect(error).toMatchObject({
      statusCode: 502,
      message:
        'The model called tools with arguments that are not JSON again and again; none of these calls was run. Use a model that is better at calling tools, or offer it fewer tools with tool_filters.',
    });
  });

  it('empty, blank and null arguments mean no arguments', async () => {
    const now = fakeTool('now');
    const calls = [call('now', '', '1'), call('now', '  ', '2'), call('now', 'null', '3')];
    const { final } = await play([{ calls }, 'done'], [now]);
    expect(final?.text).toBe('done');
    expect(now.ran).toEqual(['{}', '{}', '{}']);
  });
});

describe('the limit of model calls', () => {
  const always = { calls: [call('echo', '{"text":"x"}')] };
  const start = (limit: number): string =>
    `Agent reached maximum iterations (${limit}) without completing the task. Here's a summary of the steps completed so far:\n\n`;

  it('ends with a summary by the model, made without tools', async () => {
    const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };
    const script = [always, always, always, { answer: { ...answer('I echoed x\ud83e three times.'), usage } }];
    const { final, model, events, steps } = await play(script, [fakeTool('echo')], { limits: { maxIterations: 3 } });
    expect(final).toEqual({
      kind: 'final_answer',
      text: `${start(3)}I echoed x\ufffd three times.`,
      reason: 'iteration_limit',
      usage,
    });
    expect(model.requests).toHaveLength(4);
    expect(model.requests[3]?.tools).toEqual([]);
    expect(model.requests[3]?.interactions.at(-1)).toEqual({
      role: 'user',
      text: 'You have reached the limit of steps for this task and can call no more tools. Summarise in a few sentences what was done so far, what was found, and what is still missing.',
    });
    expect(model.requests[3]?.interactions).toHaveLength(7);
    expect(steps.at(-1)).toEqual(final);
    expect(events.slice(-2)).toEqual([
      { type: 'usage', turn: 3, usage },
      { type: 'final', text: final?.text, reason: 'iteration_limit' },
    ]);
    expect(events.filter((event) => event.type === 'text')).toEqual([]);
  });

  it('ends with a list of the steps when the model cannot summarise', async () => {
    const listed = `${start(1)}1. Looking.\n2. echo({"text":"x"}): echo got {"text":"x"}`;
    const first = { ...always, text: 'Looking.' };
    for (const second of [{ error: new Error('down') }, { answer: answer(' ') }, always]) {
      const { final } = await play([first, second], [fakeTool('echo')], { limits: { maxIterations: 1 } });
      expect(final).toEqual({ kind: 'final_answer', text: listed, reason: 'iteration_limit' });
    }
  });

  it('shortens what it lists', async () => {
    const long = fakeTool('echo', {
      run: async () => ({ text: `a\n b${'y'.repeat(600)}`, isError: false, outcome: 'ok' }),
    });
    const { final } = await play([always, { error: new Error('down') }], [long], { limits: { maxIterations: 1 } });
    expect(final?.text).toBe(`${start(1)}1. echo({"text":"x"}): a b${'y'.repeat(497)}…`);
  });

  it('does not summarise for a caller who went away', async () => {
    const controller = new AbortController();
    const gone = new Error('client gone');
    const leave = async () => {
      controller.abort(gone);
      return { error: gone };
    };
    const { error, steps } = await play([always, leave], [fakeTool('echo')], {
      limits: { maxIterations: 1 },
      signal: controller.signal,
    });
    expect(error).toBe(gone);
    expect(steps.at(-1)?.kind).toBe('tool_outcome');
  });
});
