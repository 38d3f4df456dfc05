import { describe, expect, it } from 'vitest';
import { changeJson } from '../../src/connectors/digits.ts';

describe('a changed JSON text', () => {
  it('keeps the digits of numbers that are not touched', () => {
    const text =
      '{"seed":12345678901234567890,"t":1.0,"e":1E+2,"n":-0.10,"s":"9007199254740993 \\" 1.0","deep":[{"id":9007199254740993}],"x":5}';
    expect(changeJson(text, (body) => ({ ...body, added: true }))).toBe(
      '{"seed":12345678901234567890,"t":1.0,"e":1E+2,"n":-0.10,"s":"9007199254740993 \\" 1.0","deep":[{"id":9007199254740993}],"x":5,"added":true}',
    );
  });

  it('shows ordinary numbers as numbers', () => {
    expect(changeJson('{"a":2}', (body) => ({ b: Number(body.a) + 1 }))).toBe('{"b":3}');
  });

  it.each(['[1]', '1', '{"a":1}\n{"b":2}'])('is refused unless it is one object: %s', (text) => {
    expect(() => changeJson(text, (body) => body)).toThrow('must render to one JSON object');
  });

  it('is refused when it nests too deep', () => {
    const text = `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`;
    expect(() => changeJson(text, (body) => body)).toThrow('nested deeper than 1000 levels');
  });
});
