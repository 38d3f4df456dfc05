import { describe, expect, it } from 'vitest';
import type { Reply } from '../support/fake-mcp-server.ts';
import { startRig } from './rig.ts';

const rig = startRig();
const json = { 'Content-Type': 'application/json' };

describe('an answer to a notification', () => {
  it.each<[string, Reply]>([
    ['200 with null', { status: 200, headers: json, body: 'null' }],
    ['204', { status: 204 }],
    ['200 with an empty body', { status: 200, body: '' }],
    ['202 that announces JSON and has none', { status: 202, headers: json, body: '' }],
    ['200 with an object', { status: 200, headers: json, body: '{"jsonrpc":"2.0","result":{}}' }],
    ['200 with broken JSON', { status: 200, headers: json, body: '{"jsonrpc' }],
    ['200 with text', { status: 200, headers: { 'Content-Type': 'text/plain' }, body: 'Accepted' }],
    ['200 with a page', { status: 200, headers: { 'Content-Type': 'text/html' }, body: '<p>ok</p>' }],
    ['201', { status: 201, headers: { Location: '/x' } }],
    ['an empty stream', { sse: [] }],
    ['a stream with an event', { sse: ['{"jsonrpc":"2.0","method":"notifications/message","params":{}}'] }],
  ])('that is any 2xx is success, whatever its body: %s', async (_name, reply) => {
    const server = await rig.serve({ on: { 'notifications/initialized': reply } });
    const id = await rig.connector(server.origin);
    expect((await rig.call(id, 'echo', { text: 'x' })).body.content).toEqual([
      { type: 'text', text: 'echo: {"text":"x"}' },
    ]);
    expect(await rig.status(id)).toMatchObject({ status: 'connected', tool_count: 1 });
    expect(server.of('initialize')).toHaveLength(1);
  });

  it.each([400, 403, 500])('that is %i is a failure that names the step', async (status) => {
    const server = await rig.serve({ on: { 'notifications/initialized': { status } } });
    const id = await rig.connector(server.origin, { client_config: { max_retry_times: 0 } });
    expect((await rig.call(id, 'echo', { text: 'x' })).status).toBe(502);
    expect(JSON.stringify((await rig.status(id)).error)).toContain(`HTTP ${status} to notifications/initialized`);
  });
});

describe('the type of an answer to a request', () => {
  it.each([
    'application/json',
    'application/json; charset=utf-8',
    'APPLICATION/JSON;charset=UTF-8',
    'application/json ; charset="utf-8"',
  ])('is read without regard to case and parameters: %s', async (type) => {
    const typed: Reply = { headers: { 'Content-Type': type } };
    const server = await rig.serve({
      on: {
        initialize: { headers: { 'Content-Type': type, 'Mcp-Session-Id': 's-1' } },
        'tools/list': typed,
        'tools/call': typed,
      },
      sessions: false,
    });
    const id = await rig.connector(server.origin);
    expect((await rig.call(id, 'echo', { text: 'x' })).status).toBe(200);
  });

  it.each(['text/event-stream', 'text/event-stream; charset=utf-8', 'Text/Event-Stream'])(
    'of a stream too: %s',
    async (type) => {
      const event = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"streamed"}]}}';
      const server = await rig.serve({ on: { 'tools/call': { headers: { 'Content-Type': type }, sse: [event] } } });
      const id = await rig.connector(server.origin);
      expect((await rig.call(id, 'echo', { text: 'x' })).body.content).toEqual([{ type: 'text', text: 'streamed' }]);
    },
  );

  it('may be missing where the body is the reply, and a byte order mark does not matter', async () => {
    const body = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"ok é"}]}}';
    const server = await rig.serve({
      on: { 'tools/call': [{ chunks: [body] }, { headers: json, chunks: [`<EF><BB><BF>${body}`] }] },
    });
    const id = await rig.connector(server.origin);
    for (let call = 0; call < 2; call += 1) {
      expect((await rig.call(id, 'echo', { text: 'x' })).body.content).toEqual([{ type: 'text', text: 'ok é' }]);
    }
  });
});
