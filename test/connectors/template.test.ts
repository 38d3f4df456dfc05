import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compileBody, compileText, placeholderNames, renderBody } from '../../src/connectors/template.ts';

type Texts = Record<string, string>;

function render(text: string, parameters: Texts = {}, fragments?: Texts): string {
  return renderBody(compileBody(text), { parameters, ...(fragments && { fragments }) });
}

describe('compiled templates', () => {
  it.each<[string, string, (string | Partial<Record<string, unknown>>)[]]>([
    ['no placeholder', 'plain', ['plain']],
    ['nothing', '', []],
    ['a placeholder alone', '${parameters.a}', [{ scope: 'parameters', name: 'a', source: '${parameters.a}' }]],
    ['text around', 'x${credential.k}y', ['x', { scope: 'credential', name: 'k', source: '${credential.k}' }, 'y']],
    ['neighbours', '${parameters.a}${parameters.b}', [{ name: 'a' }, { name: 'b' }]],
    ['a default', '${parameters.a:-b c}', [{ name: 'a', fallback: 'b c', source: '${parameters.a:-b c}' }]],
    ['an empty default', '${parameters.a:-}', [{ name: 'a', fallback: '' }]],
    ['no default', '${parameters.a}', [{ name: 'a', fallback: undefined }]],
    ['the first separator', '${parameters.a:-b:-c}', [{ name: 'a', fallback: 'b:-c' }]],
    ['a colon in a name', '${parameters.a:b}', [{ name: 'a:b', fallback: undefined }]],
    ['a dotted name', '${parameters.a.b-c}', [{ name: 'a.b-c' }]],
    ['a separator behind the brace', '${parameters.a} :- ${parameters.b}', [{ name: 'a' }, ' :- ', { name: 'b' }]],
    ['no default of a credential', '${credential.a:-b}', [{ scope: 'credential', name: 'a:-b', fallback: undefined }]],
    ['an opening brace in a default', '${parameters.a:-{}', [{ name: 'a', fallback: '{' }]],
    ['angle brackets', 'x$<credential.k>y', ['x', { scope: 'credential', name: 'k', source: '$<credential.k>' }, 'y']],
    ['angle brackets around a brace', '$<credential.a}b>', [{ name: 'a}b' }]],
    ['braces around an angle', '${credential.a>b}', [{ name: 'a>b' }]],
    ['angle brackets of parameters', '$<parameters.k>', ['$<parameters.k>']],
    ['an unfinished one', 'a${parameters.b', ['a${parameters.b']],
    ['an unfinished bracket', 'a$<credential.b}', ['a$<credential.b}']],
    ['an empty name', '${parameters.}${credential.}', ['${parameters.}${credential.}']],
    ['an empty name with a default', '${parameters.:-x}', ['${parameters.:-x}']],
    ['another scope', '${other.a}', ['${other.a}']],
    ['a dollar before', '$${parameters.a}', ['$', { name: 'a' }]],
    ['quotes and backslashes', '"\\${parameters.a}"', ['"\\', { name: 'a', quoted: false, nullable: false }, '"']],
  ])('hold %s', (_, text, parts) => {
    expect(compileText(text)).toEqual(
      parts.map((part) => (typeof part === 'string' ? part : expect.objectContaining(part))),
    );
  });

  it.each<[string, string, (string | Partial<Record<string, unknown>>)[]]>([
    ['outside a string', '[${parameters.a}]', ['[', { name: 'a', quoted: false, nullable: false }, ']']],
    ['inside a string', '"${parameters.a}"', ['"', { name: 'a', quoted: true, nullable: false }, '"']],
    ['behind a string', '["x",${parameters.a}]', ['["x",', { name: 'a', quoted: false }, ']']],
    ['behind an escaped quote', '"\\"${parameters.a}"', ['"\\"', { name: 'a', quoted: true }, '"']],
    ['behind an escaped backslash', '"\\\\",${parameters.a}', ['"\\\\",', { name: 'a', quoted: false }]],
    ['behind a backslash outside a string', '\\"${parameters.a}"', ['\\"', { name: 'a', quoted: true }, '"']],
    ['a nullable one', '[1,"${parameters.a:-null}"]', ['[1,', { name: 'a', nullable: true, fallback: 'null' }, ']']],
    ['a nullable one at the start', '"${parameters.a:-null}"', [{ name: 'a', nullable: true }]],
    [
      'what follows a nullable one',
      '["${parameters.a:-null}",${parameters.b}]',
      ['[', {}, ',', { quoted: false }, ']'],
    ],
    ['text before null', '"x${parameters.a:-null}"', ['"x', { nullable: false, quoted: true }, '"']],
    ['text behind null', '"${parameters.a:-null}x"', ['"', { nullable: false, quoted: true }, 'x"']],
    ['an escaped quote before null', '"\\"${parameters.a:-null}"', ['"\\"', { nullable: false }, '"']],
    ['null outside a string', '"x"${parameters.a:-null}"y"', ['"x"', { nullable: false, quoted: false }, '"y"']],
    ['another default', '"${parameters.a:-nil}"', ['"', { nullable: false, fallback: 'nil' }, '"']],
    ['an object as default', '[${parameters.a:-{"x":{}}}]', ['[', { fallback: '{"x":{}}' }, ']']],
    ['a brace in a string of a default', '[${parameters.a:-["}"]}]', ['[', { fallback: '["}"]' }, ']']],
    ['an escaped quote in a default', '${parameters.a:-["\\"}"]}', [{ fallback: '["\\"}"]' }]],
    ['a line break in a string of a default', '${parameters.a:-"\n}"}', [{ fallback: '"\n}"' }]],
    ['an unbalanced default', '${parameters.a:-{}', [{ fallback: '{' }]],
    ['the first brace inside a string', '"${parameters.a:-{}}"', ['"', { fallback: '{' }, '}"']],
    ['no angle brackets', '"$<credential.k>"', ['"$<credential.k>"']],
  ])('know of a body %s', (_, text, parts) => {
    expect(compileBody(text)).toEqual(
      parts.map((part) => (typeof part === 'string' ? part : expect.objectContaining(part))),
    );
  });

  it('name their placeholders once, by scope', () => {
    const template = compileText('${parameters.b}${credential.k}${parameters.a}x${parameters.b}');
    expect(placeholderNames(template, 'parameters')).toEqual(['b', 'a']);
    expect(placeholderNames(template, 'credential')).toEqual(['k']);
  });
});

describe('a rendered body', () => {
  it.each<[string, string, Texts, string]>([
    ['escapes inside a string', '{"a":"${parameters.x}"}', { x: 'q"\\\n' }, '{"a":"q\\"\\\\\\n"}'],
    ['escapes JSON inside a string', '{"a":"${parameters.x}"}', { x: '{"b":1}' }, '{"a":"{\\"b\\":1}"}'],
    ['escapes a number inside a string as its digits', '{"a":"${parameters.x}"}', { x: '5' }, '{"a":"5"}'],
    ['takes JSON as it is outside a string', '{"a":${parameters.x}}', { x: '[1, 2]' }, '{"a":[1, 2]}'],
    [
      'keeps the digits of a number',
      '{"a":${parameters.x}}',
      { x: '12345678901234567890.10' },
      '{"a":12345678901234567890.10}',
    ],
    ['makes other text a JSON string', '{"a":${parameters.x}}', { x: 'say "hi"' }, '{"a":"say \\"hi\\""}'],
    ['makes empty text a JSON string', '{"a":${parameters.x}}', { x: '' }, '{"a":""}'],
    ['keeps an empty text inside a string', '{"a":"${parameters.x}"}', { x: '' }, '{"a":""}'],
    [
      'never expands inserted text',
      '{"a":"${parameters.x}"}',
      { x: '${parameters.y}', y: 'no' },
      '{"a":"${parameters.y}"}',
    ],
    ['gives no meaning to replacement patterns', '{"a":"${parameters.x}"}', { x: "$&$$$1$`$'" }, `{"a":"$&$$$1$\`$'"}`],
    ['takes a default verbatim', '{"a":${parameters.x:-[1,2]}}', {}, '{"a":[1,2]}'],
    ['takes an empty default', '[1${parameters.x:-}]', {}, '[1]'],
    ['prefers a value to a default', '{"a":"${parameters.x:-no}"}', { x: 'yes' }, '{"a":"yes"}'],
    ['prefers an empty value to a default', '{"a":"${parameters.x:-no}"}', { x: '' }, '{"a":""}'],
    ['makes null of a nullable one without a value', '{"a":"${parameters.x:-null}"}', {}, '{"a":null}'],
    ['makes a string of a nullable one with a value', '{"a":"${parameters.x:-null}"}', { x: '5' }, '{"a":"5"}'],
    ['escapes the value of a nullable one', '{"a":"${parameters.x:-null}"}', { x: '"' }, '{"a":"\\""}'],
    [
      'takes names of no_escape_params verbatim',
      '{"a":"${parameters.x}"}',
      { x: 'a\\n', no_escape_params: 'y, x' },
      '{"a":"a\\n"}',
    ],
    [
      'takes them verbatim outside a string',
      '{"a":[${parameters.x}]}',
      { x: '1,2', no_escape_params: 'x' },
      '{"a":[1,2]}',
    ],
    [
      'takes a nullable one of them verbatim',
      '{"a":"${parameters.x:-null}"}',
      { x: 'a\\n', no_escape_params: 'x' },
      '{"a":"a\\n"}',
    ],
    ['accepts lines of JSON', '{"a":1}\n \n{"b":${parameters.x}}\n', { x: '2' }, '{"a":1}\n \n{"b":2}\n'],
    ['leaves credentials alone', '{"a":"${credential.k}"}', { k: 'v' }, '{"a":"${credential.k}"}'],
    ['does not read a prototype', '{"a":"${parameters.toString:-none}"}', {}, '{"a":"none"}'],
  ])('%s', (_, text, parameters, body) => {
    expect(render(text, parameters)).toBe(body);
  });

  it('takes the fragments of the platform verbatim', () => {
    const text = '{"m":[${parameters._chat_history:-}${parameters._interactions:-}1]${parameters.tool_configs:-}}';
    const fragments = { _chat_history: '"a",', _interactions: '"b",', tool_configs: ',"t":[]' };
    expect(render(text, {}, fragments)).toBe('{"m":["a","b",1],"t":[]}');
    expect(render('{"a":"${parameters._chat_history:-null}"}', {}, { _chat_history: 'h' })).toBe('{"a":"h"}');
    expect(render('{"a":${parameters.x}}', { x: 'mine' }, { x: '7' })).toBe('{"a":7}');
  });

  it.each(['_chat_history', '_interactions', 'tool_configs'])('never takes %s from a caller', (name) => {
    expect(render(`{"a":"\${parameters.${name}:-default}"}`, { [name]: 'injected' })).toBe('{"a":"default"}');
    expect(() => render(`{"a":"\${parameters.${name}}"}`, { [name]: 'injected' })).toThrow(
      `Some parameter placeholder not filled in payload: ${name}`,
    );
  });

  it('names every placeholder that is not filled, once', () => {
    expect(() =>
      render('{"a":"${parameters.b}","c":${parameters.a},"d":"${parameters.b}","e":"${parameters.f}"}', { f: '1' }),
    ).toThrow(/^Some parameter placeholder not filled in payload: b, a$/);
  });

  it('leaves placeholders in place when that is asked for', () => {
    const text = '{"a":"${parameters.x}"}';
    expect(render(text, { skip_validating_missing_parameters: 'true' })).toBe(text);
    expect(() => render(text, { skip_validating_missing_parameters: 'false' })).toThrow('not filled in payload: x');
    expect(() => render('[${parameters.x}]', { skip_validating_missing_parameters: 'true' })).toThrow(
      /^Invalid payload: \[\$\{parameters\.x\}\]$/,
    );
  });

  it.each(['{"a":', '', ' \n ', '{"a":1}\nno', 'no\n{"a":1}'])(
    'refuses what is neither JSON nor lines of it: %j',
    (text) => {
      expect(() => render(text)).toThrow(`Invalid payload: ${text}`);
    },
  );

  it('shows no more than the start of a payload it refuses', () => {
    expect(() => render(`{"a":${'x'.repeat(10_000)}`)).toThrow(/^Invalid payload: \{"a":x{495}$/);
  });

  it('gives back any text from a string position, and never another structure', () => {
    const template = '{"a":"<${parameters.x}>","b":"${parameters.y:-null}","c":[${parameters.z}],"d":1}';
    fc.assert(
      fc.property(anyText(), anyText(), anyText(), (x, y, z) => {
        const body = JSON.parse(render(template, { x, y, z }));
        return isDeepStrictEqual(body, { a: `<${x}>`, b: y, c: [jsonOrText(z)], d: 1 });
      }),
      { numRuns: 150 },
    );
  });

  it('keeps literal text and order for any template', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.constantFrom('a', 'b'), fc.string())), (pieces) => {
        const text = pieces
          .map((piece) => (piece === 'a' || piece === 'b' ? `\${parameters.${piece}}` : piece))
          .join('');
        const sources = compileText(text).map((part) => (typeof part === 'string' ? part : part.source));
        expect(sources.join('')).toBe(text);
      }),
    );
  });
});

function anyText(): fc.Arbitrary<string> {
  const hostile = fc.constantFrom(
    '"',
    '\\',
    '\\"',
    '}',
    '${parameters.x}',
    '","e":"',
    'null',
    '[1]',
    '{"q":1}',
    '1e5',
    '\n',
    '\ud800',
    '$&',
  );
  return fc.oneof(
    fc.string({ unit: 'binary', maxLength: 20 }),
    hostile,
    fc.array(hostile, { maxLength: 6 }).map((parts) => parts.join('')),
    fc.jsonValue({ maxDepth: 1 }).map((value) => JSON.stringify(value)),
  );
}

function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
