import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Principal } from '../../src/identity/principal.ts';
import { OPEN_PRINCIPAL, STATIC_KEY_PRINCIPAL } from '../../src/identity/principals.ts';
import type { JsonObject } from '../../src/json.ts';
import { createMemory, type Memory } from '../../src/memory/service.ts';
import type { AuditEntry } from '../../src/schemas/audit.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { createClock } from '../support/clock.ts';
import { sqliteDatabase } from '../support/databases.ts';
import { userPrincipal } from '../support/principals.ts';

const me = OPEN_PRINCIPAL;
const ann = userPrincipal('ann');
const bob = userPrincipal('bob');
const clock = createClock(Date.UTC(2026, 10, 30, 12));
let fresh: Awaited<ReturnType<typeof sqliteDatabase>>;
let memory: Memory;
let enabled = true;
const audited: AuditEntry[] = [];
const audit = { record: async (entry: AuditEntry) => void audited.push(entry) };

beforeEach(async () => {
  fresh = await sqliteDatabase();
  enabled = true;
  const store = createMemoryStore(fresh.database, { now: clock.now });
  memory = createMemory({ store, settings: { flag: () => enabled }, audit });
});
afterEach(() => fresh.dispose());

const named = async (name: string): Promise<string> => (await memory.create(me, { name })).memory_id;
const notFound = (what: string) => ({
  statusCode: 404,
  exception: 'ResourceNotFoundException',
  message: `${what} not found`,
});

describe('memories', () => {
  it('leave a row when they are changed or deleted, and none for what did not happen', async () => {
    audited.length = 0;
    const { memory_id: id } = await memory.create(ann, { name: 'hers' });
    await expect(memory.delete(bob, id)).rejects.toThrow('does not have access');
    await memory.update(ann, id, { name: 'still hers' });
    await memory.delete(ann, id);
    await memory.delete(ann, id);
    const row = { principal: ann.id, outcome: 'ok', detail: id };
    expect(audited).toEqual([
      { ...row, action: 'memory.update' },
      { ...row, action: 'memory.delete' },
    ]);
  });

  it('are made with and without a body', async () => {
    const { memory_id: bare } = await memory.create(me, undefined);
    expect(await memory.get(me, bare)).toEqual({
      memory_id: bare,
      create_time: new Date(clock.now()).toISOString(),
      updated_time: new Date(clock.now()).toISOString(),
    });
    const { memory_id: full } = await memory.create(me, {
      name: 'talk',
      application_type: 'chat',
      additional_info: { a: 1 },
    });
    expect(await memory.get(me, full)).toMatchObject({ name: 'talk', additional_info: { a: 1 } });
  });

  it('lose the other members without a name', async () => {
    const { memory_id: id } = await memory.create(me, { additional_info: { a: 1 } });
    expect(await memory.get(me, id)).not.toHaveProperty('additional_info');
  });

  it.each([{ name: 5 }, { name: 'x', additional_info: [] }, { application_type: {} }])('refuse %j', async (body) => {
    await expect(memory.create(me, body)).rejects.toMatchObject({
      statusCode: 400,
      exception: 'OpenSearchParseException',
    });
  });

  it('are listed newest change first, with a token whenever the page is full', async () => {
    expect(await memory.list(me, {})).toEqual({ memories: [] });
    const first = await named('first');
    expect(await memory.list(me, { max_results: '1' })).toMatchObject({ next_token: 1 });
    clock.advance(10);
    const second = await named('second');
    clock.advance(10);
    await memory.addMessage(me, first, { input: 'hi' });
    const page = await memory.list(me, { max_results: '1' });
    expect(page).toMatchObject({ memories: [{ memory_id: first }], next_token: 1 });
    expect(await memory.list(me, { max_results: '1', next_token: '1' })).toMatchObject({
      memories: [{ memory_id: second }],
      next_token: 2,
    });
    expect(await memory.list(me, { next_token: '2' })).toEqual({ memories: [] });
    expect(await memory.list(me, {})).not.toHaveProperty('next_token');
  });

  it.each([
    [{ max_results: '0' }, 'max_results must be a whole number from 1 to 10000, not "0"'],
    [{ max_results: 'ten' }, 'max_results must be'],
    [{ max_results: '10001' }, 'max_results must be'],
    [{ next_token: '-1' }, 'next_token must be a whole number from 0'],
    [{ next_token: '1e3' }, 'next_token must be'],
  ])('refuse the page %j', async (page, message) => {
    await expect(memory.list(me, page)).rejects.toMatchObject({
      statusCode: 400,
      message: expect.stringContaining(message),
    });
  });

  it('are updated in name and additional_info only', async () => {
    const id = await named('old');
    clock.advance(5);
    const outcome = await memory.update(me, id, { name: 'new', additional_info: { x: 'y' }, application_type: 'z' });
    expect(outcome).toMatchObject({ id, version: 2, result: 'updated' });
    expect(await memory.get(me, id)).toEqual({
      memory_id: id,
      create_time: new Date(clock.now() - 5).toISOString(),
      updated_time: new Date(clock.now()).toISOString(),
      name: 'new',
      additional_info: { x: 'y' },
    });
  });

  it('are deleted with their messages', async () => {
    const id = await named('talk');
    await named('other');
    const { message_id: message } = await memory.addMessage(me, id, { input: 'hi' });
    expect(await memory.delete(me, id)).toEqual({ success: true });
    await expect(memory.get(me, id)).rejects.toMatchObject(notFound(`Memory [${id}]`));
    await expect(memory.message(me, message)).rejects.toMatchObject(notFound(`Message [${message}]`));
    await expect(memory.delete(me, id)).rejects.toMatchObject(notFound(`Memory [${id}]`));
  });

  it('that never were: empty lists, a successful delete, no index to update', async () => {
    expect(await memory.delete(me, 'x')).toEqual({ success: true });
    expect(await memory.messages(me, 'x', {})).toEqual({ messages: [] });
    expect(await memory.traces(me, 'x', {})).toEqual({ traces: [] });
    for (const update of [memory.update(me, 'x', { name: 'y' }), memory.updateMessage(me, 'x', { response: 'y' })]) {
      await expect(update).rejects.toMatchObject({ statusCode: 404, exception: 'IndexNotFoundException' });
    }
    await expect(memory.addMessage(me, 'x', { input: 'y' })).rejects.toMatchObject(notFound('Memory [x]'));
    await expect(memory.get(me, 'x')).rejects.toMatchObject(notFound('Memory [x]'));
  });

  it('are refused while the feature is off', async () => {
    const id = await named('talk');
    enabled = false;
    const calls = [
      memory.create(me, undefined),
      memory.list(me, {}),
      memory.get(me, id),
      memory.update(me, id, {}),
      memory.delete(me, id),
      memory.addMessage(me, id, { input: 'x' }),
      memory.messages(me, id, {}),
      memory.message(me, id),
      memory.updateMessage(me, id, {}),
      memory.traces(me, id, {}),
    ];
    for (const call of calls) {
      await expect(call).rejects.toMatchObject({
        statusCode: 500,
        message: expect.stringContaining('plugins.ml_commons.memory_feature_enabled'),
      });
    }
  });

  it('of a user are closed to other users and open to the operator', async () => {
    const { memory_id: id } = await memory.create(ann, { name: 'private' });
    const { message_id: message } = await memory.addMessage(ann, id, { input: 'hi' });
    expect(await memory.get(ann, id)).toMatchObject({ user: 'ann' });
    expect(await memory.get(STATIC_KEY_PRINCIPAL, id)).toMatchObject({ name: 'private' });
    const denied = {
      statusCode: 401,
      exception: 'OpenSearchStatusException',
      message: `User [bob] does not have access to memory ${id}`,
    };
    const attempts = [
      memory.get(bob, id),
      memory.update(bob, id, { name: 'x' }),
      memory.delete(bob, id),
      memory.addMessage(bob, id, { input: 'x' }),
      memory.messages(bob, id, {}),
      memory.message(bob, message),
      memory.updateMessage(bob, message, { response: 'x' }),
      memory.traces(bob, message, {}),
    ];
    for (const attempt of attempts) await expect(attempt).rejects.toMatchObject(denied);
    expect(await memory.get(me, await named('mine'))).not.toHaveProperty('user');
  });

  it('of the operator are closed to users', async () => {
    const id = await named('from before there were users');
    await expect(memory.get(ann, id)).rejects.toMatchObject({ statusCode: 401 });
    expect(await memory.get(userPrincipal('root', { access: { admin: true } }), id)).toMatchObject({ memory_id: id });
  });

  it("of an API key are its user's", async () => {
    const key: Principal = { ...ann, id: 'key:1', kind: 'api_key', owner: 'user:ann' };
    const { memory_id: id } = await memory.create(key, { name: 'by key' });
    expect(await memory.get(ann, id)).toMatchObject({ user: 'ann', name: 'by key' });
    await expect(memory.get(bob, id)).rejects.toMatchObject({ statusCode: 401 });
  });

  it("are listed for their user only, also page by page; an administrator's list has all", async () => {
    const [carl, dora] = [userPrincipal('carl'), userPrincipal('dora')];
    for (const name of ['1', '2', '3']) {
      await memory.create(carl, { name: `carl ${name}` });
      await memory.create(dora, { name: `dora ${name}` });
    }
    const names = async (principal: Principal, page = {}): Promise<unknown> =>
      ((await memory.list(principal, page)).memories as JsonObject[]).map(({ name }) => name);
    expect(await names(carl)).toEqual(['carl 3', 'carl 2', 'carl 1']);
    expect(await memory.list(carl, { max_results: '2' })).toMatchObject({
      memories: [{ name: 'carl 3' }, { name: 'carl 2' }],
      next_token: 2,
    });
    expect(await names(carl, { max_results: '2', next_token: '2' })).toEqual(['carl 1']);
    expect(await names(userPrincipal('nobody'))).toEqual([]);
    expect(await names(STATIC_KEY_PRINCIPAL, { max_results: '4' })).toEqual(['dora 3', 'carl 3', 'dora 2', 'carl 2']);
  });

  it("hold no traces that another wrote below one's message", async () => {
    const { memory_id: hers } = await memory.create(ann, { name: 'hers' });
    const { message_id: turn } = await memory.addMessage(ann, hers, { input: 'hi' });
    await memory.addMessage(ann, hers, { response: 'mine', parent_message_id: turn, trace_number: 1 });
    const { memory_id: his } = await memory.create(bob, { name: 'his' });
    await memory.addMessage(bob, his, { response: 'slipped in', parent_message_id: turn, trace_number: 2 });
    expect((await memory.traces(ann, turn, {})).traces).toMatchObject([{ response: 'mine', memory_id: hers }]);
  });
});

describe('messages', () => {
  it('come back as they were given, also emoji', async () => {
    const id = await named('talk');
    const body = {
      input: 'last? 🦉',
      prompt_template: 'p',
      response: 'r',
      origin: 'o',
      additional_info: { suggestion: 'x' },
    };
    const { message_id: message } = await memory.addMessage(me, id, body);
    expect(await memory.message(me, message)).toEqual({
      memory_id: id,
      message_id: message,
      create_time: new Date(clock.now()).toISOString(),
      ...body,
    });
  });

  it('are listed oldest first, without traces', async () => {
    const id = await named('talk');
    const ids: string[] = [];
    for (const input of ['1', '2', '3']) ids.push((await memory.addMessage(me, id, { input })).message_id);
    for (const trace_number of [2, 1]) {
      await memory.addMessage(me, id, { input: `t${trace_number}`, parent_message_id: ids[0] ?? '', trace_number });
    }
    const list = await memory.messages(me, id, { max_results: '2' });
    expect(list).toMatchObject({ messages: [{ input: '1' }, { input: '2' }], next_token: 2 });
    expect(await memory.messages(me, id, { max_results: '2', next_token: '2' })).toMatchObject({
      messages: [{ input: '3' }],
    });
    expect(await memory.traces(me, ids[0] ?? '', {})).toMatchObject({
      traces: [
        { input: 't1', trace_number: 1, parent_message_id: ids[0] },
        { input: 't2', trace_number: 2 },
      ],
    });
    expect(await memory.traces(me, ids[0] ?? '', { max_results: '1' })).toMatchObject({ next_token: 1 });
    await expect(memory.traces(me, 'nobody', {})).rejects.toMatchObject(notFound('Message [nobody]'));
    await expect(memory.messages(me, 'nobody', {})).rejects.toMatchObject(notFound('Memory [nobody]'));
  });

  it.each([
    {},
    { input: '', response: '' },
    { additional_info: {} },
    { additional_info: '' },
    { parent_message_id: 'x', trace_number: 1 },
  ])('of nothing are refused: %j', async (body) => {
    const id = await named('talk');
    await expect(memory.addMessage(me, id, body)).rejects.toMatchObject({
      statusCode: 400,
      message:
        'At least one of the following parameters must be non-empty: input, prompt_template, response, origin, additional_info',
    });
  });

  it.each([{ input: 7 }, { input: 'x', trace_number: 1.5 }, { input: 'x', parent_message_id: {} }])(
    'of the wrong shape are refused: %j',
    async (body) => {
      const id = await named('talk');
      await expect(memory.addMessage(me, id, body)).rejects.toMatchObject({ exception: 'OpenSearchParseException' });
    },
  );

  it('are updated in response and additional_info only, and show it then', async () => {
    const id = await named('talk');
    const { message_id: message } = await memory.addMessage(me, id, { input: 'q' });
    clock.advance(7);
    const outcome = await memory.updateMessage(me, message, {
      response: 'a',
      additional_info: { n: 1 },
      input: 'other',
    });
    expect(outcome).toMatchObject({ id: message, version: 2, result: 'updated' });
    expect(await memory.message(me, message)).toMatchObject({
      input: 'q',
      response: 'a',
      additional_info: { n: 1 },
      updated_time: new Date(clock.now()).toISOString(),
    });
    await expect(memory.updateMessage(me, 'nobody', {})).rejects.toMatchObject(notFound('Message [nobody]'));
  });
});
