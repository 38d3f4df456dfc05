import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import type { ServerQuestion } from '../../src/mcp/types.ts';
import { checkFormContent } from '../../src/runs/form-content.ts';
import type { RequestFacts } from '../../src/runs/request-document.ts';
import { createRunRequests, REQUEST_LIFE_MS, type RunRequests } from '../../src/runs/requests.ts';
import type { AuditEntry } from '../../src/schemas/audit.ts';
import type { Database } from '../../src/store/database.ts';
import { createRunRequestStore } from '../../src/store/run-requests.ts';
import { createTaskStore } from '../../src/store/tasks.ts';
import type { PlatformEvent } from '../../src/telemetry/events.ts';
import { createLogger } from '../../src/telemetry/logger.ts';
import { createRedactor } from '../../src/telemetry/redactor.ts';
import { onEachEngine } from '../support/databases.ts';
import { userPrincipal } from '../support/principals.ts';

const ANN = userPrincipal('ann');
const FORM: ServerQuestion = {
  mode: 'form',
  message: 'Who?',
  schema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
};

function facts(requestId: string, more: Partial<RequestFacts> = {}): RequestFacts {
  return {
    requestId,
    kind: 'approval',
    runId: 'run',
    taskId: 'task',
    agentId: 'agent',
    owner: 'user:ann',
    tool: 'pay',
    connectorId: 'bank',
    offeredName: 'bank_pay',
    arguments: '{"amount":5}',
    ...more,
  };
}

interface Desk extends RunRequests {
  readonly events: PlatformEvent[];
  readonly audited: AuditEntry[];
  pass(ms: number): void;
}

/** One process on the database. */
async function desk(database: Database): Promise<Desk> {
  const tasks = createTaskStore(database);
  if ((await tasks.get('task')) === undefined) {
    await tasks.insert({ id: 'task', taskType: 'AGENT_EXECUTION', state: 'RUNNING', body: {} });
  }
  const events: PlatformEvent[] = [];
  const audited: AuditEntry[] = [];
  let time = 1_000_000;
  const now = (): number => time;
  const requests = createRunRequests({
    store: createRunRequestStore(database, { now }),
    audit: { record: async (entry) => void audited.push(entry) },
    events: { publish: (event) => void events.push(event) },
    log: createLogger({ level: 'silent', redactor: createRedactor() }),
    now,
    pollMs: 20,
  });
  return {
    ...requests,
    events,
    audited,
    pass(ms) {
      time += ms;
    },
  };
}

const never = () => new AbortController().signal;

onEachEngine('what a run wants to know from a person', (database) => {
  it('is shown with all that is needed to decide, in the order of asking', async () => {
    const one = await desk(database());
    await one.open(facts('r1'));
    await one.open(facts('r2', { kind: 'elicitation', question: FORM }));
    await one.open(facts('r1', { arguments: '{"amount":6}' }));
    const open = { task_id: 'task', agent_id: 'agent', state: 'open', tool: 'pay', connector_id: 'bank' };
    const times = { create_time: 1_000_000, expires_time: 1_000_000 + REQUEST_LIFE_MS };
    expect(await one.ofTask('task')).toEqual([
      {
        ...open,
        ...times,
        request_id: 'r1',
        kind: 'approval',
        offered_name: 'bank_pay',
        arguments: '{"amount":5}',
        actions: ['approve', 'refuse'],
      },
      {
        ...open,
        ...times,
        request_id: 'r2',
        kind: 'elicitation',
        offered_name: 'bank_pay',
        arguments: '{"amount":5}',
        question: FORM,
        actions: ['accept', 'decline', 'cancel'],
      },
    ]);
    expect(one.events.map(({ data }) => data.request_id)).toEqual(['r1', 'r2']);
  });

  it('is answered once, and the run hears it at once', async () => {
    const one = await desk(database());
    await one.open(facts('r1'));
    const heard = one.answered('r1', never());
    const shown = await one.answer(ANN, 'task', 'r1', { action: 'approve' });
    expect(await heard).toEqual({ action: 'approve' });
    expect(shown).toMatchObject({
      state: 'answered',
      answer: { action: 'approve', answered_by: 'user:ann', answer_time: 1_000_000 },
    });
    expect(shown).not.toHaveProperty('actions');
    await expect(one.answer(ANN, 'task', 'r1', { action: 'refuse' })).rejects.toMatchObject({
      statusCode: 409,
      message: 'Request r1 was answered already: approve, by user:ann, at 1970-01-01T00:16:40.000Z',
    });
    expect(one.audited).toEqual([
      {
        principal: 'user:ann',
        action: 'task.answer',
        outcome: 'approve',
        agentId: 'agent',
        connectorId: 'bank',
        tool: 'pay',
        detail: 'approval r1 of task task (bank_pay)',
      },
    ]);
  });

  it('has one answer, however many come at the same time', async () => {
    const [one, two] = [await desk(database()), await desk(database())];
    await one.open(facts('r1'));
    const actions = ['approve', 'refuse', 'approve', 'refuse'];
    const given = actions.map((action, at) => (at % 2 ? one : two).answer(ANN, 'task', 'r1', { action }));
    const settled = await Promise.allSettled(given);
    const won = settled.flatMap((each, at) => (each.status === 'fulfilled' ? [actions[at]] : []));
    expect(won).toHaveLength(1);
    expect(await one.answered('r1', never())).toEqual({ action: won[0] });
    expect([...one.audited, ...two.audited]).toHaveLength(1);
  });

  it('is heard when the answer came through another process', async () => {
    const [one, two] = [await desk(database()), await desk(database())];
    await one.open(facts('r1', { kind: 'elicitation', question: FORM }));
    const heard = one.answered('r1', never());
    await two.answer(ANN, 'task', 'r1', { action: 'accept', content: { name: '🦉' } });
    expect(await heard).toEqual({ action: 'accept', content: { name: '🦉' } });
  });

  it.each([
    ['approval', 'refuse'],
    ['elicitation', 'cancel'],
  ] as const)('of kind %s counts as %s when nobody answers in time', async (kind, action) => {
    const one = await desk(database());
    await one.open(facts('r1', { kind, ...(kind === 'elicitation' ? { question: FORM } : {}) }));
    const heard = one.answered('r1', never());
    one.pass(REQUEST_LIFE_MS - 1);
    expect(await one.ofTask('task', { openOnly: true })).toHaveLength(1);
    one.pass(1);
    expect(await one.ofTask('task', { openOnly: true })).toEqual([]);
    expect(await one.ofTask('task')).toMatchObject([{ state: 'expired' }]);
    const late = one.answer(ANN, 'task', 'r1', { action: kind === 'approval' ? 'approve' : 'decline' });
    await expect(late).rejects.toMatchObject({
      statusCode: 409,
      message: expect.stringContaining(`counts as ${action}`),
    });
    expect(await heard).toEqual({ action, expired: true });
    expect(one.events.map(({ data }) => data.event)).toEqual(['opened', 'expired']);
  });

  it('is waited for no longer than the run goes on', async () => {
    const one = await desk(database());
    await one.open(facts('r1'));
    const stop = new AbortController();
    const heard = one.answered('r1', stop.signal);
    const reason = new Error('the server stops');
    stop.abort(reason);
    await expect(heard).rejects.toBe(reason);
    await expect(one.answered('r1', stop.signal)).rejects.toBe(reason);
    expect(await one.ofTask('task')).toMatchObject([{ state: 'open' }]);
    (await one.closeRun('run'))();
    expect(await one.ofTask('task')).toMatchObject([{ state: 'expired' }]);
    await expect(one.answer(ANN, 'task', 'r1', { action: 'approve' })).rejects.toMatchObject({ statusCode: 409 });
  });

  it('says so when its call ended with the server, and takes no answer', async () => {
    const one = await desk(database());
    await one.open(facts('r1', { kind: 'elicitation', question: FORM }));
    await one.open(facts('r2'));
    await one.lose(['r1', 'r9']);
    const [lost, open] = await one.ofTask('task');
    expect(lost).toMatchObject({
      state: 'expired',
      reason: expect.stringMatching(/^The server stopped while the call/),
    });
    expect(lost).not.toHaveProperty('answer');
    expect(open).toMatchObject({ state: 'open' });
    await expect(one.answer(ANN, 'task', 'r1', { action: 'decline' })).rejects.toThrow(
      /server stopped.*counts as cancel/,
    );
    expect(one.events.map(({ data }) => data.event)).toEqual(['opened', 'opened', 'expired']);
    await one.answer(ANN, 'task', 'r2', { action: 'approve' });
    await one.lose(['r2']);
    expect((await one.ofTask('task'))[1]).toMatchObject({ state: 'answered' });
  });

  it('is closed when it is withdrawn, and an answer to it is told why', async () => {
    const one = await desk(database());
    await one.open(facts('r1', { kind: 'elicitation', question: FORM }));
    const withdrawn = new AbortController();
    const heard = one.answered('r1', never(), withdrawn.signal);
    withdrawn.abort('Its server took it back');
    expect(await heard).toEqual({ action: 'cancel', expired: true });
    expect(await one.ofTask('task')).toMatchObject([{ state: 'expired', reason: 'Its server took it back' }]);
    await expect(one.answer(ANN, 'task', 'r1', { action: 'decline' })).rejects.toMatchObject({
      statusCode: 409,
      message: 'Request r1 is closed. Its server took it back. It counts as cancel',
    });
    expect(one.events.map(({ data }) => data.event)).toEqual(['opened', 'expired']);
    expect(one.audited).toEqual([]);
  });

  it('keeps the answer that came before it was withdrawn', async () => {
    const one = await desk(database());
    await one.open(facts('r1'));
    await one.answer(ANN, 'task', 'r1', { action: 'approve' });
    expect(await one.answered('r1', never(), AbortSignal.abort('Too late'))).toEqual({ action: 'approve' });
  });

  it('is closed by others than who waits for it, and told once', async () => {
    const [one, two] = [await desk(database()), await desk(database())];
    for (const id of ['r1', 'r2', 'r3']) await one.open(facts(id));
    await one.answer(ANN, 'task', 'r3', { action: 'approve' });
    const heard = one.answered('r1', never());
    await two.close(['r2', 'r3', 'r9'], 'Nobody needs it');
    await one.close(['r1'], 'Nobody needs it');
    expect(await heard).toEqual({ action: 'refuse', expired: true });
    expect((await one.ofTask('task')).map(({ state }) => state)).toEqual(['expired', 'expired', 'answered']);
    await expect(one.answer(ANN, 'task', 'r2', { action: 'approve' })).rejects.toThrow(/Nobody needs it/);
    const told = [...one.events, ...two.events].filter(({ data }) => data.event === 'expired');
    expect(told.map(({ data }) => data.request_id).sort()).toEqual(['r1', 'r2']);
  });

  it('is found under its own task only', async () => {
    const one = await desk(database());
    await one.open(facts('r1'));
    const missing = { statusCode: 404, message: 'Failed to find request r1 of task other' };
    await expect(one.answer(ANN, 'other', 'r1', { action: 'approve' })).rejects.toMatchObject(missing);
    await expect(one.answer(ANN, 'task', 'r9', { action: 'approve' })).rejects.toMatchObject({ statusCode: 404 });
    await expect(one.answered('r9', never())).rejects.toMatchObject({ statusCode: 404 });
  });

  it.each<[ServerQuestion | undefined, JsonObject, string]>([
    [undefined, { action: 'accept' }, 'action must be one of approve, refuse: the request is of kind approval'],
    [undefined, {}, 'action must be one of approve, refuse: the request is of kind approval'],
    [undefined, { action: 'approve', content: {} }, 'content is only given where a form is accepted: leave it out'],
    [FORM, { action: 'approve' }, 'action must be one of accept, decline, cancel: the request is of kind elicitation'],
    [FORM, { action: 'accept', content: [] }, 'content must be an object with the fields of the form'],
    [FORM, { action: 'accept' }, 'content.name is required'],
    [FORM, { action: 'accept', content: { name: 5 } }, 'content.name must be a text'],
    [
      FORM,
      { action: 'decline', content: { name: 'x' } },
      'content is only given where a form is accepted: leave it out',
    ],
    [
      { mode: 'url', message: 'm', url: 'https://x.test' },
      { action: 'accept', content: {} },
      'content is only given where a form is accepted: leave it out',
    ],
  ])('%j is not answered with %j', async (question, body, message) => {
    const one = await desk(database());
    await one.open(facts('r1', question === undefined ? {} : { kind: 'elicitation', question }));
    await expect(one.answer(ANN, 'task', 'r1', body)).rejects.toMatchObject({ statusCode: 400, message });
    expect(await one.ofTask('task')).toMatchObject([{ state: 'open' }]);
  });

  it('tells of itself without arguments and content', async () => {
    const one = await desk(database());
    await one.open(facts('r1', { kind: 'elicitation', question: FORM }));
    await one.answer(ANN, 'task', 'r1', { action: 'accept', content: { name: 'secret name' } });
    const data = {
      request_id: 'r1',
      task_id: 'task',
      run_id: 'run',
      agent_id: 'agent',
      kind: 'elicitation',
      connector_id: 'bank',
      tool: 'pay',
    };
    const scope = { owner: 'user:ann' };
    expect(one.events).toEqual([
      { type: 'request', data: { event: 'opened', ...data }, scope },
      { type: 'request', data: { event: 'answered', ...data }, scope },
    ]);
    expect(JSON.stringify(await one.ofTask('task'))).not.toContain('secret name');
  });

  it('goes with its task', async () => {
    const one = await desk(database());
    await one.open(facts('r1'));
    await createTaskStore(database()).delete('task');
    expect(await one.ofTask('task')).toEqual([]);
  });
});

describe('the content of a form', () => {
  const field = (schema: JsonObject, value: JsonObject[string]): string | undefined => {
    try {
      checkFormContent({ f: value }, { type: 'object', properties: { f: schema } });
      return undefined;
    } catch (error) {
      return (error as Error).message;
    }
  };

  it.each<[JsonObject, JsonObject[string], string | undefined]>([
    [{ type: 'string' }, '🦉', undefined],
    [{ type: 'string', maxLength: 1 }, '🦉', undefined],
    [{ type: 'string', maxLength: 1 }, 'ab', 'must have at most 1 characters'],
    [{ type: 'string', minLength: 2 }, '🦉', 'must have at least 2 characters'],
    [{ type: 'string', format: 'email' }, 'a@b.test', undefined],
    [{ type: 'string', format: 'email' }, 'a b', 'must have the format email'],
    [{ type: 'string', format: 'uri' }, 'https://x.test/a', undefined],
    [{ type: 'string', format: 'uri' }, 'x', 'must have the format uri'],
    [{ type: 'string', format: 'date' }, '2026-02-03', undefined],
    [{ type: 'string', format: 'date' }, '2026-13-03', 'must have the format date'],
    [{ type: 'string', format: 'date-time' }, '2026-02-03T04:05:06Z', undefined],
    [{ type: 'string', format: 'date-time' }, '2026-02-03', 'must have the format date-time'],
    [{ type: 'string', format: 'colour' }, 'x', undefined],
    [{ type: 'number', minimum: 0, maximum: 1 }, 0.5, undefined],
    [{ type: 'number', minimum: 0 }, -1, 'must be at least 0'],
    [{ type: 'number', maximum: 1 }, 2, 'must be at most 1'],
    [{ type: 'number' }, '1', 'must be a number'],
    [{ type: 'integer' }, 1, undefined],
    [{ type: 'integer' }, 1.5, 'must be a whole number'],
    [{ type: 'integer', maximum: 3 }, 4, 'must be at most 3'],
    [{ type: 'boolean' }, false, undefined],
    [{ type: 'boolean' }, 'true', 'must be true or false'],
    [{ type: 'string', enum: ['a', 'b'] }, 'b', undefined],
    [{ type: 'string', enum: ['a', 'b'] }, 'c', 'must be one of ["a","b"]'],
    [{ type: 'string', oneOf: [{ const: 'a', title: 'A' }] }, 'a', undefined],
    [{ type: 'string', oneOf: [{ const: 'a', title: 'A' }] }, 'A', 'must be one of ["a"]'],
    [{ type: 'array', items: { type: 'string', enum: ['a', 'b'] } }, ['a', 'b'], undefined],
    [{ type: 'array', items: { anyOf: [{ const: 'a' }] } }, ['b'], 'has an item that must be one of ["a"]'],
    [{ type: 'array', minItems: 1 }, [], 'must have at least 1 items'],
    [{ type: 'array', maxItems: 1 }, [1, 2], 'must have at most 1 items'],
    [{ type: 'array' }, 'a', 'must be an array'],
    [{ type: 'string', pattern: '^(a+)+$' }, 'b', undefined],
    [{}, 'a', undefined],
    [{}, 1, undefined],
    [{}, { deep: [1] }, 'must be a single value'],
    [{}, [1], 'must be a single value'],
    [{}, null, 'must be a single value'],
    [{ maxLength: 1 }, 'ab', 'must have at most 1 characters'],
    [{ type: ['string', 'null'] }, null, undefined],
    [{ type: ['string', 'null'], maxLength: 1 }, 'ab', 'must have at most 1 characters, or must be null'],
    [{ type: ['integer', 'string'] }, 1.5, 'must be a whole number, or must be a text'],
    [{ type: ['string', 'null'] }, { deep: 1 }, 'must be a text, or must be null'],
    [{ anyOf: [{ type: 'string' }, { type: 'null' }] }, 'a', undefined],
    [{ anyOf: [{ type: 'string' }, { type: 'null' }] }, 1, 'must be a text, or must be null'],
    [{ const: 'yes' }, 'no', 'must be one of ["yes"]'],
    [{ type: 'object' }, { a: 1 }, 'is of a type that a form cannot have: decline it'],
    [{ type: 'array' }, [{ a: 1 }], 'has an item that is no single value'],
  ])('in a field %j: %j', (schema, value, fault) => {
    expect(field(schema, value)).toBe(fault === undefined ? undefined : `content.f ${fault}`);
  });

  it('may be null where a required field says so', () => {
    const properties = { a: { type: ['string', 'null'] }, b: { type: 'string' } };
    const form = (required: string[]) => ({ type: 'object', properties, required });
    expect(() => checkFormContent({ a: null }, form(['a']))).not.toThrow();
    expect(() => checkFormContent({}, form(['a']))).toThrow('content.a is required');
    expect(() => checkFormContent({ b: null }, form(['b']))).toThrow('content.b is required');
  });

  it('has the fields of the form and no others', () => {
    const schema = { type: 'object', properties: { a: { type: 'string' }, b: { type: 'string' } }, required: ['a'] };
    expect(() => checkFormContent({ a: 'x' }, schema)).not.toThrow();
    expect(() => checkFormContent({ b: 'x' }, schema)).toThrow('content.a is required');
    expect(() => checkFormContent({ a: 'x', toString: 'x' }, schema)).toThrow(
      'content.toString is no field of the form; its fields are: a, b',
    );
  });
});
