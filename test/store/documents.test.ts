import { expect, it } from 'vitest';
import { UniqueViolation } from '../../src/store/database.ts';
import { createDocuments } from '../../src/store/documents.ts';
import { onEachEngine } from '../support/databases.ts';

onEachEngine('documents', (database) => {
  it('keeps a document with its times, version and sequence number', async () => {
    const documents = createDocuments(database(), { now: () => 1_700_000_000_123 });
    const outcome = await documents.insert('connector', 'c1', { name: 'weather 🦉', body: { deep: [{ a: null }] } });
    expect(outcome).toEqual({ id: 'c1', version: 1, seqNo: 0, result: 'created' });
    expect(await documents.get('connector', 'c1')).toEqual({
      kind: 'connector',
      id: 'c1',
      name: 'weather 🦉',
      body: { deep: [{ a: null }] },
      version: 1,
      seqNo: 0,
      createdTime: 1_700_000_000_123,
      lastUpdatedTime: 1_700_000_000_123,
    });
  });

  it('keeps kinds apart: one id in two kinds, sequence numbers for each', async () => {
    const documents = createDocuments(database());
    await documents.insert('connector', 'same', { body: {} });
    expect(await documents.insert('model', 'same', { body: {} })).toMatchObject({ seqNo: 0 });
    expect(await documents.get('agent', 'same')).toBeUndefined();
    expect(await documents.count('model')).toBe(1);
    expect(await documents.count('agent')).toBe(0);
  });

  it('refuses a taken id and stores nothing of the second document', async () => {
    const documents = createDocuments(database());
    await documents.insert('agent', 'a', { body: { first: true }, sealed: 'sealed-1' });
    const second = documents.insert('agent', 'a', { body: { first: false }, sealed: 'sealed-2' });
    await expect(second).rejects.toBeInstanceOf(UniqueViolation);
    expect((await documents.get('agent', 'a'))?.body).toEqual({ first: true });
    expect(await documents.sealedCredential('agent', 'a')).toBe('sealed-1');
  });

  it('updates from what is stored, counts versions and goes on with the sequence', async () => {
    let time = 1000;
    const documents = createDocuments(database(), { now: () => time });
    await documents.insert('model', 'm', { name: 'old', body: { count: 1 } });
    time = 2000;
    const outcome = await documents.update('model', 'm', (current) => ({
      name: 'new',
      body: { count: Number(current.body.count) + 1 },
    }));
    expect(outcome).toEqual({ id: 'm', version: 2, seqNo: 1, result: 'updated' });
    expect(await documents.get('model', 'm')).toMatchObject({
      name: 'new',
      body: { count: 2 },
      createdTime: 1000,
      lastUpdatedTime: 2000,
    });
  });

  it('keeps name, references and credential that an update does not mention', async () => {
    const documents = createDocuments(database());
    const target = { kind: 'connector', id: 'c' } as const;
    await documents.insert('model', 'm', { name: 'kept', body: {}, references: [target], sealed: 'secret' });
    await documents.update('model', 'm', () => ({ body: { changed: true } }));
    expect(await documents.get('model', 'm')).toMatchObject({ name: 'kept', body: { changed: true } });
    expect(await documents.referencing('model', target)).toEqual(['m']);
    expect(await documents.sealedCredential('model', 'm')).toBe('secret');
  });

  it('replaces and removes references and credential when an update gives them', async () => {
    const documents = createDocuments(database());
    const [before, after] = [
      { kind: 'connector', id: 'before' },
      { kind: 'connector', id: 'after' },
    ] as const;
    await documents.insert('model', 'm', { body: {}, references: [before], sealed: 'one' });
    await documents.update('model', 'm', () => ({ body: {}, references: [after, after], sealed: 'two' }));
    expect(await documents.referencing('model', before)).toEqual([]);
    expect(await documents.referencing('model', after)).toEqual(['m']);
    expect(await documents.sealedCredential('model', 'm')).toBe('two');
    await documents.update('model', 'm', () => ({ body: {}, references: [], sealed: null }));
    expect(await documents.referencing('model', after)).toEqual([]);
    expect(await documents.sealedCredential('model', 'm')).toBeUndefined();
  });

  it('answers noop or not_found, or passes on the refusal, and then leaves the row alone', async () => {
    const documents = createDocuments(database());
    await documents.insert('agent', 'a', { body: { kept: true } });
    expect(await documents.update('agent', 'a', () => undefined)).toEqual({
      id: 'a',
      version: 1,
      seqNo: 0,
      result: 'noop',
    });
    expect(await documents.update('agent', 'b', () => ({ body: {} }))).toMatchObject({ result: 'not_found' });
    const refused = documents.update('agent', 'a', () => {
      throw new Error('not like that');
    });
    await expect(refused).rejects.toThrow('not like that');
    expect(await documents.get('agent', 'a')).toMatchObject({ body: { kept: true }, version: 1, seqNo: 0 });
  });

  it('loses no change when many updates of one document meet', async () => {
    const documents = createDocuments(database());
    await documents.insert('agent', 'a', { body: { count: 0 } });
    await Promise.all(
      Array.from({ length: 12 }, () =>
        documents.update('agent', 'a', ({ body }) => ({ body: { count: Number(body.count) + 1 } })),
      ),
    );
    expect(await documents.get('agent', 'a')).toMatchObject({ body: { count: 12 }, version: 13, seqNo: 12 });
  });

  it('deletes with references and credential, and never gives a sequence number twice', async () => {
    const documents = createDocuments(database());
    const target = { kind: 'connector', id: 'c' } as const;
    await documents.insert('model', 'm', { body: {}, references: [target], sealed: 'secret' });
    expect(await documents.delete('model', 'm')).toEqual({ id: 'm', version: 2, seqNo: 1, result: 'deleted' });
    expect(await documents.get('model', 'm')).toBeUndefined();
    expect(await documents.referencing('model', target)).toEqual([]);
    expect(await documents.sealedCredential('model', 'm')).toBeUndefined();
    expect(await documents.delete('model', 'm')).toMatchObject({ version: 1, result: 'not_found' });
    expect((await documents.insert('model', 'm', { body: {} })).seqNo).toBeGreaterThan(1);
  });

  it('lists what points at a document in the order of creation, also within one millisecond and after updates', async () => {
    const documents = createDocuments(database(), { now: () => 5 });
    const target = { kind: 'model', id: 'm' } as const;
    for (const id of ['z', 'a', 'k']) await documents.insert('agent', id, { body: {}, references: [target] });
    await documents.update('agent', 'z', () => ({ body: {} }));
    expect(await documents.referencing('agent', target)).toEqual(['z', 'a', 'k']);
    expect(await documents.referencing('model', target)).toEqual([]);
  });

  it('finds by name the oldest of several, in its kind only', async () => {
    const documents = createDocuments(database(), { now: () => 5 });
    await documents.insert('model', 'x', { name: 'twin', body: {} });
    await documents.insert('model_group', 'z', { name: 'twin', body: {} });
    await documents.insert('model_group', 'a', { name: 'twin', body: {} });
    expect((await documents.findByName('model_group', 'twin'))?.id).toBe('z');
    expect(await documents.findByName('model_group', 'Twin')).toBeUndefined();
  });

  it('finds nothing, without a fault, for an id no engine could hold', async () => {
    const documents = createDocuments(database());
    expect(await documents.get('agent', 'a\0b')).toBeUndefined();
  });
});
