import { pipeline, type Readable, type Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createInflateRaw } from 'node:zlib';
import { nodeCode, type Trouble, TroubleError } from './failure.ts';

const CODINGS: ReadonlySet<string> = new Set(['gzip', 'x-gzip', 'deflate', 'br']);

/** Content codings in the order they were applied. @throws TroubleError for one that cannot be undone */
export function contentCodings(header: string | undefined): string[] {
  const names = (header ?? '').toLowerCase().split(',');
  const codings = names.map((name) => name.trim()).filter((name) => name !== '' && name !== 'identity');
  if (codings.length > 2 || codings.some((name) => !CODINGS.has(name))) {
    throw new TroubleError(invalid('answered in a content coding that is not supported.'));
  }
  return codings;
}

/** @throws TroubleError if the length a response announces is above the limit */
export function checkAnnouncedLength(header: string | undefined, maxBytes: number): void {
  if (header !== undefined && Number(header) > maxBytes) throw new TroubleError(tooLarge(maxBytes));
}

/**
 * Octets of a body after content decoding. Counts what comes out: a small body that inflates beyond `maxBytes` ends in
 * a `TroubleError` like a large one. Ending the iteration early frees the connection.
 */
export async function* decodedBody(
  source: Readable,
  codings: readonly string[],
  maxBytes: number,
): AsyncGenerator<Uint8Array> {
  let total = 0;
  const stream = codings.length === 0 ? source : await decode(source, codings);
  try {
    for await (const chunk of stream) {
      total += (chunk as Uint8Array).byteLength;
      if (total > maxBytes) throw new TroubleError(tooLarge(maxBytes));
      yield chunk as Uint8Array;
    }
  } catch (error) {
    if (/^(Z_|ERR__)/.test(nodeCode(error))) {
      throw new TroubleError(invalid(`answered a body that is not valid ${codings.join(', ')}.`));
    }
    throw error;
  } finally {
    stream.destroy();
    source.destroy();
  }
}

async function decode(source: Readable, codings: readonly string[]): Promise<Readable> {
  let stream = source;
  for (const coding of codings.toReversed()) {
    const decoder = coding === 'deflate' ? await inflater(stream) : decoderOf(coding);
    stream = pipeline(stream, decoder, () => {});
  }
  return stream;
}

function decoderOf(coding: string): Transform {
  return coding === 'br' ? createBrotliDecompress() : createGunzip();
}

/** `deflate` means the zlib format, yet some servers send it bare: the first octet tells. */
async function inflater(source: Readable): Promise<Transform> {
  const first = await new Promise<number>((done, fail) => {
    const look = () => {
      const chunk = source.read() as Buffer | null;
      if (chunk === null && !source.readableEnded) return;
      source.off('readable', look).off('error', fail).off('end', look);
      if (chunk !== null) source.unshift(chunk);
      done(chunk?.[0] ?? 0x78);
    };
    source.on('readable', look).on('end', look).on('error', fail);
  });
  return (first & 0x0f) === 8 ? createInflate() : createInflateRaw();
}

function tooLarge(maxBytes: number): Trouble {
  return invalid(`answered with more than the ${maxBytes} bytes that are accepted.`);
}

function invalid(text: string): Trouble {
  return { code: 'invalid_response', text, delivered: 'unknown', retryable: false };
}
