/** The last that a process wrote to its standard error. */
export interface StderrRing {
  push(chunk: Uint8Array): void;
  /** At most 50 lines, oldest first: without control characters, cleaned, each cut to 500 characters. */
  lines(): readonly string[];
}

const MAX_LINES = 50;
const MAX_LINE = 500;
/** Octets kept: the lines that are shown, in the longest characters there are. */
const MAX_BYTES = 4 * MAX_LINES * MAX_LINE;
/** Small writes are joined now and then. */
const MAX_PIECES = 64;

/** Sequences of a terminal: colours, cursor, titles. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const TERMINAL = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-_])/g;
/** Control characters but the ends of lines and tabs, and marks that turn the direction of text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/**
 * Keeps the end of what is pushed, whatever the amount and with or without line ends. `clean` cuts secrets; it sees whole
 * lines before they are cut.
 */
export function createStderrRing(clean: (text: string) => string): StderrRing {
  let pieces: Uint8Array[] = [];
  let bytes = 0;
  let beginningLost = false;

  /** One piece of what is there, no longer than may be kept. */
  function kept(): Buffer {
    const all = Buffer.concat(pieces);
    const tail = all.subarray(Math.max(0, all.byteLength - MAX_BYTES));
    beginningLost ||= tail.byteLength < all.byteLength;
    return tail;
  }

  return {
    push(chunk) {
      pieces.push(Uint8Array.from(chunk));
      bytes += chunk.byteLength;
      if (pieces.length <= MAX_PIECES && bytes <= 2 * MAX_BYTES) return;
      const tail = Uint8Array.from(kept());
      pieces = [tail];
      bytes = tail.byteLength;
    },
    lines() {
      const plain = new TextDecoder()
        .decode(kept())
        .replace(/\r\n?/g, '\n')
        .replace(TERMINAL, '')
        .replaceAll('\t', ' ')
        .replace(CONTROL, '');
      const shown = clean(plain)
        .split('\n')
        .map((line, index) => {
          const whole = line.trim();
          if (whole.length <= MAX_LINE) return whole;
          return index === 0 && beginningLost ? `…${whole.slice(-MAX_LINE)}` : `${whole.slice(0, MAX_LINE)}…`;
        });
      return shown.filter((line) => line !== '').slice(-MAX_LINES);
    },
  };
}
