import { describe, expect, it } from 'vitest';
import type { CallRequest, People } from '../../src/agents/call-requests.ts';
import { RunSuspended } from '../../src/agents/suspension.ts';
import { runToolCalls, type ToolCallOptions } from '../../src/agents/tool-calls.ts';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import type { ToolCall } from '../../src/llm/types.ts';
import type { ByKey, PausedCall, QuestionAnswer } from '../../src/mcp/types.ts';
import type { GivenAnswer } from '../../src/runs/request-document.ts';
import { type CallStep, foldSteps, type RunCall } from '../../src/runs/steps.ts';
import { createArgumentChecker } from '../../src/tools/arguments.ts';
import type { Tool, ToolContext, ToolResult } from '../../src/tools/tool.ts';
import { answered, call, fakeTool } from './fixtures.ts';

/** People whose answers the test gives, by the place of the request in the order of asking. */
function fakePeople() {
  const asked: CallRequest[] = [];
  const answers = new Map<string, { resolve: (given: GivenAnswer) => void; given: Promise<GivenAnswer> }>();
  const arrivals = new Set<() => void>();
  const slot = (id: string) => {
    const known = answers.get(id);
    if (known) return known;
    let resolve = (_given: GivenAnswer): void => undefined;
    const given = new Promise<GivenAnswer>((done) => {
      resolve = done;
    });
    answers.set(id, { resolve, given });
    return { resolve, given };
  };
  const people: People = {
    async open(request) {
      if (asked.every(({ requestId }) => requestId !== request.requestId)) asked.push(request);
      for (const arrive of arrivals) arrive();
    },
    answered: (id, signal) =>
      new Promise((resolve, reject) => {
        if (signal.aborted) reject(signal.reason);
        signal.addEventListener('abort', () => reject(signal.reason));
        slot(id).given.then(resolve, reject);
      }),
  };
  return {
    people,
    asked,
    async waitFor(count: number): Promise<void> {
      while (asked.length < count) {
        await new Promise<void>((resolve) => {
          arrivals.add(resolve);
        });
      }
    },
    give: (at: number, given: GivenAnswer) => slot(asked[at]?.requestId ?? '').resolve(given),
  };
}

function start(
  calls: readonly (ToolCall | RunCall)[],
  tools: readonly Tool[],
  options: Partial<ToolCallOptions> & { signal?: AbortSignal } = {},
) {
  const steps: CallStep[] = [];
  const { signal = new AbortController().signal, ...more } = options;
  const ended = runToolCalls(
    0,
    calls.map((made, index) => ('call' in made ? made : { call: made, index })),
    {
      tools,
      checker: createArgumentChecker(),
      context: { principal: OPEN_PRINCIPAL, agentId: 'agent', runId: 'run', signal },
      concurrency: 8,
      resultLimit: 1000,
      record: async (step) => void steps.push(step),
      ...more,
    },
  );
  ended.catch(() => undefined);
  const outcomes = () => steps.filter((step) => step.kind === 'tool_outcome').sort((a, b) => a.index - b.index);
  return { ended, steps, outcomes, kinds: () => steps.map((step) => step.kind) };
}

/** The calls of one answer as they are after these steps. */
function callsAfter(made: readonly ToolCall[], steps: readonly CallStep[]): readonly RunCall[] {
  return foldSteps([answered('', [...made]), ...steps]).turns[0]?.calls ?? [];
}

const guarded = (name: string) =>
  fakeTool(name, { permission: 'ask', source: { connectorId: 'c1', tool: `the_${name}` } });

describe('a call that needs approval', () => {
  it('waits until a person approves it, and leaves then', async () => {
    const tool = guarded('pay');
    const { people, asked, waitFor, give } = fakePeople();
    const { ended, steps, kinds } = start([call('pay', '{"amount":5}')], [tool], { people });
    await waitFor(1);
    expect(tool.ran).toEqual([]);
    expect(kinds()).toEqual(['request']);
    expect(asked).toEqual([
      {
        requestId: expect.stringMatching(/^[0-9A-Za-z]{20}$/),
        kind: 'approval',
        offeredName: 'pay',
        tool: 'the_pay',
        connectorId: 'c1',
        arguments: '{"amount":5}',
      },
    ]);
    give(0, { action: 'approve' });
    await ended;
    const requestId = asked[0]?.requestId;
    const place = { turn: 0, index: 0, callId: 'id-pay' };
    expect(steps).toMatchObject([
      { kind: 'request', ...place, requestId, requestKind: 'approval', resumable: true },
      { kind: 'request_answer', ...place, requestId, action: 'approve' },
      { kind: 'tool_intent', ...place, argumentsText: '{"amount":5}' },
      { kind: 'tool_outcome', ...place, outcome: 'ok' },
    ]);
    expect(tool.ran).toEqual(['{"amount":5}']);
  });

  it.each<[GivenAnswer, string]>([
    [{ action: 'refuse' }, 'Error: not run: refused by a person. Do not call it again with the same arguments.'],
    [
      { action: 'refuse', expired: true },
      'Error: not run: nobody answered within 300 s. Do not call it again with the same arguments.',
    ],
  ])('is not run after %j, and the model is told', async (given, text) => {
    const tool = guarded('pay');
    const { people, waitFor, give } = fakePeople();
    const { ended, outcomes, kinds } = start([call('pay')], [tool], { people });
    await waitFor(1);
    give(0, given);
    await ended;
    expect(outcomes()).toMatchObject([{ text, isError: true, outcome: 'not_run', cause: 'refused' }]);
    expect(kinds()).toEqual(['request', 'request_answer', 'tool_outcome']);
    expect(tool.ran).toEqual([]);
  });

  it('is not run where nobody attends, and the model is told how it could be', async () => {
    const tool = guarded('pay');
    const { ended, outcomes, kinds } = start([call('pay')], [tool]);
    await ended;
    expect(outcomes()).toMatchObject([
      { outcome: 'not_run', cause: 'needs_approval', text: expect.stringContaining('?async=true') },
    ]);
    expect(kinds()).toEqual(['tool_outcome']);
    expect(tool.ran).toEqual([]);
  });

  it('is refused for its arguments before a person is asked', async () => {
    const { people, asked } = fakePeople();
    const { ended, outcomes } = start([call('pay', '{')], [guarded('pay')], { people });
    await ended;
    expect(outcomes()).toMatchObject([{ cause: 'malformed_arguments' }]);
    expect(asked).toEqual([]);
  });

  it('does not hold up others, which may wait beside it', async () => {
    const { people, waitFor, give } = fakePeople();
    const free = fakeTool('free');
    const calls = [call('pay', '{}', 'a'), call('pay', '{}', 'b'), call('free'), call('free', '{}', 'again')];
    const { ended, outcomes } = start(calls, [guarded('pay'), free], { people, concurrency: 2 });
    await waitFor(2);
    await expect.poll(() => outcomes().map(({ index }) => index)).toEqual([2, 3]);
    give(1, { action: 'approve' });
    await expect.poll(() => outcomes().length).toBe(3);
    give(0, { action: 'refuse' });
    await ended;
    expect(outcomes().map(({ outcome }) => outcome)).toEqual(['not_run', 'ok', 'ok', 'ok']);
  });

  it('is waited for by those behind it where calls run one after another', async () => {
    const { people, waitFor, give } = fakePeople();
    const free = fakeTool('free');
    const { ended } = start([call('pay'), call('free')], [guarded('pay'), free], { people, concurrency: 1 });
    await waitFor(1);
    expect(free.ran).toEqual([]);
    give(0, { action: 'refuse' });
    await ended;
    expect(free.ran).toEqual(['{}']);
  });

  it('is cancelled with its run', async () => {
    const { people, waitFor } = fakePeople();
    const stop = new AbortController();
    const { ended, outcomes } = start([call('pay')], [guarded('pay')], { people, signal: stop.signal });
    await waitFor(1);
    stop.abort(new Error('gone'));
    await ended;
    expect(outcomes()).toMatchObject([{ cause: 'aborted' }]);
  });

  it('stops waiting when nothing can be recorded any more', async () => {
    const { people, waitFor } = fakePeople();
    const full = new Error('disk full');
    const slow = fakeTool('slow', { permission: 'ask' });
    const record = async (step: CallStep): Promise<void> => {
      if (step.kind === 'tool_intent') throw full;
    };
    const { ended } = start([call('slow'), call('free')], [slow, fakeTool('free')], { people, record });
    await waitFor(1);
    await expect(ended).rejects.toBe(full);
  });
});

describe('a run that goes on', () => {
  const asking = { kind: 'request', turn: 0, index: 0, callId: 'id-pay', requestId: 'r1' } as const;
  const request: CallStep = { ...asking, requestKind: 'approval', resumable: true };

  it('waits for the request that was open, and asks no second time', async () => {
    const { people, asked, waitFor, give } = fakePeople();
    const tool = guarded('pay');
    const { ended, kinds } = start(callsAfter([call('pay')], [request]), [tool], { people });
    await waitFor(1);
    expect(asked.map(({ requestId }) => requestId)).toEqual(['r1']);
    give(0, { action: 'approve' });
    await ended;
    expect(kinds()).toEqual(['request_answer', 'tool_intent', 'tool_outcome']);
  });

  it.each([
    ['approve', ['tool_intent', 'tool_outcome']],
    ['refuse', ['tool_outcome']],
  ] as const)('obeys the answer that was recorded: %s', async (action, kinds) => {
    const { people, asked } = fakePeople();
    const given: CallStep = { ...asking, kind: 'request_answer', action };
    const run = start(callsAfter([call('pay')], [request, given]), [guarded('pay')], { people });
    await run.ended;
    expect(asked).toEqual([]);
    expect(run.kinds()).toEqual(kinds);
  });

  it('keeps to the person’s word when the tool has become free meanwhile', async () => {
    const { people } = fakePeople();
    const given: CallStep = { ...asking, kind: 'request_answer', action: 'refuse' };
    const tool = fakeTool('pay');
    await start(callsAfter([call('pay')], [request, given]), [tool], { people }).ended;
    expect(tool.ran).toEqual([]);
  });
});

const QUESTIONS = {
  name: { mode: 'form', message: 'Who?', schema: { type: 'object', properties: { name: { type: 'string' } } } },
  consent: { mode: 'url', message: 'Agree', url: 'https://example.test/agree' },
} as const;

/** A tool that asks, and answers with what it was told. */
function asker(paused: PausedCall | undefined, seen: ToolContext[] = []): Tool & { readonly ran: string[] } {
  return fakeTool('book', {
    async run(_arguments, context): Promise<ToolResult> {
      seen.push(context);
      const answers = context.resume?.answers ?? (await context.ask?.(QUESTIONS, paused)) ?? {};
      return { text: JSON.stringify(answers), isError: false, outcome: 'ok' };
    },
  });
}

describe('the questions of a server', () => {
  const paused: PausedCall = { questions: QUESTIONS, requestState: 'opaque', round: 1 };

  it('are put one by one, and answered in one go', async () => {
    const { people, asked, waitFor, give } = fakePeople();
    const { ended, steps, outcomes } = start([call('book')], [asker(paused)], { people });
    await waitFor(2);
    expect(asked.map(({ kind, question }) => [kind, question])).toEqual([
      ['elicitation', QUESTIONS.name],
      ['elicitation', QUESTIONS.consent],
    ]);
    give(1, { action: 'decline' });
    give(0, { action: 'accept', content: { name: 'Ann' } });
    await ended;
    expect(JSON.parse(outcomes()[0]?.text ?? '')).toEqual({
      name: { action: 'accept', content: { name: 'Ann' } },
      consent: { action: 'decline' },
    });
    expect(steps.map((step) => step.kind)).toEqual([
      'tool_intent',
      'request',
      'request',
      'request_answer',
      'request_answer',
      'tool_intent',
      'tool_outcome',
    ]);
    expect(steps.filter((step) => step.kind === 'request')).toMatchObject([
      { key: 'name', question: QUESTIONS.name, resumable: true, paused },
      { key: 'consent', question: QUESTIONS.consent, resumable: true },
    ]);
  });

  it('asked while the call is under way leave no second intent', async () => {
    const { people, waitFor, give } = fakePeople();
    const { ended, steps } = start([call('book')], [asker(undefined)], { people });
    await waitFor(2);
    give(0, { action: 'cancel', expired: true });
    give(1, { action: 'accept' });
    await ended;
    expect(steps.filter((step) => step.kind === 'tool_intent')).toHaveLength(1);
    expect(steps.filter((step) => step.kind === 'request')).toMatchObject([{ resumable: false }, { resumable: false }]);
    expect(steps.filter((step) => step.kind === 'request_answer')).toMatchObject([{ expired: true }, {}]);
  });

  it('cannot be asked where nobody attends the run', async () => {
    const seen: ToolContext[] = [];
    await start([call('book')], [asker(paused, seen)]).ended;
    expect(seen.map((context) => 'ask' in context)).toEqual([false]);
  });

  it('do not hold up other calls', async () => {
    const { people, waitFor, give } = fakePeople();
    const free = fakeTool('free');
    const calls = [call('book'), call('free'), call('free', '{}', 'again')];
    const { ended } = start(calls, [asker(paused), free], { people, concurrency: 2 });
    await waitFor(2);
    await expect.poll(() => free.ran.length).toBe(2);
    for (const at of [0, 1]) give(at, { action: 'decline' });
    await ended;
  });

  it('in a flood are declined without asking anybody', async () => {
    const { people, asked } = fakePeople();
    const many = Object.fromEntries(Array.from({ length: 21 }, (_, n) => [`q${n}`, QUESTIONS.name]));
    let answers: ByKey<QuestionAnswer> = {};
    const tool = fakeTool('book', {
      async run(_arguments, { ask }) {
        answers = (await ask?.(many, undefined)) ?? {};
        return { text: '', isError: false, outcome: 'ok' };
      },
    });
    await start([call('book')], [tool], { people }).ended;
    expect(asked).toEqual([]);
    expect(Object.values(answers)).toEqual(Array.from({ length: 21 }, () => ({ action: 'decline' })));
  });

  it('that were open when a process ended are waited for, and the call goes on from there', async () => {
    const place = { turn: 0, index: 0, callId: 'id-book' } as const;
    const intent: CallStep = {
      kind: 'tool_intent',
      ...place,
      offeredName: 'book',
      argumentsText: '{}',
      repeatable: false,
    };
    const put = { kind: 'request', ...place, requestKind: 'elicitation', resumable: true } as const;
    const recorded: CallStep[] = [
      intent,
      { ...put, requestId: 'r1', key: 'name', question: QUESTIONS.name, paused },
      { kind: 'request_answer', ...place, requestId: 'r1', action: 'accept', content: { name: 'Ann' } },
    ];
    const { people, asked, waitFor, give } = fakePeople();
    const seen: ToolContext[] = [];
    const run = start(callsAfter([call('book')], recorded), [asker(paused, seen)], { people });
    await waitFor(1);
    expect(asked.map(({ question }) => question)).toEqual([QUESTIONS.consent]);
    give(0, { action: 'cancel' });
    await run.ended;
    expect(seen[0]?.resume).toEqual({
      paused,
      answers: { name: { action: 'accept', content: { name: 'Ann' } }, consent: { action: 'cancel' } },
    });
    expect(run.kinds()).toEqual(['request', 'request_answer', 'tool_intent', 'tool_outcome']);
    const [added] = run.steps;
    expect(added).not.toHaveProperty('paused');
  });
});

describe('a run that is suspended', () => {
  const suspended = () => {
    const stop = new AbortController();
    const reason = new RunSuspended('the server stops');
    return { signal: stop.signal, reason, suspend: () => stop.abort(reason) };
  };

  it('leaves a call that waits as it is', async () => {
    const { people, waitFor } = fakePeople();
    const { signal, reason, suspend } = suspended();
    const { ended, kinds } = start([call('pay')], [guarded('pay')], { people, signal });
    await waitFor(1);
    suspend();
    await expect(ended).rejects.toBe(reason);
    expect(kinds()).toEqual(['request']);
  });

  it.each([
    ['is cut and may be repeated', true, 'error', ['tool_intent']],
    ['is cut and may not be repeated', false, 'unknown', ['tool_intent']],
    ['has answered with an error', false, 'error', ['tool_intent', 'tool_outcome']],
    ['has answered', true, 'ok', ['tool_intent', 'tool_outcome']],
  ] as const)(
    'records the outcome of a call only when it has one: it %s',
    async (_what, repeatable, outcome, kinds) => {
      const { signal, suspend } = suspended();
      const tool = fakeTool('book', {
        repeatable,
        async run() {
          suspend();
          return { text: 'x', isError: outcome !== 'ok', outcome };
        },
      });
      const run = start([call('book')], [tool], { signal });
      await run.ended.catch(() => undefined);
      expect(run.kinds()).toEqual(kinds);
    },
  );

  it('begins no call', async () => {
    const { signal, reason, suspend } = suspended();
    suspend();
    const run = start([call('free')], [fakeTool('free')], { signal });
    await expect(run.ended).rejects.toBe(reason);
    expect(run.kinds()).toEqual([]);
  });
});

it('progress of a call is told, not more often than people can read', async () => {
  const told: unknown[] = [];
  const tool = fakeTool('book', {
    async run(_arguments, { onProgress }) {
      for (let progress = 1; progress <= 50; progress += 1) onProgress?.({ progress, total: 50, message: 'on it' });
      return { text: '', isError: false, outcome: 'ok' };
    },
  });
  const onProgress: ToolCallOptions['onProgress'] = ({ offeredName }, progress) =>
    void told.push([offeredName, progress]);
  await start([call('book')], [tool], { onProgress }).ended;
  expect(told[0]).toEqual(['book', { progress: 1, total: 50, message: 'on it' }]);
  expect(told.length).toBeLessThan(10);
});
