import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import { UpstreamError } from '../../src/errors.ts';
import { createOutbound } from '../../src/outbound/fetch.ts';
import type { OutboundRequest } from '../../src/outbound/types.ts';
import { ask, httpServer, type TestServer, until } from './servers.ts';

const open: { close(): Promise<void> }[] = [];
function keep<T extends { close(): Promise<void> }>(thing: T): T {
  open.push(thing);
  return thing;
}
afterEach(async () => {
  for (const thing of open.splice(0).reverse()) await thing.close();
});

/** A server that answers every request with these octets. */
function answering(body: Buffer, headers: Record<string, string> = {}): Promise<TestServer> {
  return httpServer((_, response) => response.writeHead(200, headers).end(body)).then(keep);
}

async function text(server: TestServer, more: Partial<OutboundRequest> = {}): Promise<string> {
  const outbound = keep(createOutbound());
  return (await outbound.request(ask(`${server.origin}/`, more))).text();
}

async function failure(server: TestServer, more: Partial<OutboundRequest> = {}): Promise<UpstreamError> {
  const error = await text(server, more).catch((thrown) => thrown);
  expect(error).toBeInstanceOf(UpstreamError);
  return error;
}

const tooMuch = (server: TestServer, bytes: number) => ({
  code: 'invalid_response',
  statusCode: 502,
  retryable: false,
  delivered: 'unknown',
  message: `connector "test" at ${server.origin} answered with more than the ${bytes} bytes that are accepted.`,
});

describe('content coding', () => {
  const plain = JSON.stringify({ text: 'grüße '.repeat(5000) });
  const raw = Buffer.from(plain);

  it.each<[string, Buffer]>([
    ['gzip', gzipSync(raw)],
    ['x-gzip', gzipSync(raw)],
    ['GZIP', gzipSync(raw)],
    ['deflate', deflateSync(raw)],
    ['deflate', deflateRawSync(raw)],
    ['br', brotliCompressSync(raw)],
    ['gzip, br', brotliCompressSync(gzipSync(raw))],
    ['br, deflate', deflateRawSync(brotliCompressSync(raw))],
    ['identity', raw],
    ['', raw],
  ])('%s is undone', async (coding, body) => {
    expect(await text(await answering(body, { 'content-encoding': coding }))).toBe(plain);
  });

  it('of an empty deflate body is nothing', async () => {
    expect(await text(await answering(deflateSync(''), { 'content-encoding': 'deflate' }))).toBe('');
  });

  it('is undone as it arrives', async () => {
    const { createGzip, constants } = await import('node:zlib');
    let finish = () => {};
    const server = keep(
      await httpServer((_, response) => {
        response.writeHead(200, { 'content-encoding': 'gzip', 'content-type': 'text/event-stream' });
        const gzip = createGzip({ flush: constants.Z_SYNC_FLUSH });
        gzip.pipe(response);
        gzip.write('data: first\n\n');
        finish = () => gzip.end('data: last\n\n');
      }),
    );
    const response = await keep(createOutbound()).request(ask(`${server.origin}/`));
    const seen: string[] = [];
    for await (const chunk of response.body) {
      seen.push(Buffer.from(chunk).toString());
      if (seen.length === 1) finish();
    }
    expect(seen.join('')).toBe('data: first\n\ndata: last\n\n');
  });

  it.each(['gzip', 'deflate', 'br'])('%s that is none is a failure in words', async (coding) => {
    const server = await answering(Buffer.from('{"plain":"CANARY"}'), { 'content-encoding': coding });
    expect(await failure(server)).toMatchObject({
      code: 'invalid_response',
      message: `connector "test" at ${server.origin} answered a body that is not valid ${coding}.`,
    });
  });

  it('that ends too early is a failure', async () => {
    const cut = gzipSync(raw).subarray(0, 60);
    expect(await failure(await answering(cut, { 'content-encoding': 'gzip' }))).toMatchObject({
      code: 'invalid_response',
    });
  });

  it.each(['compress', 'zstd', 'gzip, gzip, gzip'])('%s is refused', async (coding) => {
    const server = await answering(raw, { 'content-encoding': coding });
    expect(await failure(server)).toMatchObject({
      code: 'invalid_response',
      message: `connector "test" at ${server.origin} answered in a content coding that is not supported.`,
    });
  });
});

describe('size', () => {
  it('at the limit passes, one byte more does not', async () => {
    const server = await answering(Buffer.alloc(1000, 'x'));
    expect(await text(server, { maxResponseBytes: 1000 })).toHaveLength(1000);
    expect(await failure(server, { maxResponseBytes: 999 })).toMatchObject(tooMuch(server, 999));
  });

  it('is counted without an announced length too', async () => {
    const server = keep(
      await httpServer((_, response) => {
        response.write('x'.repeat(600));
        response.end('x'.repeat(400));
      }),
    );
    expect(await text(server, { maxResponseBytes: 1000 })).toHaveLength(1000);
    expect(await failure(server, { maxResponseBytes: 999 })).toMatchObject(tooMuch(server, 999));
  });

  it('that is announced above the limit is refused at once', async () => {
    const server = keep(
      await httpServer((_, response) => void response.writeHead(200, { 'content-length': '99999999999' }).write('x')),
    );
    expect(await failure(server, { maxResponseBytes: 1000 })).toMatchObject(tooMuch(server, 1000));
    await until(() => server.sockets.size === 0);
  });

  it('is counted after decoding', async () => {
    const bomb = gzipSync(Buffer.alloc(50_000_000));
    const server = await answering(bomb, { 'content-encoding': 'gzip' });
    expect(bomb.length).toBeLessThan(100_000);
    expect(await failure(server, { maxResponseBytes: 100_000 })).toMatchObject(tooMuch(server, 100_000));
    const twice = await answering(gzipSync(bomb), { 'content-encoding': 'gzip, gzip' });
    expect(await failure(twice, { maxResponseBytes: 100_000 })).toMatchObject(tooMuch(twice, 100_000));
  });

  it('of an endless answer is no matter', async () => {
    const server = keep(
      await httpServer((request, response) => {
        const more = () => {
          while (response.write('x'.repeat(10_000)));
        };
        response.on('drain', more);
        request.socket.on('close', () => response.off('drain', more));
        more();
      }),
    );
    expect(await failure(server, { maxResponseBytes: 500_000 })).toMatchObject(tooMuch(server, 500_000));
    await until(() => server.sockets.size === 0);
  });
});

it('text is UTF-8, whatever the chunks, without a byte order mark', async () => {
  const octets = Buffer.from('\ufeffgrüße €😀');
  const server = keep(
    await httpServer((_, response) => {
      let at = 0;
      const drip = () => {
        if (at === octets.length) return void response.end();
        response.write(octets.subarray(at, ++at), () => setImmediate(drip));
      };
      drip();
    }),
  );
  expect(await text(server)).toBe('grüße €😀');
});
