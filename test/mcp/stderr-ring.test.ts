import { expect, it } from 'vitest';
import { createStderrRing } from '../../src/mcp/process/stderr-ring.ts';

const plain = (text: string): string => text;

it('keeps the last 50 lines, each cut to 500 characters', () => {
  const ring = createStderrRing(plain);
  for (let line = 1; line <= 60; line += 1) ring.push(Buffer.from(`${line} ${'x'.repeat(600)}\n`));
  const lines = ring.lines();
  expect(lines).toHaveLength(50);
  expect(lines[0]).toBe(`11 ${'x'.repeat(497)}…`);
  expect(lines.at(-1)).toMatch(/^60 x/);
});

it('shows the end of what has no line ends', () => {
  const ring = createStderrRing(plain);
  for (let part = 0; part < 100; part += 1) ring.push(Buffer.from('y'.repeat(10_000)));
  ring.push(Buffer.from('the end'));
  expect(ring.lines()).toEqual([`…${'y'.repeat(493)}the end`]);
});

it('puts characters together that were cut, and takes small writes without end', () => {
  const ring = createStderrRing(plain);
  for (const octet of Buffer.from('é🌋\n'.repeat(100))) ring.push(Buffer.of(octet));
  expect(ring.lines()).toEqual(Array(50).fill('é🌋'));
});

it('cuts secrets before lines, and drops what a terminal would obey', () => {
  const secret = 's'.repeat(40);
  const ring = createStderrRing((text) => text.replaceAll(secret, '[redacted]'));
  ring.push(
    Buffer.from(`${'a'.repeat(480)}${secret}\n\u001b]0;title\u0007\u001b[1;31mred\u001b[0m\tx\u0000\u202e\r\n\n`),
  );
  expect(ring.lines()).toEqual([`${'a'.repeat(480)}[redacted]`, 'red x']);
});
