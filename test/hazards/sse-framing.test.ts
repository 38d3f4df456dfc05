import { describe, expect, it } from 'vitest';
import type { Reply } from '../support/fake-mcp-server.ts';
import { startRig } from './rig.ts';

const rig = startRig();
const headers = { 'Content-Type': 'text/event-stream' };
const result = (text: string): string =>
  `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"${text}"}]}}`;
const NOTE = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}';

/** What the model is given of one call that is answered so. */
async function read(reply: Reply, method = 'tools/call'): Promise<string> {
  const server = await rig.serve({ on: { [method]: reply } });
  const agent = await rig.agent(await rig.connector(server.origin));
  rig.llm.reset({ tool: 'echo', args: '{"text":"x"}' }, ({ messages }) => String(messages.at(-1)?.content));
  const { answer } = await rig.ask(agent, 'go');
  expect(server.of('tools/call')).toHaveLength(1);
  return answer;
}

describe('an event of a stream is read whole', () => {
  it.each<[string, readonly (string | number)[]]>([
    [
      'with CRLF, over chunks, inside a character',
      [
        ': hi\r\n\r\nevent: message\r\nid: 1\r\ndata:{"jsonrpc":"2.0","id":ID,\r\nda',
        'ta: "result":{"content":[{"type":"text","text":"caf<C3>',
        '<A9>"}]}}\r\n',
        '\r\n',
      ],
    ],
    ['with CR alone', [`data: ${result('café')}\r\r`]],
    ['with CRLF cut in its middle', [`data: ${result('café')}\r`, '\n\r', '\n']],
    ['with line ends of every kind', [`: a\r: b\n: c\r\ndata: ${result('café')}\n\r\n`]],
    ['with a byte order mark', [`<EF><BB><BF>data: ${result('café')}\n\n`]],
    ['with a mark in pieces', ['<EF>', '<BB>', `<BF>data: ${result('café')}\n\n`]],
    ['without a space behind the colon', [`data:${result('café')}\n\n`]],
    [
      'in many lines',
      [
        `${result('café')
          .replaceAll(',', ',\n')
          .split('\n')
          .map((line) => `data: ${line}`)
          .join('\n')}\n\n`,
      ],
    ],
    ['character by character', [...`data: ${result('cafX')}\n\n`.replace('ID', '<X>')].map((c) => c)],
    ['with a field that nobody knows', [`foo: bar\nretry: soon\nid\ndata: ${result('café')}\nhm\n\n`]],
    ['with its name behind its data', [`data: ${result('café')}\nevent: message\n\n`]],
    ['without the blank line at the end', [`data: ${result('café')}\n`]],
    ['without any end of line at the end', [`data: ${result('café')}`]],
  ])('%s', async (name, chunks) => {
    if (name === 'character by character') {
      const reply: Reply = ({ message }) => {
        const text = `data: ${result('café').replace('ID', JSON.stringify(message?.id))}\n\n`;
        return { headers, chunks: [...Buffer.from(text)].map((octet) => Uint8Array.of(octet)) };
      };
      expect(await read(reply)).toBe('café');
    } else expect(await read({ headers, chunks })).toBe('café');
  });
});

describe('what comes before the result is no result', () => {
  it.each<[string, string]>([
    ['an event without data that names a place', 'id: 0\ndata:\n\n'],
    ['a comment', ': keep-alive\n\n'],
    ['a notice', `event: message\ndata: ${NOTE}\n\n`],
    ['an event of another name', 'event: endpoint\ndata: /messages?x=1\n\n'],
    ['an event of another name that is not JSON', 'event: ping\ndata: {{{\n\n'],
    ['blank lines', '\n\n\r\n\r\n'],
    ['progress of nothing', 'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}\n\n'],
    ['a notice of a kind that nobody knows', 'data: {"jsonrpc":"2.0","method":"notifications/x-y","params":null}\n\n'],
  ])('%s', async (_name, before) => {
    expect(await read({ headers, chunks: [before, `data: ${result('done')}\n\n`] })).toBe('done');
  });

  it('all of them, and a ping of the server is answered', async () => {
    const chunks = [
      'id: 0\ndata:\n\n',
      `event: message\ndata: ${NOTE}\n\n`,
      'data: {"jsonrpc":"2.0","id":"srv-1","method":"ping"}\n\n',
      50,
      `data: ${result('done')}\n\n`,
    ];
    const server = await rig.serve({ on: { 'tools/call': { headers, chunks } } });
    const id = await rig.connector(server.origin);
    expect((await rig.call(id, 'echo', { text: 'x' })).body).toMatchObject({ content: [{ text: 'done' }] });
    expect((await server.seen('(response)')).message).toEqual({ jsonrpc: '2.0', id: 'srv-1', result: {} });
  });
});

describe('a request of the server in the middle of a call', () => {
  it.each([
    ['sampling/createMessage', '{"messages":[],"maxTokens":5}'],
    ['roots/list', '{}'],
    ['elicitation/create', '{"message":"m","requestedSchema":{"type":"object","properties":{}}}'],
    ['x/unknown', '{}'],
  ])('is answered at once, and the call goes on: %s', async (method, params) => {
    const asked = `{"jsonrpc":"2.0","id":77,"method":"${method}","params":${params}}`;
    const server = await rig.serve();
    server.on('tools/call', {
      sse: [
        asked,
        async () => {
          await server.seen('(response)');
          return result('went on');
        },
      ],
    });
    const id = await rig.connector(server.origin);
    const began = performance.now();
    expect((await rig.call(id, 'echo', { text: 'x' })).body).toMatchObject({ content: [{ text: 'went on' }] });
    const [reply] = server.of('(response)');
    expect(reply?.message?.id).toBe(77);
    if (method === 'elicitation/create') expect(reply?.message?.result).toEqual({ action: 'decline' });
    else if (method !== 'roots/list') expect(reply?.message?.error).toMatchObject({ code: -32601 });
    expect(reply?.message?.error ?? reply?.message?.result).toBeDefined();
    expect((reply?.time ?? 0) - began).toBeLessThan(3000);
  });

  it('that is answered by nobody else ends with the call at its limit', async () => {
    const server = await rig.serve({
      on: {
        'tools/call': { sse: ['{"jsonrpc":"2.0","id":78,"method":"roots/list"}'], hold: 'open' },
        '(response)': { hold: 'never' },
      },
    });
    const id = await rig.connector(server.origin, { client_config: { read_timeout: 1 } });
    expect((await rig.call(id, 'echo', { text: 'x' })).status).toBe(504);
    expect((await rig.status(id)).status).toBe('connected');
  });
});

describe('every method may be answered by a stream', () => {
  it.each(['initialize', 'tools/list', 'tools/call', 'ping'])('%s', async (method) => {
    const server = await rig.serve();
    server.on(method, async (request) => {
      const own = {
        initialize: {
          protocolVersion: '2025-11-25',
          capabilities: { tools: {} },
          serverInfo: { name: 'f', version: '1' },
        },
        'tools/list': { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] },
        'tools/call': { content: [{ type: 'text', text: 'done' }] },
      }[method];
      const message = JSON.stringify({ jsonrpc: '2.0', id: request.message?.id ?? null, result: own ?? {} });
      return { headers, chunks: [': first\n\n', `data: ${NOTE}\n\n`, `data: ${message}\r\n\r\n`] };
    });
    const id = await rig.connector(server.origin);
    expect((await rig.call(id, 'echo', { text: 'x' })).status).toBe(200);
    expect((await rig.status(id, '?probe=true')).status).toBe('connected');
  });
});
