import { describe, expect, it } from 'vitest';
import { RunSuspended } from '../../src/agents/suspension.ts';
import type { ToolCallOptions } from '../../src/agents/tool-calls.ts';
import type { ByKey, PausedCall, QuestionAnswer } from '../../src/mcp/types.ts';
import type { CallStep } from '../../src/runs/steps.ts';
import type { Tool, ToolContext, ToolResult } from '../../src/tools/tool.ts';
import { callsAfter, fakePeople, guarded, QUESTIONS, start } from './approval-rig.ts';
import { call, fakeTool } from './fixtures.ts';

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

  it('are closed when they are withdrawn, before the outcome of their call', async () => {
    const { people, closed, waitFor } = fakePeople();
    const withdrawn = new AbortController();
    const tool = fakeTool('book', {
      async run(_arguments, { ask }) {
        const answers = await ask?.(QUESTIONS, undefined, withdrawn.signal);
        return { text: JSON.stringify(answers), isError: false, outcome: 'ok' };
      },
    });
    const { ended, kinds, outcomes } = start([call('book')], [tool], { people });
    await waitFor(2);
    withdrawn.abort('Its server took it back');
    await ended;
    expect(closed).toEqual(['Its server took it back', 'Its server took it back']);
    expect(JSON.parse(outcomes()[0]?.text ?? '')).toEqual({
      name: { action: 'cancel' },
      consent: { action: 'cancel' },
    });
    expect(kinds()).toEqual(['tool_intent', 'request', 'request', 'request_answer', 'request_answer', 'tool_outcome']);
  });

  it('are closed when their call ends without waiting for them', async () => {
    const { people, closed, waitFor } = fakePeople();
    const tool = fakeTool('book', {
      async run(_arguments, { ask }) {
        void ask?.({ name: QUESTIONS.name }, undefined);
        await waitFor(1);
        return { text: 'done', isError: false, outcome: 'ok' };
      },
    });
    const { ended, kinds } = start([call('book')], [tool], { people });
    await ended;
    expect(closed).toEqual(['The call it belongs to has ended']);
    expect(kinds()).toEqual(['tool_intent', 'request', 'request_answer', 'tool_outcome']);
  });

  it('do not let more calls run side by side than may, however they end', async () => {
    const { people, waitFor, give } = fakePeople();
    let running = 0;
    let most = 0;
    const busy = async (): Promise<void> => {
      running += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => setTimeout(resolve, 5));
      running -= 1;
    };
    const asking = fakeTool('book', {
      async run(_arguments, { ask }) {
        // Two at once, of which nobody waits for the second; and one more after the first is answered.
        void ask?.({ consent: QUESTIONS.consent }, undefined);
        await ask?.({ name: QUESTIONS.name }, undefined);
        return { text: 'done', isError: false, outcome: 'ok' };
      },
    });
    const free = fakeTool('free', {
      async run() {
        await busy();
        return { text: '', isError: false, outcome: 'ok' };
      },
    });
    const later = Array.from({ length: 12 }, (_none, index) => call('free', '{}', `f${index}`));
    const { ended, outcomes } = start([call('book'), ...later], [asking, free], { people, concurrency: 2 });
    await waitFor(2);
    give(1, { action: 'cancel' });
    await ended;
    expect(outcomes()).toHaveLength(13);
    expect(most).toBe(2);
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

  it('that were open when a process ended are closed when the call cannot go on', async () => {
    const place = { turn: 0, index: 0, callId: 'id-book' } as const;
    const intent = {
      kind: 'tool_intent',
      ...place,
      offeredName: 'book',
      argumentsText: '{}',
      repeatable: false,
    } as const;
    const put = { kind: 'request', ...place, requestKind: 'elicitation', resumable: true } as const;
    const recorded: CallStep[] = [intent, { ...put, requestId: 'r1', key: 'name', question: QUESTIONS.name, paused }];
    const { people, asked, closed, waitFor } = fakePeople();
    const moved = new AbortController();
    let watched = 0;
    const ends: string[] = [];
    const watchPause: Tool['watchPause'] = async (about) => {
      expect(about).toEqual(paused);
      watched += 1;
      return { signal: moved.signal, end: () => ends.push('end') };
    };
    const seen: ToolContext[] = [];
    const run = start(callsAfter([call('book')], recorded), [{ ...asker(paused, seen), watchPause }], { people });
    await waitFor(2);
    moved.abort('The connector was changed');
    await run.ended;
    expect(closed).toEqual(['The connector was changed', 'The connector was changed']);
    expect(seen[0]?.resume?.answers).toEqual({ name: { action: 'cancel' }, consent: { action: 'cancel' } });
    expect([watched, ends.length]).toEqual([1, 1]);

    const again = fakePeople();
    const late = start(callsAfter([call('book')], recorded), [{ ...asker(paused), watchPause }], {
      people: again.people,
    });
    await late.ended;
    expect(again.asked.map(({ requestId }) => requestId)).toEqual(['r1']);
    expect(asked).toHaveLength(2);
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
