import { describe, expect, it } from 'vitest';
import type { GivenAnswer } from '../../src/runs/request-document.ts';
import type { CallStep } from '../../src/runs/steps.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { callsAfter, fakePeople, guarded, QUESTIONS, start, startWith } from './approval-rig.ts';
import { call, fakeTool } from './fixtures.ts';

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
  const source = { connectorId: 'c1', tool: 'the_pay' };
  const request: CallStep = { ...asking, requestKind: 'approval', resumable: true, source };

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
    const tool = fakeTool('pay', { source });
    await start(callsAfter([call('pay')], [request, given]), [tool], { people }).ended;
    expect(tool.ran).toEqual([]);
  });
});

describe('a tool that is another one after a wait', () => {
  const asking = { kind: 'request', turn: 0, index: 0, callId: 'id-pay', requestId: 'r1' } as const;
  const source = { connectorId: 'c1', tool: 'the_pay', hash: 'h1' };
  const request: CallStep = { ...asking, requestKind: 'approval', resumable: true, source };
  const approval: CallStep = { ...asking, kind: 'request_answer', action: 'approve' };
  const payOf = (about: { connectorId: string; tool: string; hash?: string }) =>
    fakeTool('pay', { permission: 'ask', source: about });

  it.each([
    ['another connector', { ...source, connectorId: 'c2' }],
    ['another tool of the server', { ...source, tool: 'pay_all' }],
    ['another definition', { ...source, hash: 'h2' }],
  ])('is not called with an approval that was recorded for %s', async (_what, now) => {
    const { people, asked, closed } = fakePeople();
    const tool = payOf(now);
    const waiting = start(callsAfter([call('pay')], [request]), [tool], { people });
    await waiting.ended;
    expect(closed).toEqual(['The call it belongs to is not made any more']);
    const approved = start(callsAfter([call('pay')], [request, approval]), [tool], { people });
    await approved.ended;
    for (const { outcomes, kinds } of [waiting, approved]) {
      expect(outcomes()).toMatchObject([
        { outcome: 'not_run', cause: 'changed', text: expect.stringContaining('Error: not run. Since pay was called') },
      ]);
      expect(kinds()).toEqual(['tool_outcome']);
    }
    expect([asked, closed.length, tool.ran]).toEqual([[], 1, []]);
  });

  it('is not called when it is gone, and its request is closed', async () => {
    const { people, closed } = fakePeople();
    const { ended, outcomes } = start(callsAfter([call('pay')], [request]), [], { people });
    await ended;
    expect(outcomes()).toMatchObject([{ outcome: 'not_run', cause: 'changed' }]);
    expect(closed).toHaveLength(1);
  });

  it('goes through when it is the same', async () => {
    const tool = payOf(source);
    await start(callsAfter([call('pay')], [request, approval]), [tool], { people: fakePeople().people }).ended;
    expect(tool.ran).toEqual(['{}']);
  });

  it('is looked up again in the same process, with what is allowed then', async () => {
    const denied = { tool: 'the_pay', offeredAs: 'pay', connectorId: 'c1', code: 'denied_by_policy', message: '' };
    const offers = [
      [{ tools: [payOf({ ...source, connectorId: 'c2' })] }, 'changed'],
      [{ tools: [] }, 'changed'],
      [{ tools: [], withheld: [{ ...denied, code: 'denied_by_policy' } as const] }, 'denied'],
    ] as const;
    for (const [later, cause] of offers) {
      const { people, waitFor, give } = fakePeople();
      const before = payOf(source);
      const options = {
        people,
        tools: [before] as readonly Tool[],
        renew: async () => void Object.assign(options, later),
      };
      const { ended, steps } = startWith([call('pay')], options);
      await waitFor(1);
      give(0, { action: 'approve' });
      await ended;
      expect(steps.map((step) => step.kind)).toEqual(['request', 'request_answer', 'tool_outcome']);
      expect(steps.at(-1)).toMatchObject({ outcome: 'not_run', cause });
      expect(before.ran).toEqual([]);
    }
  });

  it('is not called when the run may not go on', async () => {
    const gone = new Error('the caller is gone');
    const { people, waitFor, give } = fakePeople();
    const tool = payOf(source);
    const { ended, kinds } = start([call('pay')], [tool], { people, renew: () => Promise.reject(gone) });
    await waitFor(1);
    give(0, { action: 'approve' });
    await expect(ended).rejects.toBe(gone);
    expect(kinds()).toEqual(['request', 'request_answer']);
    expect(tool.ran).toEqual([]);
  });

  it.each([
    ['paused', { questions: {}, round: 1 }, { outcome: 'not_run', cause: 'changed' }],
    ['under way', undefined, { outcome: 'unknown', text: expect.stringContaining('was ended while it was under way') }],
  ] as const)('does not get the answers when its call is %s', async (_what, pause, outcome) => {
    const { people, waitFor, give } = fakePeople();
    const seen: unknown[] = [];
    const book = fakeTool('book', {
      source,
      async run(_arguments, { ask }) {
        const said = await ask?.({ name: QUESTIONS.name }, pause).catch((error: unknown) => error);
        seen.push(said);
        return { text: 'Error: ended', isError: true, outcome: 'error' };
      },
    });
    const options = {
      people,
      tools: [book] as readonly Tool[],
      renew: async () => void Object.assign(options, { tools: [] }),
    };
    const { ended, steps } = startWith([call('book')], options);
    await waitFor(1);
    give(0, { action: 'accept', content: { name: 'Ann' } });
    await ended;
    expect(seen).toEqual([expect.any(Error)]);
    expect(steps.map((step) => step.kind)).toEqual(['tool_intent', 'request', 'request_answer', 'tool_outcome']);
    expect(steps.at(-1)).toMatchObject(outcome);
  });

  it('is not repeated when it may not be repeated any more', async () => {
    const intent: CallStep = {
      ...{ turn: 0, index: 0, callId: 'id-pay', offeredName: 'pay', argumentsText: '{}' },
      kind: 'tool_intent',
      connectorId: 'c1',
      serverTool: 'the_pay',
      repeatable: true,
    };
    const [reads, writes] = [true, false].map((repeatable) => fakeTool('pay', { repeatable, source }));
    const first = start(callsAfter([call('pay')], [intent]), reads ? [reads] : []);
    await first.ended;
    expect([reads?.ran, first.outcomes()]).toMatchObject([['{}'], [{ outcome: 'ok' }]]);
    const second = start(callsAfter([call('pay')], [intent]), writes ? [writes] : []);
    await second.ended;
    expect([writes?.ran, second.outcomes()]).toMatchObject([[], [{ outcome: 'unknown', repeatable: false }]]);
    const third = start(callsAfter([call('pay')], [intent]), []);
    await third.ended;
    expect(third.outcomes()).toMatchObject([{ outcome: 'unknown' }]);
  });
});

it('arguments are shown with every character that nobody sees, as JSON that means the same', async () => {
  const { people, asked, waitFor, give } = fakePeople();
  const text = '{"to":"\u202eevil\u202c","note":"a\u{e0041}b c"}';
  const tool = guarded('pay');
  const { ended } = start([call('pay', text)], [tool], { people });
  await waitFor(1);
  const shown = asked[0]?.arguments ?? '';
  expect(shown).toBe('{"to":"\\u202eevil\\u202c","note":"a\\udb40\\udc41b c"}');
  expect(JSON.parse(shown)).toEqual(JSON.parse(text));
  give(0, { action: 'approve' });
  await ended;
  expect(tool.ran).toEqual([text]);
});
