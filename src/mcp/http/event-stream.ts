import { setImmediate as othersTurn } from 'node:timers/promises';

/** One dispatched event of a `text/event-stream`. */
export interface StreamEvent {
  /** `message` where the stream names none. */
  readonly type: string;
  readonly data: string;
  /** Last event id in force, `''` when the stream never set one. */
  readonly id: string;
}

const EVENTS_A_TURN = 64;

interface StreamLimits {
  /** Longest event, in characters; one more and `tooLong` is thrown. */
  readonly maxEventLength: number;
  readonly tooLong: () => Error;
  /** Reconnection time named by the stream, in milliseconds. */
  readonly onRetry?: (milliseconds: number) => void;
}

/**
 * Reads events by WHATWG HTML 9.2.6: CR, LF and CRLF end a line, data lines join with LF, comments are skipped, UTF-8
 * is decoded across chunks. An event whose blank line is missing at the end of the stream is dispatched all the same.
 * A chunk may hold thousands of events: between batches of them the rest of the process has its turn.
 */
export async function* readEvents(body: AsyncIterable<Uint8Array>, limits: StreamLimits): AsyncGenerator<StreamEvent> {
  const decoder = new TextDecoder('utf-8');
  let pending = '';
  let afterCarriageReturn = false;
  let data: string | undefined;
  let type = '';
  let id = '';
  let length = 0;

  function takeLine(line: string): StreamEvent | undefined {
    if (line === '') {
      const event = data === undefined ? undefined : { type: type || 'message', data, id };
      data = undefined;
      type = '';
      length = 0;
      return event;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (field === 'data') data = data === undefined ? value : `${data}\n${value}`;
    else if (field === 'event') type = value;
    else if (field === 'id' && !value.includes('\0')) id = value;
    else if (field === 'retry' && /^\d+$/.test(value)) limits.onRetry?.(Number(value));
    return undefined;
  }

  function* takeText(text: string): Generator<StreamEvent> {
    let start = afterCarriageReturn && text.startsWith('\n') ? 1 : 0;
    if (text !== '') afterCarriageReturn = false;
    for (let at = start; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      if (code !== 10 && code !== 13) continue;
      const line = pending + text.slice(start, at);
      pending = '';
      if (code === 13) {
        if (at + 1 === text.length) afterCarriageReturn = true;
        else if (text.charCodeAt(at + 1) === 10) at += 1;
      }
      start = at + 1;
      length += line.length;
      if (length > limits.maxEventLength) throw limits.tooLong();
      const event = takeLine(line);
      if (event) yield event;
    }
    pending += text.slice(start);
    if (length + pending.length > limits.maxEventLength) throw limits.tooLong();
  }

  let dispatched = 0;
  for await (const chunk of body) {
    for (const event of takeText(decoder.decode(chunk, { stream: true }))) {
      yield event;
      dispatched += 1;
      if (dispatched % EVENTS_A_TURN === 0) await othersTurn();
    }
  }
  yield* takeText(`${decoder.decode()}\n\n`);
}
