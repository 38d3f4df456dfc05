import type { JsonValue } from '../json.ts';

/** Knows the secrets in use and cuts them from any text that leaves: logs, errors, traces, replies. */
export interface Redactor {
  /** Remembers secret values; values shorter than 4 characters are ignored. */
  taint(values: Iterable<string>): void;
  /** Replaces every tainted value, plain, base64 or percent-encoded, with `[redacted]`. */
  clean(text: string): string;
  /**
   * The same for content that belongs to the caller (tool results, model answers), which must not lose ordinary words to
   * a credential that happens to be one: values shorter than 8 characters, and words of letters alone, stay.
   */
  cleanContent<T extends JsonValue>(content: T): T;
}

const MINIMUM_LENGTH = 4;
const ORDINARY = /^(?:[\s\S]{0,7}|\p{L}{0,19})$/u;
const MAXIMUM_VALUES = 10_000;
const MINIMUM_BASE64_CORE = 5;
const REPLACEMENT = '[redacted]';

/**
 * A redactor with nothing tainted yet. It keeps the newest 10,000 values; tainting a value again makes it the newest.
 */
export function createRedactor(): Redactor {
  const values = new Map<string, readonly string[]>();
  let pattern: RegExp | undefined;
  let contentPattern: RegExp | undefined;

  function compile(counts: (value: string) => boolean): RegExp {
    const counted = [...values].flatMap(([value, written]) => (counts(value) ? written : []));
    if (counted.length === 0) return /(?!)/g;
    const spellings = [...new Set(counted)].sort((a, b) => b.length - a.length);
    return new RegExp(spellings.map((spelling) => spelling.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')).join('|'), 'g');
  }

  return {
    taint(added) {
      for (const value of added) {
        if (value.length < MINIMUM_LENGTH) continue;
        const known = values.get(value);
        if (known) values.delete(value);
        else {
          pattern = undefined;
          contentPattern = undefined;
        }
        values.set(value, known ?? spellingsOf(value));
        const oldest = values.size > MAXIMUM_VALUES ? values.keys().next().value : undefined;
        if (oldest !== undefined) values.delete(oldest);
      }
    },
    clean(text) {
      if (values.size === 0) return text;
      pattern ??= compile(() => true);
      return text.replace(pattern, REPLACEMENT);
    },
    cleanContent(content) {
      if (values.size === 0) return content;
      contentPattern ??= compile((value) => !ORDINARY.test(value));
      return mapTexts(content, contentPattern) as typeof content;
    },
  };
}

/**
 * Every way a value is likely to be written: as it is, as the octets of a header field (latin1), each also inside JSON
 * once and twice; percent-encoded; base64.
 */
function spellingsOf(value: string): string[] {
  const octets = Buffer.from(value, 'utf8').toString('latin1');
  const plain = [value, octets].flatMap((text) => [text, inJson(text), inJson(inJson(text))]);
  return [...plain, ...percentEncoded(value), ...base64Cores(Buffer.from(value, 'utf8'))];
}

function inJson(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

function percentEncoded(value: string): string[] {
  const component = encodeURIComponent(Buffer.from(value, 'utf8').toString('utf8'));
  const strict = component.replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);
  const both = [component, strict].flatMap((text) => [text, text.replaceAll('%20', '+')]);
  return [...both, ...both.map((text) => text.replace(/%[0-9A-F]{2}/g, (octet) => octet.toLowerCase()))];
}

/**
 * The characters of a base64 text that depend on these octets alone, for each of the three positions at which they can
 * stand in a longer value (`Basic` of `user:secret`), in both alphabets.
 */
function base64Cores(octets: Buffer): string[] {
  const cores = [0, 1, 2].map((offset) => {
    const text = Buffer.concat([Buffer.alloc(offset), octets])
      .toString('base64')
      .replace(/=+$/, '');
    const first = Math.ceil((offset * 8) / 6);
    const last = Math.floor(((offset + octets.length) * 8) / 6);
    return text.slice(first, last);
  });
  const long = cores.filter((core) => core.length >= MINIMUM_BASE64_CORE);
  return [...long, ...long.map((core) => core.replaceAll('+', '-').replaceAll('/', '_'))];
}

/** Every text of a JSON value, member names too. */
function mapTexts(value: JsonValue, pattern: RegExp): JsonValue {
  if (typeof value === 'string') return value.replace(pattern, REPLACEMENT);
  if (Array.isArray(value)) return value.map((item) => mapTexts(item, pattern));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name.replace(pattern, REPLACEMENT), mapTexts(item, pattern)]),
  );
}
