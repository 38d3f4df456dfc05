import { connect } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Edge, startEdge } from '../support/edge.ts';

let edge: Edge;
beforeAll(async () => {
  edge = await startEdge(async (app) => {
    app.post('/things', async ({ body }) => ({ members: Object.keys(body as object).length }));
    app.get('/things', async () => ({ things: [] }));
  });
});
afterAll(() => edge.close());

function rawPost(body: string | Buffer, type = 'application/json'): Promise<string> {
  const head = `POST /things HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: ${type}\r\n`;
  const octets = Buffer.from(body);
  return edge.raw(Buffer.concat([Buffer.from(`${head}Content-Length: ${octets.length}\r\n\r\n`), octets]));
}
const alive = async (): Promise<number> => (await fetch(`${edge.url}/things`)).status;

it.each([10_000, 1_000_000])('refuses %i nested arrays', async (depth) => {
  const answer = await rawPost(`{"a":${'['.repeat(depth)}${']'.repeat(depth)}}`);
  expect(answer).toMatch(/^HTTP\/1\.1 400 /);
  expect(answer).toContain('nested too deeply');
  expect(await rawPost(`{"a":${'['.repeat(depth)}`)).toMatch(/^HTTP\/1\.1 400 /);
});

it('takes a body that is nested as deeply as it says', async () => {
  expect(await rawPost(`{"a":${'['.repeat(999)}${']'.repeat(999)}}`)).toMatch(/^HTTP\/1\.1 200 /);
  expect(await rawPost(`{"a":"${'['.repeat(2000)}\\"${'{'.repeat(2000)}"}`)).toMatch(/^HTTP\/1\.1 200 /);
});

it('refuses octets that are not UTF-8', async () => {
  const answer = await rawPost(Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xc3, 0x28]), Buffer.from('"}')]));
  expect(answer).toMatch(/^HTTP\/1\.1 400 /);
  expect(answer).toContain('json_parse_exception');
  expect(answer).toContain('not valid UTF-8');
});

it('refuses a large body before it is sent', async () => {
  const size = 50 * 1024 * 1024;
  const head = `POST /things HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${size}\r\n\r\n`;
  const answer = await edge.raw(head);
  expect(answer).toMatch(/^HTTP\/1\.1 413 /);
  expect(answer).toContain('"status":413');
  expect(answer).toContain('10485760');
});

it('answers a client that sends 50 MB, and keeps none of it', async () => {
  const chunk = Buffer.alloc(1024 * 1024, 0x61);
  let sent = 0;
  const answer = await new Promise<string>((resolve) => {
    const socket = connect(edge.port, '127.0.0.1');
    let text = '';
    socket.on('data', (data) => {
      text += data.toString();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(text));
    socket.write(
      'POST /things HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n',
    );
    const send = (): void => {
      if (sent >= 50 || socket.destroyed) return void socket.end();
      sent += 1;
      socket.write(`${chunk.length.toString(16)}\r\n`);
      socket.write(chunk);
      socket.write('\r\n', () => setImmediate(send));
    };
    send();
  });
  expect(answer).toMatch(/^HTTP\/1\.1 413 /);
  expect(await alive()).toBe(200);
});

it('answers a client that sends 50 MB of announced length', async () => {
  const response = await fetch(`${edge.url}/things`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: Buffer.alloc(50 * 1024 * 1024, 0x61),
  });
  expect(response.status).toBe(413);
  expect(await response.json()).toMatchObject({ status: 413, error: { type: 'status_exception' } });
  expect(await alive()).toBe(200);
});

it('refuses a length that is not the length', async () => {
  const answer = await edge.raw(
    'POST /things HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}',
  );
  expect(answer).toMatch(/^HTTP\/1\.1 400 /);
  expect(answer).toContain('illegal_argument_exception');
});

it.each([
  ['text', 'hello\r\n\r\n', 400],
  ['a header without colon', 'GET /things HTTP/1.1\r\nHost: localhost\r\nbroken\r\n\r\n', 400],
  ['64 kB of header', `GET /things HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(65536)}\r\n\r\n`, 431],
])('answers %s with an error of its own kind', async (_name, octets, status) => {
  const answer = await edge.raw(octets);
  expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
  const body = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4)) as { status: number; error: { type: string } };
  expect(body.status).toBe(status);
  expect(body.error.type).toBe('illegal_argument_exception');
  expect(await alive()).toBe(200);
});

it('survives a client that goes away in the middle of a body', async () => {
  await new Promise<void>((resolve) => {
    const socket = connect(edge.port, '127.0.0.1', () => {
      socket.write(
        'POST /things HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"a"',
      );
      setTimeout(() => socket.destroy(), 20);
    });
    socket.on('close', () => resolve());
  });
  expect(await alive()).toBe(200);
  expect(edge.lines.filter((line) => line.includes('"level":"error"'))).toEqual([]);
});
