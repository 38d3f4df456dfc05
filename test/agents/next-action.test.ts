import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { refusal } from '../../src/agents/call-outcomes.ts';
import { interactionsOf, nextAction, recordableAnswer } from '../../src/agents/next-action.ts';
import type { NotRunCause, RequestStep, RunStep, ToolIntentStep, ToolOutcomeStep } from '../../src/runs/steps.ts';
import { answer, answered, call, LIMITS } from './fixtures.ts';

function intent(turn: number, index: number, repeatable = false): ToolIntentStep {
  return { kind: 'tool_intent', turn, index, callId: 'c', offeredName: 'echo', argumentsText: '{}', repeatable };
}

function outcome(turn: number, index: number, text = 'done', cause?: NotRunCause): ToolOutcomeStep {
  const place = { kind: 'tool_outcome', turn, index, callId: 'c', offeredName: 'echo', repeatable: false } as const;
  return cause
    ? { ...place, text, isError: true, outcome: 'not_run', cause }
    : { ...place, text, isError: false, outcome: 'ok' };
}

const next = (steps: RunStep[], limits = LIMITS) => nextAction(steps, limits);

describe('nextAction', () => {
  it('asks the model first', () => {
    expect(next([])).toEqual({ type: 'call_model' });
  });

  it('answers with a text that calls no tool', () => {
    expect(next([answered('hello')])).toEqual({ type: 'answer', text: 'hello' });
    expect(next([answered('half', [], 'length')])).toEqual({ type: 'answer', text: 'half' });
  });

  it.each(['', ' \n'])('fails on an answer of nothing: %j', (text) => {
    expect(next([answered(text, [], 'content_filter')])).toEqual({
      type: 'fail',
      reason: 'empty_answer',
      stopReason: 'content_filter',
    });
  });

  it('runs the calls that have no outcome, in source order', () => {
    const steps = [answered('', [call('a'), call('b'), call('c')]), outcome(0, 1)];
    expect(next(steps)).toEqual({
      type: 'run_calls',
      turn: 0,
      calls: [
        { call: call('a'), index: 0 },
        { call: call('c'), index: 2 },
      ],
    });
  });

  it('looks at the newest answer only', () => {
    const steps = [answered('', [call('a')]), outcome(0, 0), answered('', [call('b')])];
    expect(next(steps)).toEqual({ type: 'run_calls', turn: 1, calls: [{ call: call('b'), index: 0 }] });
  });

  it.each(['length', 'content_filter'] as const)('runs no call of an answer that ended with %s', (stopReason) => {
    const action = next([answered('', [call('a'), call('b')], stopReason), outcome(0, 0)]);
    expect(action).toEqual({ type: 'refuse_cut_off', turn: 0, calls: [{ call: call('b'), index: 1 }] });
  });

  it('runs calls beside any other stop reason', () => {
    for (const stopReason of ['stop', 'tool_calls', 'refusal', 'other'] as const) {
      expect(next([answered('', [call('a')], stopReason)]).type).toBe('run_calls');
    }
  });

  it('settles a begun call that may not be repeated before it runs the others', () => {
    const steps = [answered('', [call('a'), call('b')]), intent(0, 0)];
    const lost = next(steps);
    expect(lost).toEqual({
      type: 'settle_lost',
      turn: 0,
      calls: [{ call: call('a'), index: 0, intent: intent(0, 0) }],
    });
    expect(next([...steps, outcome(0, 0)])).toEqual({
      type: 'run_calls',
      turn: 0,
      calls: [{ call: call('b'), index: 1 }],
    });
  });

  it('runs a begun call again when it may be repeated', () => {
    const begun = intent(0, 0, true);
    expect(next([answered('', [call('a')]), begun])).toEqual({
      type: 'run_calls',
      turn: 0,
      calls: [{ call: call('a'), index: 0, intent: begun }],
    });
  });

  describe('with calls that wait for a person', () => {
    const place = { turn: 0, index: 0, callId: 'c' } as const;
    const ask = (requestKind: 'approval' | 'elicitation', resumable: boolean, requestId = 'r'): RequestStep => ({
      kind: 'request',
      ...place,
      requestId,
      requestKind,
      resumable,
      ...(resumable && requestKind === 'elicitation' ? { paused: { questions: {}, round: 1 } } : {}),
    });
    const given: RunStep = { kind: 'request_answer', ...place, requestId: 'r', action: 'accept' };
    const begun = (...steps: RunStep[]) => next([answered('', [call('a')]), ...steps]);

    it('goes on with an approval that was asked for, answered or not', () => {
      expect(begun(ask('approval', true)).type).toBe('run_calls');
      expect(begun(ask('approval', true), { ...given, action: 'approve' }).type).toBe('run_calls');
    });

    it('goes on with a call whose server asked and lets it rest', () => {
      expect(begun(intent(0, 0), ask('elicitation', true)).type).toBe('run_calls');
      expect(begun(intent(0, 0), ask('elicitation', true), given).type).toBe('run_calls');
    });

    it('settles a call that was sent again after the answer', () => {
      expect(begun(intent(0, 0), ask('elicitation', true), given, intent(0, 0)).type).toBe('settle_lost');
      expect(begun(ask('approval', true), { ...given, action: 'approve' }, intent(0, 0)).type).toBe('settle_lost');
    });

    it('settles a call that was under way while its server asked, unless it may be repeated', () => {
      expect(begun(intent(0, 0), ask('elicitation', false), given).type).toBe('settle_lost');
      expect(begun(intent(0, 0, true), ask('elicitation', false)).type).toBe('run_calls');
    });

    it('hands on what was asked and answered', () => {
      const [first, second] = [ask('elicitation', true), { ...ask('elicitation', true, 's'), paused: undefined }];
      const { paused: _none, ...other } = second;
      const approval = ask('approval', true, 'p');
      const approved: RunStep = { kind: 'request_answer', ...place, requestId: 'p', action: 'approve' };
      const late: RunStep = { ...given, action: 'decline' };
      const action = begun(approval, approved, intent(0, 0), first, other, given, late);
      expect(action).toMatchObject({
        calls: [
          {
            approval: { request: approval, answer: approved },
            round: { paused: first.paused, asked: [{ request: first, answer: given }, { request: other }] },
          },
        ],
      });
    });
  });

  it('asks the model again when every call is answered', () => {
    expect(next([answered('', [call('a')]), intent(0, 0), outcome(0, 0)])).toEqual({ type: 'call_model' });
  });

  it('stops when the model calls are used up, not one earlier', () => {
    const turn = (index: number): RunStep[] => [answered('', [call('a')]), outcome(index, 0)];
    const limits = { ...LIMITS, maxIterations: 2 };
    expect(next(turn(0), limits)).toEqual({ type: 'call_model' });
    expect(next([...turn(0), ...turn(1)], limits)).toEqual({ type: 'summarise' });
    expect(next([...turn(0), answered('done')], limits)).toEqual({ type: 'answer', text: 'done' });
  });

  it.each(['cut_off', 'malformed_arguments'] as const)('gives up after three answers in a row that are %s', (cause) => {
    const bad = (turn: number): RunStep[] => [
      answered('', [call('a'), call('b')], 'length'),
      outcome(turn, 0, 'x', cause),
      outcome(turn, 1, 'x', cause),
    ];
    const good = (turn: number): RunStep[] => [answered('', [call('a')]), outcome(turn, 0)];
    expect(next([...bad(0), ...bad(1)])).toEqual({ type: 'call_model' });
    expect(next([...bad(0), ...bad(1), ...bad(2)])).toEqual({ type: 'fail', reason: cause, stopReason: 'length' });
    expect(next([...good(0), ...bad(1), ...bad(2), ...bad(3)]).type).toBe('fail');
    expect(next([...bad(0), ...bad(1), ...good(2)])).toEqual({ type: 'call_model' });
    expect(next([...bad(0), ...good(1), ...bad(2)])).toEqual({ type: 'call_model' });
  });

  it('goes on when one call of a faulty answer could be run, and when faults differ', () => {
    const half = (turn: number): RunStep[] => [
      answered('', [call('a'), call('b')]),
      outcome(turn, 0, 'x', 'malformed_arguments'),
      outcome(turn, 1),
    ];
    expect(next([...half(0), ...half(1), ...half(2)])).toEqual({ type: 'call_model' });
    const mixed: RunStep[] = [
      answered('', [call('a')]),
      outcome(0, 0, 'x', 'cut_off'),
      answered('', [call('a')]),
      outcome(1, 0, 'x', 'malformed_arguments'),
      answered('', [call('a')]),
      outcome(2, 0, 'x', 'cut_off'),
    ];
    expect(next(mixed)).toEqual({ type: 'call_model' });
  });

  it('does not count unknown tools and unfit arguments as faults that end the run', () => {
    for (const cause of ['unknown_tool', 'invalid_arguments'] as const) {
      const steps = [0, 1, 2].flatMap((turn) => [answered('', [call('a')]), outcome(turn, 0, 'x', cause)]);
      expect(next(steps)).toEqual({ type: 'call_model' });
    }
  });

  it('is done with the first final answer', () => {
    const final = { kind: 'final_answer', text: 'bye', reason: 'answered' } as const;
    expect(next([answered('bye'), final, { ...final, text: 'later' }])).toEqual({ type: 'done', final });
  });

  it('needs at most one pass over any run, and answers every call once and in order', () => {
    const world = fc.array(
      fc.record({
        calls: fc.array(fc.constantFrom('echo', 'boom', 'gone'), { maxLength: 5 }),
        stopReason: fc.constantFrom('tool_calls', 'length', 'stop') as fc.Arbitrary<'tool_calls' | 'length' | 'stop'>,
        text: fc.constantFrom('', 'text'),
        endings: fc.array(fc.nat(99), { minLength: 5, maxLength: 5 }),
      }),
      { minLength: 1, maxLength: 6 },
    );
    fc.assert(
      fc.property(world, fc.integer({ min: 1, max: 5 }), (answers, maxIterations) => {
        const steps: RunStep[] = [];
        let asked = 0;
        for (let pass = 0; pass < 100; pass += 1) {
          const action = nextAction(steps, { maxIterations, maxFaultyAnswers: 3 });
          expect(nextAction([...steps], { maxIterations, maxFaultyAnswers: 3 })).toEqual(action);
          if (action.type === 'done' || action.type === 'fail') break;
          if (action.type === 'answer') steps.push({ kind: 'final_answer', text: action.text, reason: 'answered' });
          else if (action.type === 'summarise')
            steps.push({ kind: 'final_answer', text: 's', reason: 'iteration_limit' });
          else if (action.type === 'call_model') {
            const given = answers[asked % answers.length];
            asked += 1;
            const calls = (given?.calls ?? []).map((name, index) => call(name, '{}', `${asked}-${index}`));
            steps.push(recordableAnswer(answer(given?.text ?? '', calls, given?.stopReason), steps));
          } else if (action.type === 'run_calls') {
            const endings = answers[(asked - 1) % answers.length]?.endings ?? [];
            const shuffled = [...action.calls].sort((a, b) => (endings[a.index] ?? 0) - (endings[b.index] ?? 0));
            for (const { index, call: made } of shuffled) {
              steps.push({ ...intent(action.turn, index), callId: made.id });
              steps.push({ ...outcome(action.turn, index, `result of ${made.id}`), callId: made.id });
            }
          } else {
            for (const { index, call: made } of action.calls)
              steps.push(refusal(action.turn, index, made, 'cut_off', 'cut'));
          }
        }
        expect(asked).toBeLessThanOrEqual(maxIterations);
        const last = nextAction(steps, { maxIterations, maxFaultyAnswers: 3 });
        expect(['done', 'fail']).toContain(last.type);
        const messages = interactionsOf(steps);
        for (const [at, message] of messages.entries()) {
          if (message.role !== 'assistant') continue;
          const tools = messages.slice(at + 1, at + 1 + message.toolCalls.length);
          expect(tools.map((tool) => (tool.role === 'tool' ? tool.toolCallId : tool.role))).toEqual(
            message.toolCalls.map((made) => made.id),
          );
          const following = messages[at + 1 + message.toolCalls.length];
          expect(following?.role ?? 'assistant').toBe('assistant');
        }
      }),
      { numRuns: 300 },
    );
  });
});

describe('interactionsOf', () => {
  it('puts the results behind their answer in source order, whatever order they ended in', () => {
    const steps = [
      answered('thinking', [call('a'), call('b')]),
      outcome(0, 1, 'second'),
      outcome(0, 0, 'first'),
      outcome(0, 0, 'never'),
      outcome(7, 0, 'of nobody'),
      answered('', [call('c')]),
    ];
    expect(interactionsOf(steps)).toEqual([
      { role: 'assistant', text: 'thinking', toolCalls: [call('a'), call('b')] },
      { role: 'tool', toolCallId: 'id-a', name: 'a', text: 'first', isError: false },
      { role: 'tool', toolCallId: 'id-b', name: 'b', text: 'second', isError: false },
      { role: 'assistant', text: '', toolCalls: [call('c')] },
      { role: 'tool', toolCallId: 'id-c', name: 'c', text: 'Error: this call has no outcome yet', isError: true },
    ]);
  });

  it('marks results that are errors', () => {
    const [, message] = interactionsOf([answered('', [call('a')]), outcome(0, 0, 'bad', 'cut_off')]);
    expect(message).toMatchObject({ role: 'tool', text: 'bad', isError: true });
  });
});

describe('recordableAnswer', () => {
  const record = (calls: Parameters<typeof answer>[1], steps: RunStep[] = []) =>
    recordableAnswer(answer('', calls), steps).toolCalls;

  it.each(['', '  ', 'null', ' null\n'])('reads arguments %j as none', (text) => {
    expect(record([call('now', text)])).toEqual([call('now', '{}')]);
  });

  it('leaves the text of arguments alone', () => {
    const text = ' {"id":2512292042121000001, "n": null} ';
    expect(record([call('get', text)])).toEqual([call('get', text)]);
  });

  it('gives calls without an id one, and repeated ids a suffix', () => {
    const earlier = answered('', [call('a', '{}', 'x')]);
    const calls = [
      call('a', '{}', 'x'),
      call('a', '{}', ''),
      call('a', '{}', 'y'),
      call('a', '{}', 'y'),
      call('a', '{}', ' '),
    ];
    const ids = record(calls, [earlier]).map((made) => made.id);
    expect(ids).toEqual(['x_2_1', 'call_2_2', 'y', 'y_2_4', 'call_2_5']);
    expect(
      record([call('a', '{}', 'z_1_2'), call('a', '{}', 'z'), call('a', '{}', 'z')]).map((made) => made.id),
    ).toEqual(['z_1_2', 'z', 'z_1_3']);
  });

  it('makes names legal', () => {
    const names = [' echo ', 'calendar.list', '', 'x'.repeat(70), '日程'].map((name) =>
      call(name, '{}', name || 'none'),
    );
    expect(record(names).map((made) => made.name)).toEqual(['echo', 'calendar_list', 'unnamed', 'x'.repeat(64), '__']);
  });

  it('replaces lone surrogates and keeps whole characters', () => {
    const step = recordableAnswer(answer('🦉\ud83e', [call('a', '{"t":"\ud83e🦉"}')]), []);
    expect(step.text).toBe('🦉\ufffd');
    expect(step.toolCalls[0]?.arguments).toBe('{"t":"\ufffd🦉"}');
  });

  it('keeps the usage when there is one', () => {
    const usage = { inputTokens: 1, outputTokens: 2, totalTokens: 3 };
    expect(recordableAnswer({ ...answer('x'), usage }, [])).toEqual({
      kind: 'model_answer',
      text: 'x',
      toolCalls: [],
      stopReason: 'stop',
      usage,
    });
    expect(recordableAnswer(answer('x'), [])).not.toHaveProperty('usage');
  });
});
