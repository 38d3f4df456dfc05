import { expect, it } from 'vitest';
import { UniqueViolation } from '../../src/store/database.ts';
import { createMcpToolStore } from '../../src/store/mcp-tools.ts';
import { onEachEngine } from '../support/databases.ts';

const tool = (name: string, hash = 'h1') => ({ name, hash, definition: { name, description: `${name} 🦉` } });

onEachEngine('registered MCP tools', (database) => {
  it('come back in the order of the server, absent ones last', async () => {
    let time = 1;
    const tools = createMcpToolStore(database(), { now: () => time });
    await tools.replace('c', [tool('zeta'), tool('alpha'), tool('mid')]);
    await tools.replace('other', [tool('zeta')]);
    time = 2;
    await tools.replace('c', [tool('new'), tool('mid', 'h2'), tool('zeta')]);
    const rows = await tools.list('c');
    expect(rows.map(({ name, present, hash }) => [name, present, hash])).toEqual([
      ['new', true, 'h1'],
      ['mid', true, 'h2'],
      ['zeta', true, 'h1'],
      ['alpha', false, 'h1'],
    ]);
    expect(rows.map(({ firstSeenTime, lastSeenTime }) => [firstSeenTime, lastSeenTime])).toEqual([
      [2, 2],
      [1, 2],
      [1, 2],
      [1, 1],
    ]);
    expect(rows[0]?.definition).toEqual({ name: 'new', description: 'new 🦉' });
  });

  it('become present again when they come back', async () => {
    const tools = createMcpToolStore(database());
    await tools.replace('c', [tool('a')]);
    await tools.replace('c', []);
    expect(await tools.list('c')).toMatchObject([{ name: 'a', present: false }]);
    await tools.replace('c', [tool('a')]);
    expect(await tools.list('c')).toMatchObject([{ name: 'a', present: true }]);
  });

  it('may be many, and may repeat a name: the first one counts', async () => {
    const tools = createMcpToolStore(database());
    const many = Array.from({ length: 1203 }, (_, index) => tool(`tool-${index}`));
    await tools.replace('c', [...many, tool('tool-0', 'twin')]);
    const rows = await tools.list('c');
    expect(rows.map(({ name }) => name)).toEqual(many.map(({ name }) => name));
    expect(rows[0]?.hash).toBe('h1');
  });

  it('are kept when they are absent, but no more than the 1,000 seen last', async () => {
    let time = 1;
    const tools = createMcpToolStore(database(), { now: () => time });
    for (const round of [1, 2, 3]) {
      time = round;
      await tools.replace(
        'c',
        Array.from({ length: 600 }, (_, index) => tool(`round-${round}-${index}`)),
      );
    }
    await tools.replace('other', [tool('a')]);
    time = 4;
    await tools.replace('other', []);
    const rows = await tools.list('c');
    const absent = rows.filter((row) => !row.present).map(({ lastSeenTime }) => lastSeenTime);
    expect(rows.filter((row) => row.present)).toHaveLength(600);
    expect(absent.filter((seen) => seen === 2)).toHaveLength(600);
    expect(absent.filter((seen) => seen === 1)).toHaveLength(400);
    expect(await tools.list('other')).toHaveLength(1);
  });

  it('go with their connector', async () => {
    const tools = createMcpToolStore(database());
    await tools.replace('c', [tool('a')]);
    await tools.replace('other', [tool('a')]);
    await tools.deleteOf('c');
    expect(await tools.list('c')).toEqual([]);
    expect(await tools.list('other')).toHaveLength(1);
  });
});

onEachEngine('offered names', (database) => {
  it('of absent tools are given up, the oldest first, when an agent has very many', async () => {
    let time = 1;
    const tools = createMcpToolStore(database(), { now: () => time++ });
    await tools.replace('c', [tool('in-use')]);
    const rows = ['in-use', ...Array.from({ length: 8191 }, (_, index) => `gone-${index}`)].map((name, index) => ({
      ...{ agent_id: 'a', offered_as: name, connector_id: 'c', tool: name, create_time: index - 10_000 },
    }));
    for (let start = 0; start < rows.length; start += 100) {
      const values = rows.slice(start, start + 100);
      await database().kysely.insertInto('offered_names').values(values).execute();
    }
    await tools.claimName('b', { offeredAs: 'gone-0', connectorId: 'c', tool: 'gone-0' });
    expect(await tools.offeredNames('a')).toHaveLength(8192);
    await tools.claimName('a', { offeredAs: 'new', connectorId: 'c', tool: 'new' });
    const names = (await tools.offeredNames('a')).map(({ offeredAs }) => offeredAs);
    expect(names).toHaveLength(4096);
    expect([names[0], names[1], names.at(-1)]).toEqual(['in-use', 'gone-4097', 'new']);
    expect(await tools.offeredNames('b')).toHaveLength(1);
  });

  it('are claimed once for each name and each tool of an agent', async () => {
    let time = 1;
    const tools = createMcpToolStore(database(), { now: () => time++ });
    await tools.claimName('a', { offeredAs: 'search', connectorId: 'c1', tool: 'search' });
    await tools.claimName('a', { offeredAs: 'c2_search', connectorId: 'c2', tool: 'search' });
    await tools.claimName('b', { offeredAs: 'search', connectorId: 'c1', tool: 'search' });
    for (const taken of [
      { offeredAs: 'search', connectorId: 'c3', tool: 'search' },
      { offeredAs: 'again', connectorId: 'c1', tool: 'search' },
    ]) {
      await expect(tools.claimName('a', taken)).rejects.toBeInstanceOf(UniqueViolation);
    }
    expect(await tools.offeredNames('a')).toEqual([
      { offeredAs: 'search', connectorId: 'c1', tool: 'search' },
      { offeredAs: 'c2_search', connectorId: 'c2', tool: 'search' },
    ]);
    await tools.deleteNames('a');
    expect(await tools.offeredNames('a')).toEqual([]);
    expect(await tools.offeredNames('b')).toHaveLength(1);
  });
});
