import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readEvents, type StreamEvent } from '../../src/mcp/http/event-stream.ts';

async function read(chunks: readonly Uint8Array[], onRetry?: (ms: number) => void): Promise<StreamEvent[]> {
  async function* body(): AsyncGenerator<Uint8Array> {
    yield* chunks;
  }
  const events: StreamEvent[] = [];
  const limits = { maxEventLength: 1000, tooLong: () => new Error('too long'), ...(onRetry && { onRetry }) };
  for await (const event of readEvents(body(), limits)) events.push(event);
  return events;
}
const text = (...parts: string[]): Uint8Array[] => parts.map((part) => Buffer.from(part));

describe('reading an event stream', () => {
  it('ends lines at CR, LF and CRLF, also across chunks', async () => {
    const events = await read(text('data: a\r', '\ndata: b\r\r', 'data: c\n\n', 'data:d\r\n', '\r\n'));
    expect(events.map(({ data }) => data)).toEqual(['a\nb', 'c', 'd']);
  });

  it('reads type, id and retry; ids stay, comments and unknown fields do not count', async () => {
    const waits: number[] = [];
    const events = await read(
      text(
        ': note\nretry: 1500\nid: 7\nevent: ping\ndata: x\nfoo: bar\n\n',
        'retry: soon\ndata: y\n\n',
        'id\ndata\n\n',
      ),
      (ms) => waits.push(ms),
    );
    expect(events).toEqual([
      { type: 'ping', data: 'x', id: '7' },
      { type: 'message', data: 'y', id: '7' },
      { type: 'message', data: '', id: '' },
    ]);
    expect(waits).toEqual([1500]);
  });

  it('removes one space after the colon, not two', async () => {
    expect((await read(text('data:  x\n\n')))[0]?.data).toBe(' x');
  });

  it('dispatches an event whose blank line is missing at the end', async () => {
    expect((await read(text('data: x')))[0]?.data).toBe('x');
  });

  it('ignores a byte order mark', async () => {
    expect((await read(text('\ufeffdata: x\n\n')))[0]?.data).toBe('x');
  });

  it('gives up an event that is too long, in one line or in many', async () => {
    await expect(read(text(`data: ${'x'.repeat(1001)}`))).rejects.toThrow('too long');
    await expect(read(text(...Array.from({ length: 200 }, () => 'data: xxxx\n')))).rejects.toThrow('too long');
    expect(await read(text(...Array.from({ length: 200 }, () => 'data: xxxx\n\n')))).toHaveLength(200);
  });

  it('gives the same events wherever the octets are cut', async () => {
    const octets = Buffer.from('id: é1\r\ndata: caf\u00e9 😀\r\ndata: 2\r\n\r\n: c\r\rdata: b\n\n');
    const whole = await read([octets]);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(octets.length), { maxLength: 8 }), async (cuts) => {
        const at = [0, ...cuts.sort((a, b) => a - b), octets.length];
        const chunks = at.slice(1).map((end, index) => octets.subarray(at[index], end));
        expect(await read(chunks)).toEqual(whole);
      }),
    );
    expect(whole.map(({ data }) => data)).toEqual(['café 😀\n2', 'b']);
  });
});
