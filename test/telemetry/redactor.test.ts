import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../src/json.ts';
import { createRedactor } from '../../src/telemetry/redactor.ts';

function redactorOf(...values: string[]): (text: string) => string {
  const redactor = createRedactor();
  redactor.taint(values);
  return redactor.clean;
}

describe('a redactor', () => {
  it('leaves text alone while nothing is tainted', () => {
    expect(redactorOf()('any text')).toBe('any text');
  });
  it('cuts a value wherever it stands', () => {
    expect(redactorOf('CANARY-A1')('aCANARY-A1b CANARY-A1')).toBe('a[redacted]b [redacted]');
  });
  it('cuts the longer of two values first', () => {
    expect(redactorOf('abcd', 'abcdef')('abcdef abcd')).toBe('[redacted] [redacted]');
  });
  it('ignores values that are too short to be told from words', () => {
    expect(redactorOf('abc', '')('abc')).toBe('abc');
  });
  it('takes no character as a pattern', () => {
    expect(redactorOf('a.c$^*(')('abc$^*( a.c$^*(')).toBe('abc$^*( [redacted]');
  });
  it('cuts the base64 of basic credentials that hold the value', () => {
    const text = Buffer.from('svc:p:ä€-secret').toString('base64');
    const shown = redactorOf('p:ä€-secret')(`Basic ${text}`);
    expect(shown).toContain('[redacted]');
    expect(Buffer.from(shown.replace(/^Basic |\[redacted\]/g, ''), 'base64').toString()).not.toContain('secret');
  });
  it('cuts the octets of a header field', () => {
    const octets = Buffer.from('pässword').toString('latin1');
    expect(redactorOf('pässword')(`X-Key: ${octets}`)).toBe('X-Key: [redacted]');
  });
  it('keeps working when values are added later', () => {
    const redactor = createRedactor();
    redactor.taint(['first-value']);
    expect(redactor.clean('first-value second-value')).toBe('[redacted] second-value');
    redactor.taint(['second-value', 'first-value']);
    expect(redactor.clean('first-value second-value')).toBe('[redacted] [redacted]');
  });

  it.each([
    ['of 32 kB', `CANARY-${'0123456789abcdef'.repeat(2048)}`],
    ['of 1 MB', `CANARY "${'\\ü'.repeat(500_000)}"`],
  ])('cuts a value %s, whole and as far as it was repeated', (_size, value) => {
    const clean = redactorOf('other-value', value);
    for (const text of [value, JSON.stringify(value).slice(1, -1), encodeURIComponent(value)]) {
      expect(clean(`<${text}>`)).toBe('<[redacted]>');
    }
    expect(clean(Buffer.from(`user:${value}`).toString('base64')).length).toBeLessThan(30);
    expect(clean(`said ${value.slice(0, 100)}`)).toBe('said [redacted]');
    expect(clean(`said ${value.slice(0, 100)}!`)).toBe('said [redacted]!');
  });
  it('keeps the newest 10,000 values, and forgets the others one by one', () => {
    const redactor = createRedactor();
    for (let n = 0; n <= 10_000; n++) {
      redactor.taint([`secret-${n}.`]);
      if (n % 100 === 0) redactor.taint(['secret-0.']);
    }
    expect(redactor.clean('secret-0. secret-1. secret-2. secret-10000.')).toBe(
      '[redacted] secret-1. [redacted] [redacted]',
    );
  });
  it('replaces everything when it fails', () => {
    const redactor = createRedactor();
    redactor.taint(['CANARY-7f3']);
    let deep: JsonValue = 'CANARY-7f3';
    for (let depth = 0; depth < 100_000; depth++) deep = [deep];
    expect(redactor.cleanContent(deep)).toBe('[redacted]');
    expect(redactor.clean(undefined as unknown as string)).toBe('[redacted]');
  });

  it('leaves no spelling of any value in any text', () => {
    const secret = fc.string({ minLength: 8, maxLength: 40, unit: 'grapheme' });
    fc.assert(
      fc.property(secret, fc.string(), fc.string(), (value, before, after) => {
        const clean = redactorOf(value);
        const marker = '[redacted]';
        const encoded = encodeURIComponent(value);
        for (const spelling of [value, JSON.stringify(value).slice(1, -1), encoded, encoded.replaceAll('%20', '+')]) {
          expect(clean(`<${spelling}>`)).toContain(marker);
        }
        for (const alphabet of ['base64', 'base64url'] as const) {
          const text = Buffer.from(`${before}${value}${after}`).toString(alphabet);
          expect(clean(text)).toContain(marker);
        }
      }),
    );
  });
});

describe('content that belongs to the caller', () => {
  it('loses secrets at every depth, in member names too, and keeps words that are also a credential', () => {
    const redactor = createRedactor();
    redactor.taint(['CANARY-7f3', 'weather', 'administrator', 'short-1', 'abcdefghijklmnopqrst']);
    const content = {
      'CANARY-7f3': 'the weather: administrator, short-1',
      list: [{ text: 'key CANARY-7f3!' }, 7, null, true],
      base64: Buffer.from('svc:CANARY-7f3').toString('base64'),
      long: 'abcdefghijklmnopqrst',
    };
    expect(redactor.cleanContent(content)).toEqual({
      '[redacted]': 'the weather: administrator, short-1',
      list: [{ text: 'key [redacted]!' }, 7, null, true],
      base64: expect.not.stringContaining('Q0FOQVJZ'),
      long: '[redacted]',
    });
  });

  it('is left alone while nothing that counts is known, and a later secret counts at once', () => {
    const redactor = createRedactor();
    expect(redactor.cleanContent('tok-12345')).toBe('tok-12345');
    redactor.taint(['weather']);
    expect(redactor.cleanContent(['weather'])).toEqual(['weather']);
    redactor.taint(['tok-12345']);
    expect(redactor.cleanContent(['tok-12345'])).toEqual(['[redacted]']);
  });
});
