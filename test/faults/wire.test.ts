import type { Reply } from '../support/fake-mcp-server.ts';
import { connected, every, type Fault, failed, missing, normal, only, testFaults, unknown } from './matrix.ts';

const NOTE = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}';
const json = { 'Content-Type': 'application/json' };
const sse = { 'Content-Type': 'text/event-stream' };
const never: Reply = { hold: 'never' };

testFaults([
  // 1 Refused
  {
    name: 'the connection is refused, from the start',
    from: 'start',
    begin: (server) => server.stop(),
    end: (server) => server.start(),
    shown: failed('connection_refused'),
    told: missing,
    sent: 0,
  },
  {
    name: 'the connection is refused, in a session',
    from: 'session',
    begin: (server) => server.stop(),
    end: (server) => server.start(),
    shown: failed('connection_refused'),
    told: /refused the connection/,
    sent: 0,
  },
  {
    name: 'the connection is reset before anything is answered, from the start',
    from: 'start',
    begin: every({ reset: true }),
    shown: failed('stream_broken'),
    told: missing,
    sent: 0,
  },
  // 4 Silence before the headers
  ...['server/discover', 'initialize', 'notifications/initialized', 'tools/list'].map(
    (method): Fault => ({
      name: `${method} is never answered`,
      from: 'start',
      begin: method === 'server/discover' ? every(never) : only(method, never),
      end: method === 'server/discover' ? every('normal') : normal(method),
      shown: failed('response_timeout'),
      told: missing,
      sent: 0,
    }),
  ),
  {
    name: 'nothing is answered any more, in a session',
    from: 'session',
    begin: every(never),
    shown: failed('response_timeout'),
    told: unknown,
    sent: 1,
  },
  {
    name: 'one call is never answered',
    from: 'session',
    begin: only('tools/call', never),
    end: normal('tools/call'),
    shown: connected,
    told: unknown,
    sent: 1,
  },
  // 5 Silence in a stream
  {
    name: 'the stream of one call falls silent',
    from: 'session',
    begin: only('tools/call', { sse: [NOTE], hold: 'open' }),
    end: normal('tools/call'),
    shown: connected,
    told: unknown,
    sent: 1,
  },
  {
    name: 'every stream falls silent',
    from: 'session',
    begin: every({ sse: [NOTE], hold: 'open' }),
    shown: failed('response_timeout'),
    told: unknown,
    sent: 1,
  },
  {
    name: 'every stream holds comments only',
    from: 'session',
    begin: every({ headers: sse, chunks: Array.from({ length: 40 }, () => [': still here\n\n', 100]).flat() }),
    shown: failed('response_timeout'),
    told: unknown,
    sent: 1,
  },
  {
    name: 'the handshake begins a stream and falls silent',
    from: 'start',
    begin: every({ sse: [NOTE], hold: 'open' }),
    shown: failed('response_timeout'),
    told: missing,
    sent: 0,
  },
  // 6 A stream that is cut
  {
    name: 'the stream of one call ends before its result',
    from: 'session',
    begin: only('tools/call', { sse: [NOTE] }),
    end: normal('tools/call'),
    shown: connected,
    told: unknown,
    sent: 1,
  },
  {
    name: 'the stream of one call is reset in the middle of an event',
    from: 'session',
    begin: only('tools/call', { headers: sse, chunks: ['data: {"jsonrpc":"2.0",'], reset: true }),
    end: normal('tools/call'),
    shown: connected,
    told: unknown,
    sent: 1,
  },
  {
    name: 'every stream is cut',
    from: 'session',
    begin: every({ sse: [NOTE], reset: true }),
    shown: failed('stream_broken'),
    told: unknown,
    sent: 1,
  },
  {
    name: 'every stream is cut, from the start',
    from: 'start',
    begin: every({ sse: [NOTE] }),
    shown: failed('stream_broken'),
    told: missing,
    sent: 0,
  },
  {
    name: 'the list is cut in its middle',
    from: 'start',
    begin: only('tools/list', { headers: { ...json, 'Content-Length': '1000' }, chunks: ['{"jsonrpc"'], reset: true }),
    end: normal('tools/list'),
    shown: failed('stream_broken'),
    told: missing,
    sent: 0,
  },
]);
