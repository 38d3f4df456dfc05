import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OPEN_PRINCIPAL } from '../../src/identity/principals.ts';
import { newId } from '../../src/ids.ts';
import { createConversationLocks } from '../../src/memory/conversation-locks.ts';
import { type Conversations, createConversations } from '../../src/memory/conversations.ts';
import { createMemoryStore, type MemoryStore } from '../../src/store/memory.ts';
import { sqliteDatabase } from '../support/databases.ts';

const me = OPEN_PRINCIPAL;
const never = new AbortController().signal;
let fresh: Awaited<ReturnType<typeof sqliteDatabase>>;
let store: MemoryStore;
let conversations: Conversations;
beforeEach(async () => {
  fresh = await sqliteDatabase();
  store = createMemoryStore(fresh.database, { now: () => 1 });
  conversations = createConversations({ store, settings: { flag: () => true } });
});
afterEach(() => fresh.dispose());

/** A memory that is stored already. */
async function memory(): Promise<string> {
  const { id } = await store.create({ id: newId(), name: 'q' });
  return id;
}

async function turn(memoryId: string, question: string, answer?: string): Promise<string> {
  const open = await conversations.begin({ memoryId }, question);
  if (answer !== undefined) await open.finish(answer, {});
  return open.messageId;
}

describe('a conversation', () => {
  it('is made with the name of the question and stored with it, or is the one that is named', async () => {
    const made = await conversations.open(me, undefined, 'why? 🦉');
    const { memoryId } = made;
    expect(await store.get(memoryId)).toBeUndefined();
    const { messageId } = await conversations.begin(made, 'why? 🦉');
    expect(await store.get(memoryId)).toMatchObject({ name: 'why? 🦉' });
    expect(await store.message(messageId)).toMatchObject({ memoryId, input: 'why? 🦉' });
    expect(await conversations.open(me, memoryId, 'other')).toEqual({ memoryId });
    await expect(conversations.open(me, 'nobody', 'x')).rejects.toMatchObject({
      statusCode: 404,
      message: 'Memory [nobody] not found',
    });
    const long = await conversations.open(me, undefined, 'x'.repeat(5000));
    expect(long.unsaved?.name).toHaveLength(1000);
  });

  it('begins wholly or not at all in the transaction it is given', async () => {
    const made = await conversations.open(me, undefined, 'q');
    const failing = fresh.database.write(async (within) => {
      await conversations.begin(made, 'q', { within });
      throw new Error('the run could not begin');
    });
    await expect(failing).rejects.toThrow('the run could not begin');
    expect(await store.get(made.memoryId)).toBeUndefined();
    expect(await store.messages(made.memoryId, { limit: 10, offset: 0 })).toEqual([]);
  });

  it('moves its time when a turn begins and ends, and with no trace', async () => {
    let time = 0;
    const clocked = createMemoryStore(fresh.database, { now: () => time });
    const own = createConversations({ store: clocked, settings: { flag: () => true } });
    const made = await own.open(me, undefined, 'q');
    const updated = async () => (await clocked.get(made.memoryId))?.updatedTime;
    time = 10;
    const open = await own.begin(made, 'q');
    time = 20;
    await open.trace({ origin: 'LLM', input: 'q', response: 'calls' });
    expect(await updated()).toBe(10);
    time = 30;
    await open.finish('a', {});
    expect(await updated()).toBe(30);
  });

  it('stores the question first, traces below it, and the answer at the end', async () => {
    const id = await memory();
    const open = await conversations.begin({ memoryId: id }, 'q');
    expect(await store.message(open.messageId)).toMatchObject({ memoryId: id, input: 'q', response: '' });
    await open.trace({ origin: 'LLM', input: 'q', response: 'calls' });
    await open.trace({ origin: 'echo', input: '{}', response: 'x' });
    await open.finish('a', { 'echo.output': 'x' });
    expect(await store.message(open.messageId)).toMatchObject({
      response: 'a',
      additionalInfo: '{"echo.output":"x"}',
    });
    expect(await store.traces(open.messageId, { limit: 10, offset: 0 })).toMatchObject([
      { origin: 'LLM', traceNumber: 1, input: 'q', response: 'calls' },
      { origin: 'echo', traceNumber: 2, input: '{}', response: 'x' },
    ]);
  });

  it('remembers the newest finished turns by their order, not by their time', async () => {
    const id = await memory();
    for (let n = 1; n <= 12; n += 1) await turn(id, `q${n}`, `a${n}`);
    await turn(id, 'unfinished');
    expect(await conversations.history(id, 2)).toEqual([
      { question: 'q11', answer: 'a11' },
      { question: 'q12', answer: 'a12' },
    ]);
    expect(await conversations.history(id, 0)).toEqual([]);
    expect(await conversations.history(id, 100)).toHaveLength(12);
  });

  it('remembers what was before a given message only', async () => {
    const id = await memory();
    await turn(id, 'q1', 'a1');
    await turn(id, 'q2', 'a2');
    const third = await turn(id, 'q3', 'a3');
    const row = await conversations.message(id, third);
    expect(await conversations.history(id, 1, row)).toEqual([{ question: 'q2', answer: 'a2' }]);
  });

  it('knows its own messages only, and no traces', async () => {
    const id = await memory();
    const other = await memory();
    const message = await turn(other, 'q', 'a');
    await expect(conversations.message(id, message)).rejects.toMatchObject({ statusCode: 404 });
    await expect(conversations.message(id, 'nobody')).rejects.toMatchObject({ message: 'Message [nobody] not found' });
    await store.append({ id: 'trace', memoryId: other, parentMessageId: message, traceNumber: 1, input: 'x' });
    await expect(conversations.message(other, 'trace')).rejects.toMatchObject({ statusCode: 400 });
  });

  it('takes up a message again', async () => {
    const id = await memory();
    const message = await turn(id, 'q');
    const open = await conversations.begin({ memoryId: id }, 'q', { messageId: message });
    expect(open.messageId).toBe(message);
    expect(await store.messages(id, { limit: 10, offset: 0 })).toHaveLength(1);
  });

  it('that was deleted under way says so', async () => {
    const id = await memory();
    const open = await conversations.begin({ memoryId: id }, 'q');
    await store.delete(id);
    await expect(open.trace({ origin: 'LLM', input: '', response: '' })).rejects.toMatchObject({ statusCode: 404 });
    await expect(open.finish('a', {})).rejects.toMatchObject({ statusCode: 404 });
    await expect(conversations.begin({ memoryId: id }, 'q')).rejects.toMatchObject({ statusCode: 404 });
  });

  it('is not begun while the feature is off', async () => {
    const off = createConversations({ store, settings: { flag: () => false } });
    await expect(off.open(me, undefined, 'q')).rejects.toMatchObject({ statusCode: 500 });
  });
});

describe('conversation locks', () => {
  const gate = () => {
    let open: () => void = () => undefined;
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    return { opened, open };
  };

  it('run the work of one key in order and of others beside it', async () => {
    const locks = createConversationLocks();
    const first = gate();
    const order: string[] = [];
    const work = (name: string, wait?: Promise<void>) => async () => {
      order.push(`${name}+`);
      await wait;
      order.push(`${name}-`);
      return name;
    };
    const a1 = locks.run('a', never, work('a1', first.opened));
    const a2 = locks.run('a', never, work('a2'));
    const a3 = locks.run('a', never, work('a3'));
    expect(await locks.run('b', never, work('b'))).toBe('b');
    first.open();
    expect(await Promise.all([a1, a2, a3])).toEqual(['a1', 'a2', 'a3']);
    expect(order).toEqual(['a1+', 'b+', 'b-', 'a1-', 'a2+', 'a2-', 'a3+', 'a3-']);
  });

  it('pass on after a failure', async () => {
    const locks = createConversationLocks();
    const failed = locks.run('a', never, () => Promise.reject(new Error('x')));
    const next = locks.run('a', never, async () => 'fine');
    await expect(failed).rejects.toThrow('x');
    expect(await next).toBe('fine');
  });

  it('let one who gave up waiting go without letting others in early', async () => {
    const locks = createConversationLocks();
    const first = gate();
    const controller = new AbortController();
    const order: string[] = [];
    const a1 = locks.run('a', never, async () => {
      await first.opened;
      order.push('a1');
    });
    const gone = locks.run('a', controller.signal, async () => void order.push('gone'));
    const a3 = locks.run('a', never, async () => void order.push('a3'));
    controller.abort(new Error('client gone'));
    await expect(gone).rejects.toThrow('client gone');
    expect(order).toEqual([]);
    first.open();
    await Promise.all([a1, a3]);
    expect(order).toEqual(['a1', 'a3']);
    await expect(locks.run('b', AbortSignal.abort(new Error('late')), async () => 1)).rejects.toThrow('late');
  });
});
