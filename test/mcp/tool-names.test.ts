import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { offeredAlone, offeredName, toolNamed } from '../../src/mcp/tool-names.ts';

const free = (): boolean => false;
const name = (tool: string, more: Partial<Parameters<typeof offeredName>[0]> = {}): string =>
  offeredName({ connectorName: 'my server', tool, isTaken: free, ...more });

describe('offered names', () => {
  it.each([
    ['get_weather', 'get_weather'],
    ['a'.repeat(64), 'a'.repeat(64)],
    ['calendar.list', 'my_server_calendar_list'],
    ['user-profile/update', 'my_server_user-profile_update'],
    ['Get File', 'my_server_Get_File'],
    ['日程', 'my_server___'],
    ['😀', 'my_server__'],
  ])('offers %s as %s', (tool, offered) => {
    expect(name(tool)).toBe(offered);
  });

  it('shortens a long name with a stable suffix', () => {
    expect(name('x'.repeat(70))).toMatch(/^my_server_x{45}_[0-9a-f]{8}$/);
    expect(name('x'.repeat(70))).toBe(name('x'.repeat(70)));
    expect(name('x'.repeat(70))).not.toBe(name(`${'x'.repeat(69)}y`));
  });

  it('cuts the server to 24 characters', () => {
    expect(name('a.b', { connectorName: 's'.repeat(40) })).toBe(`${'s'.repeat(24)}_a_b`);
  });

  it('gives the prefix when the own name is taken, and a suffix when both are', () => {
    expect(name('send', { isTaken: (given) => given === 'send' })).toBe('my_server_send');
    const both = name('send', { isTaken: (given) => given === 'send' || given === 'my_server_send' });
    expect(both).toMatch(/^my_server_send_[0-9a-f]{8}$/);
  });

  it('of a declared server carry its whole name, which is cut only where both are too long', () => {
    const always = { forcePrefix: true };
    expect(name('send', always)).toBe('my_server_send');
    const long = { ...always, connectorName: 's'.repeat(40) };
    expect(name('a.b', long)).toBe(`${'s'.repeat(40)}_a_b`);
    expect(name('x'.repeat(23), long)).toBe(`${'s'.repeat(40)}_${'x'.repeat(23)}`);
    expect(name('x'.repeat(24), long)).toMatch(/^s{24}_x{24}_[0-9a-f]{8}$/);
    expect(name('x'.repeat(24), long)).not.toBe(name('x'.repeat(24), { ...long, connectorName: 's'.repeat(41) }));
    expect([...offeredAlone('s', ['a', 'b.c'], always)]).toEqual([
      ['s_a', 'a'],
      ['s_b_c', 'b.c'],
    ]);
    expect(toolNamed('s', { tools: [{ name: 'b.c' }] }, 's_b_c', always)).toBe('b.c');
  });

  it('keeps tools apart whose names become the same', () => {
    const offered = offeredAlone('s', ['a.b', 'a b', 's_a_b']);
    expect(offered.size).toBe(3);
    expect([...offered.values()]).toEqual(['a.b', 'a b', 's_a_b']);
  });

  it('always prefixes where asked to', () => {
    expect(name('send', { forcePrefix: true })).toBe('my_server_send');
  });

  it('is always legal and never taken', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary', maxLength: 140 }),
        fc.string(),
        fc.nat(4),
        (tool, connectorName, rounds) => {
          const taken = new Set<string>();
          for (let round = 0; round <= rounds; round += 1) {
            const offered = offeredName({ connectorName, tool, isTaken: (given) => taken.has(given) });
            expect(offered).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
            expect(taken.has(offered)).toBe(false);
            taken.add(offered);
          }
        },
      ),
    );
  });

  it('finds a tool by its own name first, then by an offered one', () => {
    const list = { tools: [{ name: 'a.b' }, { name: 's_a_b' }, { name: 'send' }] };
    expect(toolNamed('s', list, 'a.b')).toBe('a.b');
    expect(toolNamed('s', list, 's_a_b')).toBe('s_a_b');
    expect(toolNamed('s', list, 's_send')).toBe('send');
    expect(toolNamed('s', list, 'nothing')).toBeUndefined();
  });
});
