import { describe, expect, it } from 'vitest';
import type { Reply, ScriptedReply } from '../support/fake-mcp-server.ts';
import { reasonOf, startRig } from './rig.ts';

const rig = startRig();
const json = { 'Content-Type': 'application/json' };
const text = (said: string) => ({ content: [{ type: 'text', text: said }] });

describe('the id of a reply', () => {
  it.each(['JSON', 'a stream'])('may be the own one as a text, in %s', async (form) => {
    const echoed: Reply = ({ message }) => {
      if (message?.id === undefined) return 'normal';
      if (form === 'JSON' || message.method !== 'tools/call') return { id: 'string' };
      return { sse: [JSON.stringify({ jsonrpc: '2.0', id: String(message.id), result: text('streamed') })] };
    };
    const server = await rig.serve({ on: { '*': echoed } });
    const agent = await rig.agent(await rig.connector(server.origin));
    rig.llm.reset({ tool: 'echo', args: '{"text":"x"}' }, 'done');
    expect((await rig.ask(agent, 'go')).answer).toBe('done');
    expect(await rig.connections(agent)).toMatchObject([{ status: 'connected' }]);
    expect(server.of('tools/call')).toHaveLength(1);
  });

  it.each<[string, ScriptedReply]>([
    ['another number', { id: 4711 }],
    ['another text', { id: 'req-1' }],
    ['null with a result', { id: null }],
    ['an object', { id: { n: 1 } }],
    ['none', { status: 200, headers: json, body: { jsonrpc: '2.0', result: text('x') } }],
    ['another number in a stream that stays open', { sse: ['{"jsonrpc":"2.0","id":4711,"result":{}}'], hold: 'open' }],
    ['an empty batch', { status: 200, headers: json, body: [] }],
  ])('that is not the own one fails the call at once, with the reason: %s', async (_name, reply) => {
    const server = await rig.serve({ on: { 'tools/call': reply } });
    const id = await rig.connector(server.origin, { client_config: { read_timeout: 60 } });
    const answer = await rig.call(id, 'echo', { text: 'x' });
    expect(answer.status).toBe(502);
    expect(reasonOf(answer)).toMatch(/id mismatch|without the reply/);
    expect(server.of('tools/call')).toHaveLength(1);
  });

  it('that is not the own one at the handshake says so too', async () => {
    const server = await rig.serve({ on: { initialize: { id: 99 } } });
    const id = await rig.connector(server.origin);
    expect(reasonOf(await rig.call(id, 'echo', { text: 'x' }))).toMatch(/initialize.*id mismatch/);
  });
});

describe('a reply in an unusual form', () => {
  it.each<[string, ScriptedReply]>([
    [
      'in a batch',
      { chunks: ['[{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"ok"}]}}]'], headers: json },
    ],
    [
      'in a batch behind a notice',
      {
        chunks: [
          '[{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}},{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"ok"}]}}]',
        ],
        headers: json,
      },
    ],
    [
      'without the version',
      { chunks: ['{"id":ID,"result":{"content":[{"type":"text","text":"ok"}]}}'], headers: json },
    ],
    [
      'with further members',
      {
        chunks: ['{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"ok"}],"x":1},"debug":{}}'],
        headers: json,
      },
    ],
    [
      'with an error that is null',
      {
        chunks: ['{"jsonrpc":"2.0","id":ID,"error":null,"result":{"content":[{"type":"text","text":"ok"}]}}'],
        headers: json,
      },
    ],
    ['with status 201', { status: 201, result: text('ok') }],
  ])('is read: %s', async (_name, reply) => {
    const server = await rig.serve({ on: { 'tools/call': reply } });
    const id = await rig.connector(server.origin);
    const answer = await rig.call(id, 'echo', { text: 'x' });
    expect(answer.body.content).toEqual([{ type: 'text', text: 'ok' }]);
  });

  it.each<[string, ScriptedReply, RegExp]>([
    ['a result that is null', { chunks: ['{"jsonrpc":"2.0","id":ID,"result":null}'], headers: json }, /not an object/],
    ['a result that is a list', { chunks: ['{"jsonrpc":"2.0","id":ID,"result":[]}'], headers: json }, /not an object/],
    ['neither result nor error', { chunks: ['{"jsonrpc":"2.0","id":ID}'], headers: json }, /not an object/],
    ['JSON that breaks off', { chunks: ['{"jsonrpc":"2.0","id":ID,"resu'], headers: json }, /not JSON/],
    ['202 in place of a reply', { status: 202 }, /without the reply/],
    ['204 in place of a reply', { status: 204 }, /without the reply/],
    ['a bare word', { status: 200, headers: json, body: '"ok"' }, /id mismatch/],
  ])('that cannot be used fails the call at once, with the reason: %s', async (_name, reply, reason) => {
    const server = await rig.serve({ on: { 'tools/call': reply } });
    const id = await rig.connector(server.origin);
    const answer = await rig.call(id, 'echo', { text: 'x' });
    expect(answer.status).toBe(502);
    expect(reasonOf(answer)).toMatch(reason);
    expect((await rig.status(id)).status).toBe('connected');
  });

  it.each<[string, string]>([
    ['a code that is a text', '{"code":"-32000","message":"no such city"}'],
    ['no code', '{"message":"no such city"}'],
    ['data beside it', '{"code":-32000,"message":"no such city","data":{"stack":"x"}}'],
    ['an HTTP status of its own', '{"code":-32000,"message":"no such city"}'],
  ])('that is an error reaches the model with what the server said: %s', async (name, error) => {
    const status = name.includes('HTTP') ? 400 : 200;
    const reply = { status, chunks: [`{"jsonrpc":"2.0","id":ID,"error":${error}}`], headers: json };
    const server = await rig.serve({ on: { 'tools/call': reply } });
    const agent = await rig.agent(await rig.connector(server.origin));
    rig.llm.reset({ tool: 'echo', args: '{"text":"x"}' }, ({ messages }) => String(messages.at(-1)?.content));
    expect((await rig.ask(agent, 'go')).answer).toContain('no such city');
    expect(server.of('tools/call')).toHaveLength(1);
  });
});
