import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { retryAfterMs } from '../../src/outbound/retry-after.ts';

const NOW = Date.UTC(2026, 10, 6, 8, 49, 37);

describe('Retry-After', () => {
  it.each([
    ['0', 0],
    ['2', 2000],
    [' 120 ', 120_000],
    ['86400', 86_400_000],
    ['007', 7000],
    ['99999999999999999999', Number.MAX_SAFE_INTEGER],
    ['Fri, 06 Nov 2026 08:49:37 GMT', 0],
    ['Fri, 06 Nov 2026 08:49:40 GMT', 3000],
    ['Sat, 07 Nov 2026 09:50:38 GMT', (25 * 3600 + 60 + 1) * 1000],
    ['Thu, 31 Dec 2026 23:59:60 GMT', Date.UTC(2027, 0, 1) - NOW],
    ['Tue, 29 Feb 2028 00:00:00 GMT', Date.UTC(2028, 1, 29) - NOW],
    ['Friday, 06-Nov-26 08:50:37 GMT', 60_000],
    ['Wednesday, 04-Nov-76 00:00:00 GMT', Date.UTC(2076, 10, 4) - NOW],
    ['Fri Nov  6 08:49:38 2026', 1000],
    ['Mon Nov 16 08:49:37 2026', 10 * 86_400_000],
  ])('%j is %d ms', (value, wait) => {
    expect(retryAfterMs(value, NOW)).toBe(wait);
  });

  it.each([
    undefined,
    '',
    'soon',
    '-5',
    '+5',
    '1.5',
    '1e3',
    '0x10',
    '2 s',
    '1, 2',
    'Fri, 06 Nov 2026 08:49:36 GMT',
    'Sun, 06 Nov 1994 08:49:37 GMT',
    'Sunday, 06-Nov-94 08:49:37 GMT',
    'Sunday, 06-Nov-77 08:49:37 GMT',
    'Sun Nov  6 08:49:37 1994',
    'Fri, 06 Nov 2027 08:49:37',
    'Fri, 06 Nov 2027 08:49:37 CET',
    'Fri, 6 Nov 2027 08:49:37 GMT',
    'Fri, 31 Nov 2027 08:49:37 GMT',
    'Fri, 00 Nov 2027 08:49:37 GMT',
    'Fri, 06 Foo 2027 08:49:37 GMT',
    'Fri, 06 Nov 2027 24:00:00 GMT',
    'Fri, 06 Nov 2027 08:60:00 GMT',
    'Fri, 06 Nov 2027 08:00:61 GMT',
    'xFri, 06 Nov 2027 08:49:37 GMT',
    'Fri, 06 Nov 2027 08:49:37 GMTx',
    'xFriday, 06-Nov-27 08:50:37 GMT',
    'Friday, 06-Nov-27 08:50:37 GMTx',
    'xFri Nov  6 08:49:38 2027',
    'Fri Nov  6 08:49:38 2027x',
    'Fri Nov 6 08:49:38 2027',
    '2027-11-06T08:49:37Z',
  ])('%j tells nothing', (value) => {
    expect(retryAfterMs(value, NOW)).toBeUndefined();
  });

  it('measures every date to the second', () => {
    const later = fc.integer({ min: 0, max: 49 * 365 * 86_400 });
    fc.assert(
      fc.property(later, (seconds) => {
        expect(retryAfterMs(new Date(NOW + seconds * 1000).toUTCString(), NOW)).toBe(seconds * 1000);
      }),
    );
  });

  it('never answers a negative or fractional wait', () => {
    fc.assert(
      fc.property(fc.string(), fc.integer({ min: 0, max: 4e12 }), (text, now) => {
        const wait = retryAfterMs(text, now);
        expect(wait === undefined || (Number.isInteger(wait) && wait >= 0)).toBe(true);
      }),
    );
  });
});
