import { connect, type Socket } from 'node:net';
import { expect, it, vi } from 'vitest';
import { type Edge, startEdge } from '../support/edge.ts';

interface Held {
  readonly socket: Socket;
  readonly closed: Promise<string>;
}

function hold(edge: Edge, octets: string): Promise<Held> {
  return new Promise((resolve) => {
    const socket = connect(edge.port, '127.0.0.1', () => resolve({ socket, closed }));
    let text = '';
    socket.on('error', () => undefined);
    socket.on('data', (data) => {
      text += data.toString();
    });
    const closed = new Promise<string>((done) => socket.on('close', () => done(text)));
    socket.write(octets);
  });
}

it.each([
  ['has asked and waits', 'GET /now HTTP/1.1\r\nHost: localhost\r\n\r\n'],
  ['never asks', ''],
  ['has begun to ask', 'GET /now HT'],
])('ends a connection that %s', async (_name, octets) => {
  const edge = await startEdge(async (app) => void app.get('/now', async () => ({})));
  const { closed } = await hold(edge, octets);
  await fetch(`${edge.url}/now`).then((response) => response.text());
  let overdue = false;
  const cut = setTimeout(() => {
    overdue = true;
    edge.app.server.closeAllConnections();
  }, 10_000);
  await edge.close();
  clearTimeout(cut);
  await closed;
  expect(overdue).toBe(false);
});

it('ends a connection with the answer that was running, and takes no new one', async () => {
  let finish = (): void => undefined;
  let entered = (): void => undefined;
  const inside = new Promise<void>((resolve) => {
    entered = resolve;
  });
  const edge = await startEdge(async (app) => {
    app.get('/slow', async () => {
      entered();
      await new Promise<void>((resolve) => {
        finish = resolve;
      });
      return { done: true };
    });
  });
  const { closed } = await hold(edge, 'GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await inside;
  const closing = edge.close();
  await expect(fetch(`${edge.url}/slow`)).rejects.toThrow();
  finish();
  await closing;
  const answer = await closed;
  expect(answer).toMatch(/^HTTP\/1\.1 200 /);
  expect(answer.toLowerCase()).toContain('connection: close');
  expect(answer).toContain('{"done":true}');
});

async function slowEdge(): Promise<{ edge: Edge; inside: Promise<void> }> {
  let entered = (): void => undefined;
  const inside = new Promise<void>((resolve) => {
    entered = resolve;
  });
  const edge = await startEdge(async (app) => {
    app.get('/slow', (_request, reply) => {
      entered();
      return new Promise((_resolve, reject) =>
        reply.raw.once('close', () => reject(new TypeError('the run was ended'))),
      );
    });
  });
  return { edge, inside };
}

function linesAbout(edge: Edge, text: string): Record<string, unknown>[] {
  return edge.lines.map((line) => JSON.parse(line) as Record<string, unknown>).filter(({ msg }) => msg === text);
}

it('answers 503 to who has no answer when the waiting ends', async () => {
  const { edge, inside } = await slowEdge();
  const { closed } = await hold(edge, 'GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await inside;
  const closing = edge.close();
  edge.app.cutRequests();
  await closing;
  const answer = await closed;
  expect(answer).toMatch(/^HTTP\/1\.1 503 Service Unavailable\r\n/);
  expect(answer).toContain('Connection: close\r\n');
  const body = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4)) as { error: { reason: string } };
  expect(body).toMatchObject({ status: 503, error: { type: 'status_exception' } });
  expect(body.error.reason).toContain('shutting down');
  await vi.waitFor(() => expect(linesAbout(edge, 'the caller went away before the answer')).toHaveLength(1));
  expect(edge.lines.filter((line) => line.includes('"level":"error"'))).toEqual([]);
});

it('makes no error of a caller that goes away while its request runs', async () => {
  const { edge, inside } = await slowEdge();
  const { socket, closed } = await hold(edge, 'GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await inside;
  socket.destroy();
  await closed;
  await edge.close();
  await vi.waitFor(() => expect(linesAbout(edge, 'the caller went away before the answer')).toHaveLength(1));
  expect(linesAbout(edge, 'the caller went away before the answer')).toMatchObject([
    { level: 'info', error: 'TypeError: the run was ended', req: { method: 'GET', path: '/slow' } },
  ]);
  expect(edge.lines.join('')).not.toContain('closing.test.ts');
  expect(edge.lines.filter((line) => line.includes('"level":"error"'))).toEqual([]);
});
