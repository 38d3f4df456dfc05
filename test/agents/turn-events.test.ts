import { expect, it } from 'vitest';
import { createTurnEvents } from '../../src/agents/runners/turn-events.ts';
import type { RunLog } from '../../src/runs/journal.ts';
import type { ToolIntentStep } from '../../src/runs/steps.ts';
import type { PlatformEvent } from '../../src/telemetry/events.ts';

it('a run tells names and numbers of what it does, to its owner', () => {
  const told: PlatformEvent[] = [];
  const run = { runId: 'r1' } as RunLog;
  const events = createTurnEvents(
    { publish: (event) => void told.push(event) },
    { owner: 'user:ann', agentId: 'a1', taskId: 't1', run },
  );
  const place = { turn: 2, index: 1, callId: 'c1' };
  const call: ToolIntentStep = {
    kind: 'tool_intent',
    ...place,
    offeredName: 'pay',
    argumentsText: '{"iban":"secret"}',
    repeatable: false,
  };
  events.say('started');
  events.step({ type: 'text', turn: 2, delta: 'secret' });
  events.step({ type: 'tool_call', call });
  events.step({ type: 'tool_progress', call, progress: { progress: 3, total: 10, message: 'secret' } });
  events.step({ type: 'tool_progress', call, progress: { progress: 4 } });
  events.step({
    type: 'request',
    request: { kind: 'request', ...place, requestId: 'q1', requestKind: 'approval', resumable: true },
  });
  events.step({
    type: 'request_answer',
    answer: { kind: 'request_answer', ...place, requestId: 'q1', action: 'accept', content: { pin: 'secret' } },
  });
  const result = { kind: 'tool_outcome', ...place, offeredName: 'pay', text: 'secret', isError: true } as const;
  events.step({ type: 'tool_result', result: { ...result, outcome: 'not_run', cause: 'refused', repeatable: true } });
  events.step({ type: 'final', text: 'secret', reason: 'answered' });
  events.say('completed');
  const about = { run_id: 'r1', agent_id: 'a1', task_id: 't1' };
  const tool = { tool: 'pay', turn: 2, index: 1 };
  expect(told.map(({ data }) => data)).toEqual([
    { event: 'started', ...about },
    { event: 'tool_call', ...about, ...tool },
    { event: 'tool_progress', ...about, ...tool, progress: 3, total: 10 },
    { event: 'tool_progress', ...about, ...tool, progress: 4 },
    { event: 'waiting', ...about, request_id: 'q1' },
    { event: 'tool_result', ...about, ...tool, outcome: 'not_run', cause: 'refused' },
    { event: 'completed', ...about },
  ]);
  expect(told.every(({ type, scope }) => type === 'run' && scope.owner === 'user:ann')).toBe(true);
});
