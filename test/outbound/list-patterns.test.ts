import { describe, expect, it } from 'vitest';
import { compilePatterns } from '../../src/outbound/address-guard.ts';

const TRUSTED = 'plugins.ml_commons.trusted_connector_endpoints_regex';

describe('patterns of the lists', () => {
  it('match whole texts, alternatives included', () => {
    const [either] = compilePatterns(['https://a/|https://b/']);
    expect(['https://a/', 'https://b/', 'https://a/x', 'xhttps://b/'].map((text) => either?.test(text))).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });

  it('understand a leading (?i) and are case-sensitive otherwise', () => {
    const [loose, strict] = compilePatterns(['(?i)https://a/', 'https://a/']);
    expect([loose?.test('HTTPS://A/'), strict?.test('HTTPS://A/')]).toEqual([true, false]);
  });

  it.each(['(', '[', '*', 'a)(b', '(?<n', 'a**', 'x\\', '(?i)('])('refuse %j by name', (text) => {
    expect(() => compilePatterns(['fine', text], TRUSTED)).toThrow(
      expect.objectContaining({
        code: 'TENON_INVALID_ARGUMENT',
        statusCode: 400,
        message: expect.stringMatching(
          new RegExp(
            `^The pattern ${JSON.stringify(text).replace(/[.*+?^${}()|[\]\\]/g, '\\$&')} of ${TRUSTED} is not a regular expression: Invalid regular expression: .+`,
          ),
        ),
      }),
    );
  });

  it.each(['\\Q.\\E', '\\A', 'a\\z', '\\p{Alpha}', 'x\\\\\\h'])('refuse what only Java understands: %s', (text) => {
    expect(() => compilePatterns([text])).toThrow(/^The pattern ".*" uses \\.+, which is not supported$/);
  });

  it('take a letter after an escaped backslash as a letter', () => {
    expect(compilePatterns(['\\\\Q', '\\d\\w\\.'])).toHaveLength(2);
  });

  it('name no setting when none is given', () => {
    expect(() => compilePatterns(['('])).toThrow(/^The pattern "\(" is not a regular expression: /);
  });
});
