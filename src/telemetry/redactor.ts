import { createHash } from 'node:crypto';
import type { JsonValue } from '../json.ts';
import { createLiteralMatcher, type LiteralMatcher } from './literal-matcher.ts';
import { spellingsOf } from './spellings.ts';

/**
 * Knows the secrets in use and cuts them from any text that leaves: logs, errors, traces, replies. `clean` and
 * `cleanContent` never throw: when they fail, all of the text is replaced.
 */
export interface Redactor {
  /** Remembers secret values; values shorter than 4 characters are ignored. */
  taint(values: Iterable<string>): void;
  /**
   * Replaces every tainted value, plain, base64 or percent-encoded, with `[redacted]`. For text that a remote side
   * wrote.
   */
  clean(text: string): string;
  /**
   * The same for content that belongs to the caller (tool results, model answers) and for the platform's own sentences
   * (errors), which must not lose ordinary words to a credential that happens to be one: values shorter than 8
   * characters, and words of fewer than 20 letters alone, stay.
   */
  cleanContent<T extends JsonValue>(content: T): T;
}

const MINIMUM_LENGTH = 4;
const ORDINARY = /^(?:[\s\S]{0,7}|\p{L}{0,19})$/u;
const MAXIMUM_VALUES = 10_000;
/** Characters that are kept of a spelling; what begins with them is cut to the length of the whole. */
const KEPT_LENGTH = 256;
const REPLACEMENT = '[redacted]';

interface Spelling {
  readonly head: string;
  readonly length: number;
}

interface Tainted {
  readonly matcher: LiteralMatcher;
  readonly spellings: readonly Spelling[];
}

/**
 * A redactor with nothing tainted yet. It keeps the newest 10,000 values; tainting a value again makes it the newest.
 * Of a long value only the beginning is kept, so that no value costs more than a few kilobytes.
 */
export function createRedactor(): Redactor {
  const values = new Map<string, Tainted>();
  const distinct = createLiteralMatcher();
  const ordinary = createLiteralMatcher();

  function add(key: string, value: string): void {
    const matcher = ORDINARY.test(value) ? ordinary : distinct;
    const spellings = spellingsOf(value).map(kept);
    for (const { head, length } of spellings) matcher.add(head, length);
    values.set(key, { matcher, spellings });
  }

  function forgetOldest(): void {
    for (const [key, { matcher, spellings }] of values) {
      if (values.size <= MAXIMUM_VALUES) return;
      for (const { head } of spellings) matcher.remove(head);
      values.delete(key);
    }
  }

  return {
    taint(added) {
      for (const value of added) {
        if (value.length < MINIMUM_LENGTH) continue;
        const key = keyOf(value);
        const known = values.get(key);
        if (known === undefined) add(key, value);
        else {
          values.delete(key);
          values.set(key, known);
        }
        forgetOldest();
      }
    },
    clean(text) {
      if (values.size === 0) return text;
      return safely(() => cut(text, [distinct, ordinary]));
    },
    cleanContent(content) {
      if (values.size === 0) return content;
      return safely(() => mapTexts(content, (text) => cut(text, [distinct])) as typeof content);
    },
  };
}

function safely<T extends JsonValue>(work: () => T): T {
  try {
    return work();
  } catch {
    return REPLACEMENT as T;
  }
}

/** Long values are told apart by their digest, so that they need not be kept. */
function keyOf(value: string): string {
  return value.length <= KEPT_LENGTH ? value : `sha256 ${createHash('sha256').update(value).digest('base64')}`;
}

function kept(spelling: string): Spelling {
  const { length } = spelling;
  if (length <= KEPT_LENGTH) return { head: spelling, length };
  // A slice would keep all of the text it was taken from in memory.
  const copy = Buffer.from(spelling.slice(0, KEPT_LENGTH), 'utf16le').toString('utf16le');
  return { head: copy, length };
}

function cut(text: string, matchers: readonly LiteralMatcher[]): string {
  let shown = '';
  let copied = 0;
  for (let at = 0; at < text.length; ) {
    let end = -1;
    for (const matcher of matchers) end = Math.max(end, matcher.match(text, at));
    if (end === -1) {
      at += 1;
      continue;
    }
    shown += text.slice(copied, at) + REPLACEMENT;
    copied = end;
    at = end;
  }
  return copied === 0 ? text : shown + text.slice(copied);
}

/** Every text of a JSON value, member names too. */
function mapTexts(value: JsonValue, clean: (text: string) => string): JsonValue {
  if (typeof value === 'string') return clean(value);
  if (Array.isArray(value)) return value.map((item) => mapTexts(item, clean));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [clean(name), mapTexts(item, clean)]));
}
