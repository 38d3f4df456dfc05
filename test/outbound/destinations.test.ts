import { afterEach, describe, expect, it } from 'vitest';
import { UpstreamError } from '../../src/errors.ts';
import { createOutbound } from '../../src/outbound/fetch.ts';
import type { OutboundRequest } from '../../src/outbound/types.ts';
import { ask, headerLines, httpServer, listedPolicy, openPolicy, type TestServer } from './servers.ts';

const open: { close(): Promise<void> }[] = [];
function keep<T extends { close(): Promise<void> }>(thing: T): T {
  open.push(thing);
  return thing;
}
afterEach(async () => {
  for (const thing of open.splice(0).reverse()) await thing.close();
});

const canary = () => httpServer((_, response) => response.end('CANARY')).then(keep);
const redirecting = (status: number, location: (server: TestServer) => string | undefined) => {
  const server: Promise<TestServer> = httpServer(async (request, response) => {
    const target = request.url === '/mcp' ? location(await server) : undefined;
    if (target === undefined) return response.end(`arrived at ${request.url}`);
    response.writeHead(status, { location: target }).end('moved');
  }).then(keep);
  return server;
};

async function failure(request: OutboundRequest, outbound = keep(createOutbound())): Promise<UpstreamError> {
  const error = await outbound.request(request).catch((thrown) => thrown);
  expect(error).toBeInstanceOf(UpstreamError);
  return error;
}

describe('redirects', () => {
  it.each([307, 308])('%d inside the origin is followed with method, body and headers', async (status) => {
    const server = await redirecting(status, () => '/mcp/?a=b');
    const headers = { 'x-key': 'v', 'mcp-session-id': 's-1' };
    const response = await keep(createOutbound()).request(
      ask(`${server.origin}/mcp`, { method: 'POST', headers, body: '{"a":1}' }),
    );
    expect(await response.text()).toBe('arrived at /mcp/?a=b');
    expect(response.url).toBe(`${server.origin}/mcp/?a=b`);
    expect(server.requests.map(({ method, url, body }) => [method, url, body])).toEqual([
      ['POST', '/mcp', '{"a":1}'],
      ['POST', '/mcp/?a=b', '{"a":1}'],
    ]);
    for (const seen of server.requests) {
      expect([headerLines(seen, 'x-key'), headerLines(seen, 'mcp-session-id')]).toEqual([['v'], ['s-1']]);
    }
  });

  it('with an absolute Location in the origin is followed', async () => {
    const server = await redirecting(307, ({ origin }) => `${origin}/there`);
    expect(await (await keep(createOutbound()).request(ask(`${server.origin}/mcp`))).text()).toBe('arrived at /there');
  });

  it.each([301, 302, 303])('%d would change the method: a failure that names the address', async (status) => {
    const server = await redirecting(status, () => '/mcp/?key=CANARY#CANARY');
    const error = await failure(ask(`${server.origin}/mcp`, { method: 'POST', body: 'x' }));
    expect(error).toMatchObject({
      code: 'wrong_path',
      statusCode: 502,
      retryable: false,
      delivered: 'no',
      message: `connector "test" at ${server.origin} redirects to ${server.origin}/mcp/ (${status}): only 307 and 308 keep the method and are followed.`,
      remedy: 'If that address is the right one, use it in place of the configured one.',
    });
    expect(server.requests).toHaveLength(1);
  });

  it.each([301, 302, 303, 307, 308])('%d to another origin reaches nobody', async (status) => {
    const target = await canary();
    const server = await redirecting(status, () => `http://user:CANARY@127.0.0.1:${target.port}/steal?key=CANARY`);
    const origins = [server.origin, target.origin];
    const error = await failure(
      ask(`${server.origin}/mcp`, { headers: { authorization: 'Bearer CANARY' }, ...{ origins } }),
    );
    expect(error).toMatchObject({
      code: 'address_refused',
      statusCode: 502,
      retryable: false,
      message: `connector "test" at ${server.origin} redirects to http://127.0.0.1:${target.port}/steal (${status}): a redirect to another origin is not followed.`,
    });
    expect(target.accepted()).toBe(0);
  });

  it.each(['http://169.254.169.254/latest', 'https://127.0.0.1/', 'file:///etc/passwd', '//localhost/x'])(
    'to %s is not followed',
    async (location) => {
      const server = await redirecting(307, () => location);
      expect(await failure(ask(`${server.origin}/mcp`))).toMatchObject({ code: 'address_refused' });
      expect(server.requests).toHaveLength(1);
    },
  );

  it('with user and password in the origin is not followed', async () => {
    const server = await redirecting(307, ({ port }) => `http://user:CANARY@127.0.0.1:${port}/there`);
    const error = await failure(ask(`${server.origin}/mcp`));
    expect(error.code).toBe('address_refused');
    expect(error.message).not.toContain('CANARY');
  });

  it('to something that is no address is a failure', async () => {
    const server = await redirecting(307, () => 'http://[CANARY');
    expect(await failure(ask(`${server.origin}/mcp`))).toMatchObject({
      code: 'wrong_path',
      message: `connector "test" at ${server.origin} redirects with a Location that is not an address (307).`,
    });
  });

  it('is followed five times and not six', async () => {
    let hops = 0;
    const server = keep(
      await httpServer((_, response) => {
        if (hops === 0) return response.end('arrived');
        hops -= 1;
        response.writeHead(307, { location: `/${hops}` }).end();
      }),
    );
    hops = 5;
    expect(await (await keep(createOutbound()).request(ask(`${server.origin}/mcp`))).text()).toBe('arrived');
    expect(server.requests).toHaveLength(6);
    hops = 1000;
    expect(await failure(ask(`${server.origin}/mcp`))).toMatchObject({
      code: 'wrong_path',
      message: expect.stringContaining('more than 5 redirects'),
    });
    expect(server.requests).toHaveLength(12);
  });

  it('is a failure where redirects are refused', async () => {
    const server = await redirecting(307, () => '/mcp/');
    expect(await failure(ask(`${server.origin}/mcp`, { redirect: 'refuse' }))).toMatchObject({
      code: 'wrong_path',
      message: `connector "test" at ${server.origin} redirects to ${server.origin}/mcp/ (307): redirects are not followed here.`,
    });
    expect(server.requests).toHaveLength(1);
  });

  it('must stay where the lists allow', async () => {
    const server = await redirecting(307, () => '/admin');
    const policy = listedPolicy('http://127\\.0\\.0\\.1:\\d+/mcp');
    expect(await failure(ask(`${server.origin}/mcp`, { policy }))).toMatchObject({
      code: 'address_refused',
      statusCode: 400,
    });
    expect(server.requests).toHaveLength(1);
  });

  it('is only what says so: 304, 300 and a 307 without Location are answers', async () => {
    for (const status of [300, 304, 307]) {
      const server = keep(
        await httpServer((_, response) => response.writeHead(status, status === 307 ? {} : { location: '/x' }).end()),
      );
      const response = await keep(createOutbound()).request(ask(`${server.origin}/mcp`));
      expect([response.status, await response.text()]).toEqual([status, '']);
    }
  });
});

describe('the address', () => {
  it.each([
    'http://169.254.169.254/latest',
    'http://metadata.google.internal/',
    'file:///etc/passwd',
    'gopher://x',
    'http://user:CANARY@127.0.0.1/',
    'http://2130706433/',
    'http://[::ffff:127.0.0.1]/',
    'http://10.0.0.1/',
    'http://api.example.com/',
  ])('%s is refused with no look-up and no packet', async (url) => {
    let lookups = 0;
    const lookup = async () => {
      lookups += 1;
      return [{ address: '127.0.0.1' }];
    };
    const warnings: object[] = [];
    const log = { warn: (fields: object) => void warnings.push(fields) } as never;
    const error = await failure(ask(url), keep(createOutbound({ lookup, log })));
    expect(error).toMatchObject({ code: 'address_refused', statusCode: 400, delivered: 'no', retryable: false });
    expect(error.message).toMatch(/^connector "test" may not be contacted\. /);
    expect(JSON.stringify([error.message, warnings])).not.toContain('CANARY');
    expect(lookups).toBe(0);
    expect(warnings).toEqual([{ destination: 'connector "test"', reason: error.message }]);
  });

  it('outside the origins of the request is refused before any packet', async () => {
    const server = await canary();
    for (const origins of [
      [],
      ['https://a.example'],
      [`http://localhost:${server.port}`],
      [`https://127.0.0.1:${server.port}`],
      ['nonsense'],
    ]) {
      const error = await failure(ask(`${server.origin}/`, { origins }));
      expect(error).toMatchObject({
        code: 'address_refused',
        statusCode: 400,
        message: `connector "test" may not be contacted. ${server.origin} is not one of its origins: ${origins.join(', ')}.`,
      });
    }
    expect(server.accepted()).toBe(0);
    const response = await keep(createOutbound()).request(
      ask(`${server.origin}/`, { origins: [`${server.origin}/path`] }),
    );
    expect(response.status).toBe(200);
  });

  it('is checked as resolved: a private one is refused, and named with its setting', async () => {
    const server = await canary();
    const outbound = keep(createOutbound({ lookup: async () => [{ address: '127.0.0.1' }] }));
    const error = await failure(ask(`https://evil.example:${server.port}/`), outbound);
    expect(error).toMatchObject({ code: 'address_refused', statusCode: 400, delivered: 'no', retryable: false });
    expect(error.message).toContain(
      'Remote inference host name has private ip address: evil.example (127.0.0.1). To allow it, add ',
    );
    expect(server.accepted()).toBe(0);
  });

  it('that is public first and loopback the next time is never connected to on loopback', async () => {
    const server = await canary();
    // Of the retired 6bone block: public by its range, and routed nowhere.
    const answers = [
      [{ address: '3ffe::1' }],
      [{ address: '127.0.0.1' }],
      [{ address: '127.0.0.1' }, { address: '3ffe::1' }],
    ];
    let lookups = 0;
    const outbound = keep(createOutbound({ lookup: async () => answers[lookups++] ?? [] }));
    const request = ask(`https://rebinding.example:${server.port}/`, { connectTimeoutMs: 300 });
    expect((await failure(request, outbound)).code).toMatch(/^(connection_refused|connect_timeout)$/);
    expect(lookups).toBe(1);
    expect((await failure(request, outbound)).code).toBe('address_refused');
    expect((await failure(request, outbound)).code).toMatch(/^(connection_refused|connect_timeout)$/);
    expect(lookups).toBe(3);
    expect(server.accepted()).toBe(0);
  });

  it('is looked up once for a connection, which later requests use', async () => {
    const server = await canary();
    let lookups = 0;
    const lookup = async () => {
      lookups += 1;
      return [{ address: '127.0.0.1' }];
    };
    const outbound = keep(createOutbound({ lookup }));
    const policy = listedPolicy('http://app\\.test:\\d+/.*');
    for (let round = 0; round < 20; round++)
      await (await outbound.request(ask(`http://app.test:${server.port}/`, { policy }))).text();
    expect(lookups).toBe(server.accepted());
    expect(lookups).toBeLessThanOrEqual(2);
  });

  it('does not ride on a connection that another policy or path has opened', async () => {
    const server = await canary();
    const outbound = keep(createOutbound({ lookup: async () => [{ address: '127.0.0.1' }] }));
    const listed = listedPolicy('http://app\\.test:\\d+/mcp');
    const url = `http://app.test:${server.port}/mcp`;
    await (await outbound.request(ask(url, { policy: listed }))).text();
    const wide = { ...listed, trusted: [/.*/] };
    await (await outbound.request(ask(url, { policy: wide }))).text();
    expect(await failure(ask(`http://app.test:${server.port}/other`, { policy: wide }), outbound)).toMatchObject({
      code: 'address_refused',
    });
    expect(await failure(ask(url, { policy: { ...listed, restrictedIps: [/127\..*/] } }), outbound)).toMatchObject({
      code: 'address_refused',
    });
    expect(await failure(ask(url, { policy: openPolicy }), outbound)).toMatchObject({ code: 'address_refused' });
    expect(server.requests).toHaveLength(2);
  });
});
