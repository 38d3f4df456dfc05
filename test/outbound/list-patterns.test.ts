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
            `^The pattern ${JSON.stringify(text).replace(/[.*+?^${}()|[\]\\]/g, '\\$&')} of ${TRUSTED} is not a regular expression that can be used: .+`,
          ),
        ),
      }),
    );
  });

  it('quote with \\Q and \\E', () => {
    const [quoted] = compilePatterns(['https://\\Qa.b\\E/.*']);
    expect([quoted?.test('https://a.b/x'), quoted?.test('https://axb/x')]).toEqual([true, false]);
  });

  it.each(['(?=a)b', '(?<!a)b', '(a)\\1', 'a*+'])('refuse %s, which has no bound in time', (text) => {
    expect(() => compilePatterns([text])).toThrow(
      /^The pattern ".*" is not a regular expression that can be used: .+ \(look-around, back-references and possessive quantifiers are not supported\)$/,
    );
  });

  it.each(['\\Z', '\\G', '\\p{Alpha}', 'x\\\\\\h'])('refuse what only Java understands: %s', (text) => {
    expect(() => compilePatterns([text])).toThrow(/^The pattern ".*" is not a regular expression that can be used: /);
  });

  it('match in linear time, whatever is nested', () => {
    const [pattern] = compilePatterns(['https://(a+)+b']);
    expect(pattern?.test(`https://${'a'.repeat(5000)}`)).toBe(false);
    expect(pattern?.test(`https://${'a'.repeat(5000)}b`)).toBe(true);
    expect(pattern?.test(`https://${'a'.repeat(8192)}b`)).toBe(false);
  });

  it('are at most 1,000 characters long', () => {
    expect(compilePatterns(['a'.repeat(1000)])).toHaveLength(1);
    expect(() => compilePatterns(['a'.repeat(1001)])).toThrow(/ is longer than 1000 characters$/);
  });

  it('take a letter after an escaped backslash as a letter', () => {
    expect(compilePatterns(['\\\\Q', '\\d\\w\\.'])).toHaveLength(2);
  });

  it('name no setting when none is given', () => {
    expect(() => compilePatterns(['('])).toThrow(/^The pattern "\(" is not a regular expression that can be used: /);
  });
});
