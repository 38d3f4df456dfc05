import { expect, it } from 'vitest';
import { createToolPinStore } from '../../src/store/tool-pins.ts';
import { onEachEngine } from '../support/databases.ts';

const tool = (name: string, hash = 'h1', connectorId = 'c') => ({
  connectorId,
  tool: name,
  hash,
  definition: { name, description: `${hash} 🦉` },
});

onEachEngine('pinned tool definitions', (database) => {
  it('stay as they were pinned first', async () => {
    let time = 10;
    const pins = createToolPinStore(database(), { now: () => time });
    await pins.pin('a', [tool('send'), tool('read'), tool('send', 'h1', 'other')]);
    time = 20;
    await pins.pin('a', [tool('send', 'h2'), tool('late')]);
    await pins.pin('b', [tool('send', 'h9')]);
    expect(await pins.list('a')).toEqual([
      { connectorId: 'c', tool: 'late', hash: 'h1', pinnedTime: 20, shown: {} },
      { connectorId: 'c', tool: 'read', hash: 'h1', pinnedTime: 10, shown: {} },
      { connectorId: 'c', tool: 'send', hash: 'h1', pinnedTime: 10, shown: {} },
      { connectorId: 'other', tool: 'send', hash: 'h1', pinnedTime: 10, shown: {} },
    ]);
    expect((await pins.full('b'))[0]).toMatchObject({ hash: 'h9', definition: { name: 'send', description: 'h9 🦉' } });
  });

  it('are kept beside the newest other definition, which is news once', async () => {
    const pins = createToolPinStore(database(), { now: () => 1 });
    await pins.pin('a', [tool('send')]);
    expect(await pins.note('a', tool('send'))).toBe(false);
    expect(await pins.note('a', tool('send', 'h2'))).toBe(true);
    expect(await pins.note('a', tool('send', 'h2'))).toBe(false);
    expect(await pins.note('a', tool('send', 'h3'))).toBe(true);
    expect(await pins.note('a', tool('late', 'h4'))).toBe(true);
    expect(await pins.full('a')).toEqual([
      { connectorId: 'c', tool: 'late', seenHash: 'h4', shown: {}, seenDefinition: tool('late', 'h4').definition },
      {
        connectorId: 'c',
        tool: 'send',
        hash: 'h1',
        pinnedTime: 1,
        seenHash: 'h3',
        shown: {},
        definition: tool('send').definition,
        seenDefinition: tool('send', 'h3').definition,
      },
    ]);
    await pins.pin('a', [tool('late', 'h4')]);
    expect((await pins.list('a'))[0]).toEqual({ connectorId: 'c', tool: 'late', hash: 'h4', pinnedTime: 1, shown: {} });
  });

  it('are replaced by what somebody approves, and what was looked at is forgotten', async () => {
    const pins = createToolPinStore(database(), { now: () => 5 });
    await pins.pin('a', [tool('send')]);
    await pins.note('a', tool('send', 'h2'));
    await pins.show('a', 'user:ann', [tool('send', 'h2')]);
    await pins.show('a', 'user:bob', [tool('send', 'h3')]);
    expect((await pins.list('a'))[0]?.shown).toEqual({ 'user:ann': 'h2', 'user:bob': 'h3' });
    await pins.approve('a', tool('send', 'h2'), 'ann');
    await pins.approve('a', tool('late'), 'bob');
    expect(await pins.list('a')).toEqual([
      { connectorId: 'c', tool: 'late', hash: 'h1', pinnedTime: 5, approvedBy: 'bob', approvedTime: 5, shown: {} },
      { connectorId: 'c', tool: 'send', hash: 'h2', pinnedTime: 5, approvedBy: 'ann', approvedTime: 5, shown: {} },
    ]);
  });

  it('remember the last look of the 50 who looked last', async () => {
    const pins = createToolPinStore(database());
    await pins.note('a', tool('send', 'h2'));
    for (let index = 0; index < 60; index += 1) await pins.show('a', `user:${index}`, [tool('send', `h${index}`)]);
    await pins.show('a', 'user:20', [tool('send', 'again')]);
    const shown = (await pins.list('a'))[0]?.shown ?? {};
    expect(Object.keys(shown)).toHaveLength(50);
    expect(shown).toMatchObject({ 'user:20': 'again', 'user:59': 'h59' });
    expect(shown).not.toHaveProperty('user:9');
  });

  it('may be many', async () => {
    const pins = createToolPinStore(database());
    await pins.pin(
      'a',
      Array.from({ length: 512 }, (_, index) => tool(`t${index}`)),
    );
    expect(await pins.list('a')).toHaveLength(512);
  });

  it('go with their agent, or with one of its connectors', async () => {
    const pins = createToolPinStore(database());
    await pins.pin('a', [tool('send'), tool('send', 'h1', 'other'), tool('send', 'h1', 'third')]);
    await pins.pin('b', [tool('send')]);
    await pins.deleteOf('a', []);
    await pins.deleteOf('a', ['c', 'other']);
    expect((await pins.list('a')).map(({ connectorId }) => connectorId)).toEqual(['third']);
    await pins.deleteOf('a');
    expect(await pins.list('a')).toEqual([]);
    expect(await pins.list('b')).toHaveLength(1);
  });
});
