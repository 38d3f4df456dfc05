import { expect, it } from 'vitest';
import { createLineReader } from '../../src/mcp/process/line-reader.ts';

function reading(maxBytes = 100): {
  lines: string[];
  noise: string[];
  tooLong: number;
  push(...parts: string[]): void;
} {
  const seen = { lines: [] as string[], noise: [] as string[], tooLong: 0 };
  const reader = createLineReader({
    maxBytes,
    onLine: (text, bytes) => void seen.lines.push(`${bytes}:${text}`),
    onNoise: (beginning, bytes) => void seen.noise.push(`${bytes}:${beginning}`),
    onTooLong: () => {
      seen.tooLong += 1;
    },
  });
  return Object.assign(seen, {
    push(...parts: string[]) {
      for (const part of parts) reader.push(Buffer.from(part, 'latin1'));
    },
  });
}

const latin1 = (text: string): string => Buffer.from(text).toString('latin1');

it('joins octets of one line wherever they were cut', () => {
  const read = reading();
  read.push(...latin1('{"a":"é🌋"}\n[]\n'));
  expect(read.lines).toEqual(['14:{"a":"é🌋"}', '2:[]']);
});

it('takes several lines of one chunk, passes over empty ones, and keeps the rest for later', () => {
  const read = reading();
  read.push('{"a":1}\n\r\n  \n{"b":2}\r\n{"c"');
  expect(read.lines).toEqual(['7:{"a":1}', '8:{"b":2}\r']);
  read.push(':3}\n');
  expect(read.lines).toHaveLength(3);
});

it('finds a message behind a byte order mark and spaces', () => {
  const read = reading();
  read.push(latin1('\ufeff  {"a":1}\n'));
  expect(read.lines.map((line) => JSON.parse(line.slice(line.indexOf('{'))))).toEqual([{ a: 1 }]);
});

it('keeps the beginning of noise of any length, and what comes after it', () => {
  const read = reading();
  for (let part = 0; part < 1000; part += 1) read.push('x'.repeat(1000));
  read.push('\n{"a":1}\n');
  expect(read.noise).toEqual([`1000000:${'x'.repeat(2000)}`]);
  expect(read.lines).toEqual(['7:{"a":1}']);
});

it('gives up at a message that is too long, once, before its end', () => {
  const read = reading(10);
  read.push('{"a":1}\n', '{"aaaaaa', 'aaa', 'aaa"}\n{"b":2}\n');
  expect(read).toMatchObject({ lines: ['7:{"a":1}'], tooLong: 1 });
});
