import { RE2JS } from 're2js';
import { INVALID_ARGUMENT } from '../errors.ts';

/** A regular expression of a caller or an operator, matched against whole texts in time linear in their length. */
export interface Pattern {
  /** As it was written. */
  readonly source: string;
  /** Whether all of `text` matches; a text longer than 8,192 characters never does. */
  test(text: string): boolean;
}

export interface CompiledPattern extends Pattern {
  /** Steps it may take for one character: for who matches many patterns. */
  readonly size: number;
}

const MAX_PATTERN = 1000;
const MAX_TEXT = 8192;
/** Steps a pattern may take for one character; `{n}` repeats what it stands behind. */
const MAX_INSTRUCTIONS = 2000;

/**
 * Compiles a pattern in the syntax of RE2: that of Java without look-around, back-references and possessive quantifiers,
 * which cannot be matched in linear time. @throws INVALID_ARGUMENT; `where` says whose pattern it is: ` of tool_filters`
 */
export function compilePattern(text: string, where = ''): CompiledPattern {
  const refuse = (why: string): Error =>
    new INVALID_ARGUMENT(`The pattern ${JSON.stringify(text.slice(0, 200))}${where} ${why}`);
  if (text.length > MAX_PATTERN) throw refuse(`is longer than ${MAX_PATTERN} characters`);
  const compiled = compile(text, refuse);
  if (compiled.programSize() > MAX_INSTRUCTIONS) {
    throw refuse('repeats too much: write smaller numbers in braces, or * in their place');
  }
  return {
    source: text,
    size: compiled.programSize(),
    test: (subject) => subject.length <= MAX_TEXT && compiled.matches(subject),
  };
}

function compile(text: string, refuse: (why: string) => Error): RE2JS {
  try {
    return RE2JS.compile(text);
  } catch (error) {
    const cause = (error instanceof Error ? error.message : '').replace(/^error parsing regexp: /, '');
    const looks = /\(\?<?[=!]|\\[1-9]|\\k<|[*+?}]\+/.test(text)
      ? ' (look-around, back-references and possessive quantifiers are not supported)'
      : '';
    throw refuse(`is not a regular expression that can be used: ${cause}${looks}`);
  }
}
