import { getEventListeners } from 'node:events';
import { inspect } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';
import { UpstreamError } from '../../src/errors.ts';
import { createOutbound } from '../../src/outbound/fetch.ts';
import type { Outbound, OutboundRequest } from '../../src/outbound/types.ts';
import { ask, headerLines, httpServer, listedPolicy, type TestServer, until } from './servers.ts';

const open: { close(): Promise<void> }[] = [];
function keep<T extends { close(): Promise<void> }>(thing: T): T {
  open.push(thing);
  return thing;
}
afterEach(async () => {
  for (const thing of open.splice(0).reverse()) await thing.close();
});

function client(deps: Parameters<typeof createOutbound>[0] = {}): Outbound {
  return keep(createOutbound(deps));
}

async function failure(outbound: Outbound, request: OutboundRequest): Promise<UpstreamError> {
  const error = await outbound
    .request(request)
    .then(
      (response) => response.text().then(() => undefined),
      (thrown) => thrown,
    )
    .catch((thrown) => thrown);
  expect(error).toBeInstanceOf(UpstreamError);
  expect(inspect(error, { depth: 10 })).not.toContain('CANARY');
  return error;
}

describe('connections', () => {
  it('are kept: thousands of requests in turn use one', async () => {
    const server = keep(await httpServer((_, response) => response.end('ok')));
    const outbound = client();
    for (let round = 0; round < 3000; round++) {
      const response = await outbound.request(ask(`${server.origin}/${round}`));
      if (round % 3 === 0) response.discard();
      else await response.text();
    }
    expect(server.requests).toHaveLength(3000);
    expect(server.accepted()).toBeLessThan(10);
    expect(server.sockets.size).toBeLessThan(5);
  }, 60_000);

  it('are freed by discard, also of an endless stream', async () => {
    const server = keep(
      await httpServer((request, response) => {
        response.writeHead(200, { 'content-type': request.url === '/sse' ? 'text/event-stream' : 'text/plain' });
        response.write(': hello\n\n');
      }),
    );
    const outbound = client();
    for (const path of ['/sse', '/chunks']) (await outbound.request(ask(`${server.origin}${path}`))).discard();
    await until(() => server.sockets.size === 0);
  });

  it('are freed when reading stops early', async () => {
    const server = keep(await httpServer((_, response) => void response.write('first')));
    const response = await client().request(ask(`${server.origin}/`));
    for await (const chunk of response.body) {
      expect(Buffer.from(chunk).toString()).toBe('first');
      break;
    }
    await until(() => server.sockets.size === 0);
  });

  it('are all closed by close, requests in flight with them', async () => {
    const server = keep(
      await httpServer((request, response) => void (request.url === '/done' && response.end('done'))),
    );
    const outbound = client();
    await (await outbound.request(ask(`${server.origin}/done`))).text();
    const hanging = failure(outbound, ask(`${server.origin}/hang`));
    await until(() => server.requests.length === 2);
    await outbound.close();
    expect(await hanging).toMatchObject({ code: 'stream_broken', delivered: 'unknown', retryable: false });
    await until(() => server.sockets.size === 0);
  });

  it('of pools beyond the bound are closed, and the evicted origin still works', async () => {
    const server = keep(await httpServer((_, response) => response.end('ok')));
    const outbound = client();
    for (let pool = 0; pool < 300; pool++) {
      await (await outbound.request(ask(`${server.origin}/`, { connectTimeoutMs: 2000 + pool }))).text();
    }
    await until(() => server.sockets.size <= 256);
    expect(await (await outbound.request(ask(`${server.origin}/`, { connectTimeoutMs: 2000 }))).text()).toBe('ok');
  });

  it('of an evicted pool let their answer finish', async () => {
    let finish = () => {};
    const server = keep(
      await httpServer((request, response) => {
        if (request.url !== '/slow') return response.end('ok');
        response.write('first ');
        finish = () => response.end('last');
      }),
    );
    const outbound = client();
    const slow = await outbound.request(
      ask(`${server.origin}/slow`, { connectTimeoutMs: 1999, idleTimeoutMs: 20_000 }),
    );
    for (let pool = 0; pool < 257; pool++) {
      (await outbound.request(ask(`${server.origin}/`, { connectTimeoutMs: 2000 + pool }))).discard();
    }
    finish();
    expect(await slow.text()).toBe('first last');
  });

  it('to a server that closed one are opened again', async () => {
    const server = keep(await httpServer((_, response) => response.setHeader('connection', 'close').end('bye')));
    const outbound = client();
    for (let round = 0; round < 5; round++)
      expect(await (await outbound.request(ask(`${server.origin}/`))).text()).toBe('bye');
    expect(server.accepted()).toBe(5);
  });

  it('try all allowed addresses of a name', async () => {
    const server: TestServer = keep(await httpServer((_, response) => response.end('found')));
    const lookup = async () => [{ address: '127.0.0.2' }, { address: '::1' }, { address: '127.0.0.1' }];
    const policy = listedPolicy('http://app\\.test:\\d+/.*');
    const outbound = client({ lookup });
    expect(await (await outbound.request(ask(`http://app.test:${server.port}/`, { policy }))).text()).toBe('found');
    expect(headerLines(server.requests[0] ?? { rawHeaders: [] }, 'host')).toEqual([`app.test:${server.port}`]);
    const none = client({ lookup: async () => [{ address: '127.0.0.2' }, { address: '127.0.0.3' }] });
    expect(await failure(none, ask(`http://app.test:${server.port}/`, { policy }))).toMatchObject({
      code: 'connection_refused',
    });
  });
});

it('stops listening to the signal once an answer is read', async () => {
  const server = keep(await httpServer((_, response) => response.end('ok')));
  const outbound = client();
  const { signal } = new AbortController();
  for (let round = 0; round < 20; round++) {
    await (await outbound.request(ask(`${server.origin}/`, { signal }))).text();
  }
  await until(() => getEventListeners(signal, 'abort').length === 0);
});
