import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createLiteralMatcher, type LiteralMatcher } from '../../src/telemetry/literal-matcher.ts';

function matcherOf(...texts: string[]): LiteralMatcher {
  const matcher = createLiteralMatcher();
  for (const text of texts) matcher.add(text);
  return matcher;
}

describe('a literal matcher', () => {
  it('finds nothing before anything was added', () => {
    expect(createLiteralMatcher().match('abc', 0)).toBe(-1);
  });
  it('finds the longest text that begins at a place', () => {
    const matcher = matcherOf('abcd', 'ab', 'abcdef', 'xyz');
    expect([0, 1, 7].map((from) => matcher.match('abcde..xyz', from))).toEqual([4, -1, 10]);
  });
  it('takes a text of certain length as far as it agrees', () => {
    const matcher = matcherOf('a'.repeat(100));
    expect(matcher.match('a'.repeat(63), 0)).toBe(-1);
    expect(matcher.match('a'.repeat(64), 0)).toBe(64);
    expect(matcher.match(`${'a'.repeat(80)}b`, 0)).toBe(80);
  });
  it('reaches as far as the whole of which it knows the head', () => {
    const matcher = createLiteralMatcher();
    matcher.add('head', 10);
    expect(matcher.match('head-and-more', 0)).toBe(10);
    expect(matcher.match('head', 0)).toBe(4);
    matcher.remove('head');
    expect(matcher.match('head', 0)).toBe(-1);
  });
  it('ignores the removal of what was never added', () => {
    const matcher = matcherOf('abcd', 'abce');
    for (const text of ['abc', 'ab', 'x', 'abcdx']) matcher.remove(text);
    expect([matcher.match('abcd', 0), matcher.match('abce', 0)]).toEqual([4, 4]);
  });

  it('agrees with a plain search after any additions and removals', () => {
    const text = fc.string({ minLength: 1, maxLength: 6, unit: fc.constantFrom('a', 'b', 'c') });
    const change = fc.tuple(fc.boolean(), text);
    fc.assert(
      fc.property(
        fc.array(change, { maxLength: 40 }),
        fc.string({ unit: fc.constantFrom('a', 'b', 'c', 'd') }),
        (changes, subject) => {
          const matcher = createLiteralMatcher();
          const known: string[] = [];
          for (const [adds, word] of changes) {
            if (adds) {
              matcher.add(word);
              known.push(word);
            } else {
              matcher.remove(word);
              const at = known.indexOf(word);
              if (at !== -1) known.splice(at, 1);
            }
          }
          for (let from = 0; from < subject.length; from++) {
            const lengths = known.filter((word) => subject.startsWith(word, from)).map((word) => word.length);
            expect(matcher.match(subject, from)).toBe(lengths.length === 0 ? -1 : from + Math.max(...lengths));
          }
        },
      ),
    );
  });
});
