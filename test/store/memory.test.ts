import { expect, it } from 'vitest';
import { UniqueViolation } from '../../src/store/database.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { onEachEngine } from '../support/databases.ts';

const PAGE = { limit: 100, offset: 0 };

onEachEngine('memory', (database) => {
  it('is created, changed and read back', async () => {
    let time = 10;
    const memory = createMemoryStore(database(), { now: () => time });
    expect(await memory.any()).toBe(false);
    const created = await memory.create({ id: 'm', name: 'talk', applicationType: 'x', additionalInfo: '{"a":1}' });
    expect(created).toEqual({
      id: 'm',
      name: 'talk',
      applicationType: 'x',
      additionalInfo: '{"a":1}',
      owner: undefined,
      createTime: 10,
      updatedTime: 10,
    });
    time = 20;
    expect(await memory.update('m', { name: 'renamed' })).toMatchObject({ id: 'm', version: 2, result: 'updated' });
    expect(await memory.get('m')).toEqual({ ...created, name: 'renamed', updatedTime: 20 });
    expect(await memory.update('none', { name: 'x' })).toMatchObject({ result: 'not_found' });
    expect(await memory.any()).toBe(true);
  });

  it('refuses a taken id', async () => {
    const memory = createMemoryStore(database());
    await memory.create({ id: 'm' });
    await expect(memory.create({ id: 'm' })).rejects.toBeInstanceOf(UniqueViolation);
  });

  it('lists the conversation touched last first, in pages', async () => {
    let time = 0;
    const memory = createMemoryStore(database(), { now: () => time });
    for (const id of ['a', 'b', 'c', 'd']) await memory.create({ id });
    expect((await memory.list(PAGE)).map(({ id }) => id)).toEqual(['d', 'c', 'b', 'a']);
    time = 1;
    await memory.append({ id: 'g', memoryId: 'b' });
    expect((await memory.list(PAGE)).map(({ id }) => id)).toEqual(['b', 'd', 'c', 'a']);
    expect((await memory.list({ limit: 2, offset: 1 })).map(({ id }) => id)).toEqual(['d', 'c']);
  });

  it('numbers messages 1, 2, … in each conversation and keeps every field, four-byte text too', async () => {
    const memory = createMemoryStore(database(), { now: () => 7 });
    await memory.create({ id: 'm' });
    await memory.create({ id: 'other' });
    const fields = {
      input: 'last? 🦉 𝄞',
      promptTemplate: 'p',
      response: '👩‍👩‍👧 "quoted" \\ \n',
      origin: 'agent',
      additionalInfo: '{"é":"漢"}',
    };
    const first = await memory.append({ id: 'g1', memoryId: 'm', ...fields });
    expect(first).toEqual({ id: 'g1', memoryId: 'm', seq: 1, ...fields, createTime: 7, updatedTime: undefined });
    expect(await memory.message('g1')).toEqual(first);
    expect(await memory.append({ id: 'g2', memoryId: 'm' })).toMatchObject({ seq: 2 });
    expect(await memory.append({ id: 'g3', memoryId: 'other' })).toMatchObject({ seq: 1 });
    expect(await memory.append({ id: 'g4', memoryId: 'none' })).toBeUndefined();
    expect(await memory.message('g4')).toBeUndefined();
  });

  it('gives concurrent messages of one conversation different numbers without a gap', async () => {
    const memory = createMemoryStore(database());
    await memory.create({ id: 'm' });
    const appended = await Promise.all(
      Array.from({ length: 20 }, (_, index) => memory.append({ id: `g${index}`, memoryId: 'm' })),
    );
    const numbers = appended.map((message) => message?.seq ?? 0).sort((a, b) => a - b);
    expect(numbers).toEqual(Array.from({ length: 20 }, (_, index) => index + 1));
  });

  it('tells the newest by sequence when all times are equal', async () => {
    const memory = createMemoryStore(database(), { now: () => 1 });
    await memory.create({ id: 'm' });
    for (let turn = 1; turn <= 12; turn++) {
      await memory.append({ id: `${100 - turn}`, memoryId: 'm', input: `q${turn}`, response: `a${turn}` });
    }
    expect((await memory.latestFinished('m', 3)).map(({ input }) => input)).toEqual(['q10', 'q11', 'q12']);
    expect((await memory.messages('m', { limit: 2, offset: 1 })).map(({ input }) => input)).toEqual(['q2', 'q3']);
  });

  it('keeps traces apart from turns, in the order of their numbers', async () => {
    const memory = createMemoryStore(database());
    await memory.create({ id: 'm' });
    await memory.append({ id: 'turn', memoryId: 'm', input: 'q', response: 'a' });
    for (const traceNumber of [10, 2, 1]) {
      const trace = { id: `t${traceNumber}`, memoryId: 'm', parentMessageId: 'turn', traceNumber, response: 'step' };
      await memory.append(trace);
    }
    expect((await memory.messages('m', PAGE)).map(({ id }) => id)).toEqual(['turn']);
    expect((await memory.latestFinished('m', 10)).map(({ id }) => id)).toEqual(['turn']);
    expect((await memory.traces('turn', PAGE)).map(({ id }) => id)).toEqual(['t1', 't2', 't10']);
    expect((await memory.traces('turn', { limit: 1, offset: 1 })).map(({ traceNumber }) => traceNumber)).toEqual([2]);
  });

  it('counts a turn as finished only with a response that is not empty', async () => {
    const memory = createMemoryStore(database());
    await memory.create({ id: 'm' });
    await memory.append({ id: 'g1', memoryId: 'm', input: 'q1', response: 'a1' });
    await memory.append({ id: 'g2', memoryId: 'm', input: 'q2', response: '' });
    await memory.append({ id: 'g3', memoryId: 'm', input: 'q3' });
    expect((await memory.latestFinished('m', 10)).map(({ id }) => id)).toEqual(['g1']);
    expect(await memory.updateMessage('g2', { response: 'a2' })).toMatchObject({ version: 2, result: 'updated' });
    expect((await memory.latestFinished('m', 10)).map(({ response }) => response)).toEqual(['a1', 'a2']);
    expect(await memory.updateMessage('none', { response: 'x' })).toMatchObject({ result: 'not_found' });
  });

  it('changes of a message only what is given', async () => {
    let time = 1;
    const memory = createMemoryStore(database(), { now: () => time });
    await memory.create({ id: 'm' });
    const before = await memory.append({ id: 'g', memoryId: 'm', input: 'q', response: 'a' });
    time = 9;
    await memory.updateMessage('g', { additionalInfo: '{"k":1}' });
    expect(await memory.message('g')).toEqual({ ...before, additionalInfo: '{"k":1}', updatedTime: 9 });
  });

  it('deletes a conversation with its messages', async () => {
    const memory = createMemoryStore(database());
    await memory.create({ id: 'm' });
    await memory.append({ id: 'g', memoryId: 'm' });
    expect(await memory.delete('m')).toBe(true);
    expect(await memory.delete('m')).toBe(false);
    expect(await memory.get('m')).toBeUndefined();
    expect(await memory.message('g')).toBeUndefined();
  });

  it('takes a text with U+0000 from a model', async () => {
    const memory = createMemoryStore(database());
    await memory.create({ id: 'm' });
    await memory.append({ id: 'g', memoryId: 'm', response: 'before\0after' });
    const kept = database().kind === 'sqlite' ? 'before\0after' : 'before\uFFFDafter';
    expect((await memory.message('g'))?.response).toBe(kept);
  });
});
