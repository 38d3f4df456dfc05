import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { nextAction } from '../../src/agents/next-action.ts';
import { createJournal } from '../../src/runs/journal.ts';
import { foldSteps, isDurable, type RunStep, stepOf } from '../../src/runs/steps.ts';
import { openDatabase, UniqueViolation } from '../../src/store/database.ts';
import { createRunStore } from '../../src/store/runs.ts';
import { sqliteDatabase } from '../support/databases.ts';

let fresh: Awaited<ReturnType<typeof sqliteDatabase>>;
beforeEach(async () => {
  fresh = await sqliteDatabase();
});
afterEach(() => fresh.dispose());

const START = { agentId: 'a', memoryId: 'm', messageId: 'g', principal: 'open', request: { question: 'q 🦉' } };
const PLACE = { turn: 0, index: 0, callId: 'c1', offeredName: 'echo' };
const STEPS: RunStep[] = [
  {
    kind: 'model_answer',
    text: '',
    toolCalls: [{ id: 'c1', name: 'echo', arguments: '{"id":2512292042121000001}' }],
    stopReason: 'tool_calls',
    usage: { inputTokens: 1, outputTokens: 2, totalTokens: 3 },
  },
  {
    kind: 'tool_intent',
    ...PLACE,
    connectorId: 'c',
    serverTool: 'e.cho',
    argumentsText: '{"id":2512292042121000001}',
    repeatable: false,
  },
  { kind: 'tool_outcome', ...PLACE, text: '🦉', isError: false, outcome: 'ok', repeatable: false },
  { kind: 'model_answer', text: 'bye', toolCalls: [], stopReason: 'stop' },
  { kind: 'final_answer', text: 'bye', reason: 'answered' },
];

describe('the journal of a run', () => {
  it('gives back what was written, in order', async () => {
    const runs = createRunStore(fresh.database);
    const journal = createJournal({ runs });
    const log = await journal.begin(START);
    expect(log.runId).toMatch(/^[0-9A-Za-z]{20}$/);
    await Promise.all(STEPS.map((step) => log.append(step)));
    await log.finish('completed');
    expect(await journal.read(log.runId)).toEqual(STEPS);
    expect((await runs.steps(log.runId)).map((row) => row.seq)).toEqual([1, 2, 3, 4, 5]);
    expect(await runs.get(log.runId)).toMatchObject({ ...START, state: 'completed' });
    expect((await journal.fold(log.runId)).final?.text).toBe('bye');
    expect(await journal.read('nobody')).toEqual([]);
  });

  it('is taken up behind its last step', async () => {
    const runs = createRunStore(fresh.database);
    const journal = createJournal({ runs });
    const begun = await journal.begin(START);
    for (const step of STEPS.slice(0, 3)) await begun.append(step);
    const resumed = await journal.resume(begun.runId);
    expect(resumed?.row).toMatchObject({ ...START, state: 'running' });
    expect(resumed?.steps).toEqual(STEPS.slice(0, 3));
    for (const step of STEPS.slice(3)) await resumed?.log.append(step);
    expect(await journal.read(begun.runId)).toEqual(STEPS);
    await expect(begun.append(STEPS[3] as RunStep)).rejects.toBeInstanceOf(UniqueViolation);
    expect(await journal.resume('nobody')).toBeUndefined();
  });

  it('of a run that a task shows ends with its task, and only by the process that drives it', async () => {
    const runs = createRunStore(fresh.database, { processId: 'one' });
    const journal = createJournal({ runs });
    const log = await journal.begin({ ...START, taskId: 't' });
    for (const step of STEPS) await log.append(step);
    expect(await runs.get(log.runId)).toMatchObject({ state: 'running', taskId: 't' });
    const other = createJournal({ runs: createRunStore(fresh.database, { processId: 'two' }) });
    const taken = await other.resume(log.runId);
    expect(await fresh.database.write(async (unit) => taken?.log.end('failed', unit))).toBe(false);
    expect(await fresh.database.write((unit) => log.end('completed', unit))).toBe(true);
    expect(await fresh.database.write((unit) => log.end('failed', unit))).toBe(false);
    expect(await runs.get(log.runId)).toMatchObject({ state: 'completed' });
  });

  it('writes nothing more after a step that could not be written', async () => {
    const runs = createRunStore(fresh.database);
    const journal = createJournal({ runs });
    const log = await journal.begin(START);
    await runs.append(
      log.runId,
      { seq: 1, kind: 'final_answer', body: { text: 'other', reason: 'answered' } },
      {
        durable: false,
      },
    );
    const appended = await Promise.allSettled(STEPS.slice(0, 2).map((step) => log.append(step)));
    expect(appended).toMatchObject([
      { status: 'rejected', reason: expect.any(UniqueViolation) },
      { status: 'rejected', reason: expect.any(UniqueViolation) },
    ]);
    expect(await runs.steps(log.runId)).toHaveLength(1);
  });

  it('is on the disk before and after a call that may not be repeated', async () => {
    const written: [string, boolean][] = [];
    const runs = createRunStore(fresh.database);
    const journal = createJournal({
      runs: {
        ...runs,
        append: async (id, step, options) => {
          written.push([step.kind, options.durable]);
          await runs.append(id, step, options);
        },
      },
    });
    const log = await journal.begin(START);
    for (const step of STEPS) await log.append(step);
    expect(written).toEqual([
      ['model_answer', false],
      ['tool_intent', true],
      ['tool_outcome', true],
      ['model_answer', false],
      ['final_answer', false],
    ]);
    expect(STEPS.map((step) => isDurable('repeatable' in step ? { ...step, repeatable: true } : step))).toEqual(
      STEPS.map(() => false),
    );
  });

  it.each([
    ['dream', {}, 'kind'],
    ['model_answer', { text: 'x', stopReason: 'stop' }, 'toolCalls'],
    ['model_answer', { text: 'x', stopReason: 'stop', toolCalls: [{ id: 'x' }] }, 'toolCalls'],
    ['tool_intent', { ...PLACE, repeatable: true }, 'argumentsText'],
    ['tool_outcome', { ...PLACE, repeatable: 'no', text: '', isError: true, outcome: 'ok' }, 'repeatable'],
    ['request', { turn: 0, index: 0, callId: 'c', requestId: 'r', requestKind: 'approval' }, 'resumable'],
    ['request_answer', { turn: 0, index: 0, callId: 'c', requestId: 5, action: 'approve' }, 'requestId'],
    ['final_answer', { text: 5, reason: 'answered' }, 'text'],
  ])('does not read a row of kind %s that is not one of its own', (kind, body, member) => {
    expect(() => stepOf(kind, body)).toThrow(`run step of kind ${kind} cannot be read: ${member}`);
  });

  it('adds up: calls with their intent and first outcome, in source order', () => {
    const [first, intent, outcome] = STEPS as [RunStep, RunStep, RunStep];
    expect(foldSteps([first, intent]).turns[0]?.calls[0]).toEqual({
      call: { id: 'c1', name: 'echo', arguments: '{"id":2512292042121000001}' },
      index: 0,
      intent,
    });
    const fold = foldSteps([first, intent, outcome, { ...outcome, text: 'late' } as RunStep]);
    expect(fold.turns[0]?.calls[0]?.outcome?.text).toBe('🦉');
    expect(foldSteps(STEPS).turns).toHaveLength(2);
    expect(foldSteps([])).toEqual({ turns: [], final: undefined });
  });
});

describe('after kill -9', () => {
  it('no step that was answered is lost, and every call that left has its intent', async () => {
    await fresh.database.close();
    const script = fileURLToPath(new URL('../support/run-process.ts', import.meta.url));
    const child = spawn(process.execPath, ['--import', 'tsx', script, JSON.stringify(fresh.options)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const lines: string[] = [];
    for await (const line of createInterface({ input: child.stdout })) {
      lines.push(line);
      if (lines.length === 60) child.kill('SIGKILL');
    }
    if (child.exitCode === null && child.signalCode === null) await once(child, 'close');
    expect(child.signalCode).toBe('SIGKILL');

    const database = await openDatabase(fresh.options);
    try {
      const runs = createRunStore(database);
      const runId = lines[0]?.split(' ')[1] ?? '';
      const steps = await createJournal({ runs }).read(runId);
      const said = steps.map((step) => `committed ${step.kind} ${'callId' in step ? step.callId : ''}`);
      const committed = lines.filter((line) => line.startsWith('committed'));
      expect(committed.length).toBeGreaterThan(30);
      expect(said.slice(0, committed.length).sort()).toEqual([...committed].sort());
      const intents = steps.flatMap((step) =>
        step.kind === 'tool_intent' ? [`left ${step.offeredName} ${step.argumentsText}`] : [],
      );
      expect(intents).toEqual(expect.arrayContaining(lines.filter((line) => line.startsWith('left'))));
      expect((await runs.steps(runId)).map((row) => row.seq)).toEqual(steps.map((_, index) => index + 1));
      expect((await runs.get(runId))?.state).toBe('running');
      const action = nextAction(steps, { maxIterations: 1_000_000, maxFaultyAnswers: 3 });
      expect(['call_model', 'run_calls', 'settle_lost']).toContain(action.type);
    } finally {
      await database.close();
    }
  });
});
