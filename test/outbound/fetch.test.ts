import { inspect } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';
import { UpstreamError } from '../../src/errors.ts';
import { createOutbound } from '../../src/outbound/fetch.ts';
import type { Outbound, OutboundRequest } from '../../src/outbound/types.ts';
import { ask, headerLines, httpServer, httpsServer, rawServer, until } from './servers.ts';

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

describe('a request', () => {
  it('arrives with its method, path, query, body and headers, once each', async () => {
    const server = keep(
      await httpServer((_, response) => response.setHeader('X-Twice', ['a', 'b']).end('{"ok":true}')),
    );
    const body = JSON.stringify({ text: 'grüße €' });
    const response = await client().request(
      ask(`${server.origin}/a%20b?c=d%2Fe#fragment`, {
        method: 'POST',
        headers: { 'X-API-Key': Buffer.from('p:ä€', 'utf8').toString('latin1'), 'content-type': 'application/json' },
        body,
      }),
    );
    expect(response.status).toBe(200);
    expect(response.url).toBe(`${server.origin}/a%20b?c=d%2Fe#fragment`);
    expect(response.headers['x-twice']).toBe('a, b');
    expect(await response.text()).toBe('{"ok":true}');
    const [seen] = server.requests;
    if (seen === undefined) throw new Error('nothing arrived');
    expect([seen.method, seen.url, seen.body]).toEqual(['POST', '/a%20b?c=d%2Fe', body]);
    expect(Buffer.from(headerLines(seen, 'x-api-key')[0] ?? '', 'latin1').toString('utf8')).toBe('p:ä€');
    expect(headerLines(seen, 'content-type')).toEqual(['application/json']);
    expect(headerLines(seen, 'host')).toEqual([`127.0.0.1:${server.port}`]);
    expect(headerLines(seen, 'user-agent')).toEqual(['tenon']);
    expect(headerLines(seen, 'accept-encoding')).toEqual(['gzip, deflate, br']);
    expect(headerLines(seen, 'content-length')).toEqual([String(Buffer.byteLength(body))]);
  });

  it('reaches localhost and https', async () => {
    const server = keep(await httpServer((_, response) => response.end('plain')));
    const secure = keep(await httpsServer((_, response) => response.end('secure')));
    const outbound = client();
    expect(await (await outbound.request(ask(`http://localhost:${server.port}/`))).text()).toBe('plain');
    const request = ask(`https://localhost:${secure.port}/`, { skipTlsVerification: true });
    expect(await (await outbound.request(request)).text()).toBe('secure');
    expect(await (await outbound.request(request)).text()).toBe('secure');
    expect(secure.accepted()).toBeLessThanOrEqual(2);
  });

  it('answers any status as it is, with its body', async () => {
    const server = keep(await httpServer((_, response) => response.writeHead(418, { 'x-a': '1' }).end('teapot')));
    const response = await client().request(ask(`${server.origin}/`));
    expect([response.status, response.headers['x-a'], await response.text()]).toEqual([418, '1', 'teapot']);
  });

  it('takes no length of an answer without a body for its size', async () => {
    const server = keep(await httpServer((_, response) => response.setHeader('content-length', '99999999').end()));
    const response = await client().request(ask(`${server.origin}/`, { method: 'HEAD' }));
    expect([response.status, await response.text()]).toEqual([200, '']);
  });

  it('sends bytes as they are', async () => {
    const server = keep(await httpServer((_, response) => response.end()));
    await (
      await client().request(ask(`${server.origin}/`, { method: 'PUT', body: new TextEncoder().encode('bytes') }))
    ).text();
    expect(server.requests[0]?.body).toBe('bytes');
  });
});

describe('header fields', () => {
  it.each([
    ['X-Key', 'CANARY\r\nX-Admin: 1'],
    ['X-Key', 'CANARY\n'],
    ['X-Key', 'CANARY\u0000'],
    ['X-Key', 'CANARY\u007f'],
    ['X-Key', 'CANARY €'],
  ])('%s: %j is refused without its value', async (name, value) => {
    const server = keep(await httpServer((_, response) => response.end()));
    const error = await client()
      .request(ask(`${server.origin}/`, { headers: { [name]: value } }))
      .catch((thrown) => thrown);
    expect(error).toMatchObject({
      code: 'TENON_INVALID_ARGUMENT',
      statusCode: 400,
      message: `Header '${name}' holds a line break, NUL or another character that a header cannot carry (its value is not shown)`,
    });
    expect(server.accepted()).toBe(0);
  });

  it.each([
    [{ Authorization: 'a', authorization: 'b' }, "Header 'authorization' is given twice: names differ in case only"],
    [{ Host: 'evil.example' }, "Header 'Host' is set by the transport and cannot be given"],
    [{ 'Content-Length': '0' }, "Header 'Content-Length' is set by the transport and cannot be given"],
    [{ 'transfer-encoding': 'chunked' }, "Header 'transfer-encoding' is set by the transport and cannot be given"],
    [{ 'a b': 'c' }, 'Header name "a b" is not a legal field name'],
    [{ '': 'c' }, 'Header name "" is not a legal field name'],
  ])('%j are refused', async (headers, message) => {
    const error = await client()
      .request(ask('http://127.0.0.1:1/', { headers }))
      .catch((thrown) => thrown);
    expect(error).toMatchObject({ code: 'TENON_INVALID_ARGUMENT', message });
  });

  it('replace the ones added by default', async () => {
    const server = keep(await httpServer((_, response) => response.end()));
    const headers = { 'User-Agent': 'mine', 'Accept-Encoding': 'identity' };
    await (await client().request(ask(`${server.origin}/`, { headers }))).text();
    const [seen] = server.requests;
    expect(seen && [headerLines(seen, 'user-agent'), headerLines(seen, 'accept-encoding')]).toEqual([
      ['mine'],
      ['identity'],
    ]);
  });
});

describe('a request that never left', () => {
  const secret = { headers: { authorization: 'Bearer CANARY' } };

  it('was refused by a closed port', async () => {
    const server = await httpServer(() => {});
    await server.close();
    const error = await failure(client(), ask(`${server.origin}/path?key=CANARY`, secret));
    expect(error).toMatchObject({
      code: 'connection_refused',
      statusCode: 502,
      delivered: 'no',
      retryable: true,
      destination: 'connector "test"',
      message: `connector "test" at ${server.origin} refused the connection (ECONNREFUSED).`,
      cause: { code: 'ECONNREFUSED' },
    });
  });

  it('has a name that nobody knows', async () => {
    const lookup = () => Promise.reject(Object.assign(new Error('getaddrinfo'), { code: 'ENOTFOUND' }));
    expect(await failure(client({ lookup }), ask('https://no.example/?CANARY', secret))).toMatchObject({
      code: 'dns_failed',
      statusCode: 502,
      delivered: 'no',
      retryable: true,
      message: 'connector "test" at https://no.example has a name that cannot be resolved (ENOTFOUND).',
    });
    expect(await failure(client({ lookup: async () => [] }), ask('https://no.example/'))).toMatchObject({
      code: 'dns_failed',
      message: 'connector "test" at https://no.example has a name with no address.',
    });
  });

  it('met a certificate that nobody vouches for', async () => {
    const server = keep(await httpsServer((_, response) => response.end()));
    const error = await failure(client(), ask(`https://localhost:${server.port}/`, secret));
    expect(error).toMatchObject({ code: 'tls_failed', statusCode: 502, delivered: 'no', retryable: false });
    expect(error.message).toBe(
      `connector "test" at https://localhost:${server.port} did not agree on a secure connection (DEPTH_ZERO_SELF_SIGNED_CERT).`,
    );
    expect(error.remedy).toContain('client_config.skip_ssl_verification');
    expect(server.requests).toEqual([]);
    await until(() => server.sockets.size === 0);
  });

  it('met a server that speaks no TLS', async () => {
    const server = keep(await httpServer((_, response) => response.end()));
    const error = await failure(client(), ask(`https://localhost:${server.port}/`, secret));
    expect(error).toMatchObject({
      code: 'tls_failed',
      delivered: 'no',
      remedy: 'Check that the port speaks TLS, and its versions.',
    });
  });

  it('was cut off during the TLS handshake', async () => {
    const server = keep(await rawServer((socket) => socket.once('data', () => socket.resetAndDestroy())));
    const error = await failure(client(), ask(`https://localhost:${server.port}/`, secret));
    expect(error).toMatchObject({ code: 'tls_failed', delivered: 'no', retryable: true });
  });

  it('waited too long for the TLS handshake', async () => {
    const server = keep(await rawServer((socket) => void socket.resume()));
    const error = await failure(
      client(),
      ask(`https://localhost:${server.port}/`, { ...secret, connectTimeoutMs: 150 }),
    );
    expect(error).toMatchObject({
      code: 'connect_timeout',
      statusCode: 504,
      delivered: 'no',
      retryable: true,
      message: `connector "test" at https://localhost:${server.port} could not be connected to within 0.15 s.`,
    });
    await until(() => server.sockets.size === 0);
  });

  it('waited too long for the resolver', async () => {
    const outbound = client({ lookup: () => new Promise(() => {}) });
    const error = await failure(outbound, ask('https://slow.example/', { connectTimeoutMs: 100 }));
    expect(error).toMatchObject({ code: 'connect_timeout', delivered: 'no' });
  });

  it('came after the client was closed', async () => {
    const outbound = client();
    await outbound.close();
    expect(await failure(outbound, ask('http://127.0.0.1:1/'))).toMatchObject({
      statusCode: 503,
      delivered: 'no',
      retryable: false,
    });
  });
});

describe('a request that may have been processed', () => {
  it('is not answered in time', async () => {
    const server = keep(await httpServer(() => {}));
    const request = ask(`${server.origin}/x?CANARY`, { headers: { 'x-key': 'CANARY' }, responseTimeoutMs: 150 });
    expect(await failure(client(), request)).toMatchObject({
      code: 'response_timeout',
      statusCode: 504,
      delivered: 'unknown',
      retryable: true,
      message: `connector "test" at ${server.origin} did not begin to answer in time.`,
      cause: { code: 'UND_ERR_HEADERS_TIMEOUT' },
    });
    await until(() => server.sockets.size === 0);
  });

  it('is cut off before the answer', async () => {
    const server = keep(await httpServer((request) => request.socket.resetAndDestroy()));
    const error = await failure(
      client(),
      ask(`${server.origin}/`, { method: 'POST', body: 'x', headers: { 'x-key': 'CANARY' } }),
    );
    expect(error).toMatchObject({ code: 'stream_broken', statusCode: 502, delivered: 'unknown', retryable: true });
    expect(error.message).toMatch(
      /^connector "test" at http:\/\/127\.0\.0\.1:\d+ broke the connection before its answer was complete/,
    );
  });

  it('is cut off in the middle of the answer, chunked or by length', async () => {
    const reset = keep(
      await httpServer((request, response) => {
        response.write('part');
        setTimeout(() => request.socket.resetAndDestroy(), 20);
      }),
    );
    expect(await failure(client(), ask(`${reset.origin}/`))).toMatchObject({
      code: 'stream_broken',
      delivered: 'unknown',
    });
    const short = keep(
      await rawServer((socket) =>
        socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf')),
      ),
    );
    expect(await failure(client(), ask(`${short.origin}/`))).toMatchObject({
      code: 'stream_broken',
      delivered: 'unknown',
    });
  });

  it('is answered with something that is not HTTP', async () => {
    const server = keep(await rawServer((socket) => socket.once('data', () => socket.end('SSH-2.0-CANARY\r\n'))));
    const error = await failure(client(), ask(`${server.origin}/`));
    expect(error).toMatchObject({ code: 'invalid_response', statusCode: 502, retryable: false });
    expect(error.message).toMatch(/answered with something that is not HTTP( \(HPE_\w+\))?\.$/);
  });

  it('is answered with too many headers', async () => {
    const server = keep(
      await rawServer((socket) =>
        socket.once('data', () => socket.end(`HTTP/1.1 200 OK\r\nx: ${'y'.repeat(40_000)}\r\n\r\n`)),
      ),
    );
    expect(await failure(client(), ask(`${server.origin}/`))).toMatchObject({
      code: 'invalid_response',
      message: `connector "test" at ${server.origin} answered with more header data than is accepted.`,
    });
  });

  it('falls silent in the middle of the answer', async () => {
    const server = keep(await httpServer((_, response) => void response.write('part')));
    expect(await failure(client(), ask(`${server.origin}/`, { idleTimeoutMs: 150 }))).toMatchObject({
      code: 'response_timeout',
      statusCode: 504,
      message: `connector "test" at ${server.origin} fell silent in the middle of its answer.`,
    });
    await until(() => server.sockets.size === 0);
  });
});

describe('abort', () => {
  const reason = new Error('not wanted');

  async function aborted(outbound: Outbound, request: OutboundRequest, when: () => Promise<unknown>): Promise<void> {
    const controller = new AbortController();
    const running = outbound.request({ ...request, signal: controller.signal }).then((response) => response.text());
    running.catch(() => {});
    await when();
    controller.abort(reason);
    await expect(running).rejects.toBe(reason);
  }

  it('before the start sends nothing', async () => {
    const server = keep(await httpServer((_, response) => response.end()));
    const request = ask(`${server.origin}/`, { signal: AbortSignal.abort(reason) });
    await expect(client().request(request)).rejects.toBe(reason);
    expect(server.accepted()).toBe(0);
  });

  it('while the name is resolved', async () => {
    let asked = () => {};
    const called = new Promise<void>((done) => {
      asked = done;
    });
    const lookup = () => {
      asked();
      return new Promise<never>(() => {});
    };
    await aborted(client({ lookup }), ask('https://slow.example/'), () => called);
  });

  it('in the TLS handshake frees the socket long before the timeout', async () => {
    const server = keep(await rawServer((socket) => void socket.resume()));
    await aborted(client(), ask(`https://localhost:${server.port}/`, { connectTimeoutMs: 60_000 }), () =>
      until(() => server.sockets.size === 1),
    );
    await until(() => server.sockets.size === 0);
  });

  it('while waiting for the answer frees the socket', async () => {
    const server = keep(await httpServer(() => {}));
    await aborted(client(), ask(`${server.origin}/`), () => until(() => server.requests.length === 1));
    await until(() => server.sockets.size === 0);
  });

  it('in the body frees the socket, though the drip never pauses', async () => {
    const server = keep(
      await httpServer((request, response) => {
        const drip = setInterval(() => response.write('.'), 5);
        request.socket.on('close', () => clearInterval(drip));
      }),
    );
    await aborted(
      client(),
      ask(`${server.origin}/`, { idleTimeoutMs: 200 }),
      () => new Promise((done) => setTimeout(done, 400)),
    );
    await until(() => server.sockets.size === 0);
  });

  it('of one of two requests to a silent server leaves the other alone', async () => {
    const server = keep(
      await httpServer((request, response) => {
        if (request.url === '/late') setTimeout(() => response.end('late'), 200);
      }),
    );
    const outbound = client();
    const late = outbound.request(ask(`${server.origin}/late`)).then((response) => response.text());
    await aborted(outbound, ask(`${server.origin}/never`), () => until(() => server.requests.length === 2));
    expect(await late).toBe('late');
  });
});
