import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Edge, exchange, startEdge } from '../support/edge.ts';

const KEY = 'a-static-key-of-some-length';
let edge: Edge;
beforeAll(async () => {
  edge = await startEdge(
    async (app) => {
      app.get('/things', { config: { permission: 'agent:read' } }, async () => ({}));
      app.post('/things', { config: { permission: 'agent:create' } }, async () => ({}));
    },
    { apiKey: KEY },
  );
});
afterAll(() => edge.close());

const octets = (minimum: number, maximum: number) => fc.integer({ min: minimum, max: maximum });
const part = fc.array(octets(0x21, 0xff), { maxLength: 200 }).map((codes) => Buffer.from(codes).toString('latin1'));
const header = fc.oneof(
  fc.array(octets(0x20, 0xff), { maxLength: 400 }).map((codes) => Buffer.from(codes).toString('latin1')),
  fc
    .tuple(fc.constantFrom('Basic', 'Bearer', 'ApiKey', 'bearer', 'Digest'), part)
    .map(([scheme, text]) => `${scheme} ${text}`),
  fc.uint8Array({ maxLength: 200 }).map((raw) => `Basic ${Buffer.from(raw).toString('base64')}`),
  fc.tuple(part, part, part).map((parts) => `Bearer ${parts.join('.')}`),
  fc
    .tuple(fc.object(), fc.object())
    .map(
      (parts) =>
        `Bearer ${parts.map((value) => Buffer.from(JSON.stringify(value)).toString('base64url')).join('.')}.e30`,
    ),
  part.map((text) => `Bearer tnk_${'0'.repeat(20)}_${text}`),
);

it('no Authorization header gets more than a 4xx, and none is repeated in the answer or the log', async () => {
  let number = 0;
  await fc.assert(
    fc.asyncProperty(header, fc.constantFrom('GET /things', 'POST /things', 'GET /nowhere'), async (value, line) => {
      const mark = `CANARY${number++}`;
      const head = `${line} HTTP/1.1\r\nHost: x\r\nAuthorization: ${value}${mark}\r\nConnection: close\r\n\r\n`;
      const answer = await exchange(edge.port, Buffer.from(head, 'latin1'));
      expect(answer).toMatch(/^HTTP\/1\.1 4\d\d /);
      expect(answer).not.toContain(mark);
      expect(edge.lines.join('')).not.toContain(mark);
    }),
    { numRuns: 150 },
  );
});

it('the right key still opens after all of that', async () => {
  const answer = await exchange(
    edge.port,
    `GET /things HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nConnection: close\r\n\r\n`,
  );
  expect(answer).toMatch(/^HTTP\/1\.1 200 /);
});

it('a request with two Authorization headers is not half believed', async () => {
  const answer = await exchange(
    edge.port,
    `GET /things HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\nAuthorization: Bearer ${KEY}\r\nConnection: close\r\n\r\n`,
  );
  expect(answer).toMatch(/^HTTP\/1\.1 4\d\d /);
});
