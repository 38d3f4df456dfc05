/** Cuts a stream of octets into lines. */
export interface LineReader {
  /** Takes the next octets, wherever they were cut. Nothing is read any more after `onTooLong`. */
  push(chunk: Uint8Array): void;
  /** Ends the last line, if it lacks its line feed. */
  end(): void;
}

export interface LineReaderOptions {
  /** Largest line that may be a message, in octets, without its end. */
  readonly maxBytes: number;
  /** A line that can be JSON: it begins with a brace or a bracket. `bytes` is its size. */
  readonly onLine: (text: string, bytes: number) => void;
  /** Any other line that is not empty: its beginning, and its size. */
  readonly onNoise: (beginning: string, bytes: number) => void;
  readonly onTooLong: () => void;
}

const LINE_FEED = 0x0a;
const BRACE = 0x7b;
const BRACKET = 0x5b;
/** White space that may stand before a message, the octets of a byte order mark included. */
const BLANK: ReadonlySet<number> = new Set([0x20, 0x09, 0x0d, 0x0b, 0x0c, 0xef, 0xbb, 0xbf]);
/** What is kept of a line that is none of ours. */
const NOISE_BYTES = 2000;

/**
 * Reads newline-delimited JSON (MCP, stdio transport). Octets become text one whole line at a time, so that no character
 * is broken at the border of two chunks. Of a line that cannot be a message only the beginning is kept.
 */
export function createLineReader(options: LineReaderOptions): LineReader {
  const decoder = new TextDecoder();
  let parts: Uint8Array[] = [];
  let kept = 0;
  let size = 0;
  let kind: 'blank' | 'message' | 'noise' = 'blank';
  let stopped = false;

  function classify(part: Uint8Array): void {
    const first = part.find((octet) => !BLANK.has(octet));
    if (first !== undefined) kind = first === BRACE || first === BRACKET ? 'message' : 'noise';
  }

  function take(part: Uint8Array): void {
    size += part.byteLength;
    if (kind === 'blank') classify(part);
    if (kind === 'blank') return;
    if (kind === 'message' && size > options.maxBytes) {
      stopped = true;
      parts = [];
      options.onTooLong();
      return;
    }
    const room = kind === 'noise' ? Math.max(0, NOISE_BYTES - kept) : part.byteLength;
    if (room === 0) return;
    const piece = part.subarray(0, room);
    parts.push(piece);
    kept += piece.byteLength;
  }

  function finish(): void {
    const [only] = parts;
    const octets = parts.length === 1 && only ? only : Buffer.concat(parts);
    const line = { kind, size };
    parts = [];
    kept = 0;
    size = 0;
    kind = 'blank';
    if (line.kind === 'message') options.onLine(decoder.decode(octets), line.size);
    else if (line.kind === 'noise') options.onNoise(decoder.decode(octets).trim(), line.size);
  }

  return {
    push(chunk) {
      let start = 0;
      while (!stopped) {
        const end = chunk.indexOf(LINE_FEED, start);
        if (end === -1) break;
        take(chunk.subarray(start, end));
        start = end + 1;
        if (!stopped) finish();
      }
      if (!stopped && start < chunk.byteLength) take(chunk.subarray(start));
    },
    end() {
      if (!stopped && size > 0) finish();
    },
  };
}
