import { StartupError } from '../../errors.ts';
import { type JsonValue, parseJson } from '../../json.ts';

const SPACE = /[ \t\r\n]*/y;
const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: RFC 8259 7 allows none of these in a string
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;

type Expected = 'value' | 'value or end' | 'name' | 'name or end' | 'colon' | 'comma or end' | 'nothing';

/**
 * The value of a JSON file, with or without a byte order mark.
 * @throws StartupError naming the line and the column; it shows nothing of the text, which may hold secrets
 */
export function parseConfigText(text: string, path: string): JsonValue {
  const json = text.replace(/^\ufeff/, '');
  const value = parseJson(json);
  if (value !== undefined) return value;
  const at = brokenAt(json);
  const before = json.slice(0, at).split('\n');
  const place = `line ${before.length}, column ${(before.at(-1) ?? '').length + 1}`;
  throw new StartupError(`${path} is not valid JSON: ${complaint(json, at)} (${place})`);
}

function complaint(text: string, at: number): string {
  if (/^\/[/*]/.test(text.slice(at, at + 2))) return 'it has no comments';
  if (at >= text.length) return 'it ends too early';
  if (text[at] === '"' && !matches(STRING, text, at)) return 'a string is not closed in its line, or not well escaped';
  return /,\s*$/.test(text.slice(0, at)) ? 'something is wrong behind the comma' : 'something else is expected';
}

/** Offset of the first character that cannot stand where it does; the length where the text ends too early. */
function brokenAt(text: string): number {
  const open: ('{' | '[')[] = [];
  let expected: Expected = 'value';
  let at = 0;
  for (;;) {
    at += matches(SPACE, text, at);
    const character = text[at];
    if (character === undefined) return at;
    const inside = open.at(-1);
    const closing = inside === '{' ? '}' : ']';
    if (inside !== undefined && expected.endsWith('or end') && character === closing) {
      open.pop();
      at += 1;
      expected = open.length === 0 ? 'nothing' : 'comma or end';
    } else if (expected.startsWith('value')) {
      const length = matches(STRING, text, at) || matches(SCALAR, text, at);
      if (character === '{' || character === '[') {
        open.push(character);
        at += 1;
        expected = character === '{' ? 'name or end' : 'value or end';
      } else if (length > 0) {
        at += length;
        expected = inside === undefined ? 'nothing' : 'comma or end';
      } else return at;
    } else if (expected.startsWith('name') && matches(STRING, text, at) > 0) {
      at += matches(STRING, text, at);
      expected = 'colon';
    } else if (expected === 'colon' && character === ':') {
      at += 1;
      expected = 'value';
    } else if (expected === 'comma or end' && character === ',') {
      at += 1;
      expected = inside === '{' ? 'name' : 'value';
    } else return at;
  }
}

/** Length of what the pattern matches there. */
function matches(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0].length ?? 0;
}
