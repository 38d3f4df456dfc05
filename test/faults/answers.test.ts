import { describe } from 'vitest';
import type { Reply, ScriptedReply } from '../support/fake-mcp-server.ts';
import { connected, every, type Fault, failed, missing, normal, only, signIn, testFaults, unknown } from './matrix.ts';

const RESULT = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"late"}]}}';
const challenge = (status: number, value: string): ScriptedReply => ({
  status,
  headers: { 'WWW-Authenticate': value },
});
const scope = challenge(403, 'Bearer error="insufficient_scope", scope="files:read files:write"');
const noSession: ScriptedReply = { status: 404, error: { code: -32001, message: 'Session not found' } };
const oldSession400: Reply = ({ headers }) =>
  headers['mcp-session-id'] === 's-1'
    ? { status: 400, error: { code: -32000, message: 'Bad Request: No valid session ID provided' } }
    : 'normal';
const throttled = (seconds: string): ScriptedReply => ({ status: 429, headers: { 'Retry-After': seconds } });

const FAULTS: readonly Fault[] = [
  // 7, 8 The credential is refused
  {
    name: '401, from the start',
    from: 'start',
    begin: every({ status: 401 }),
    shown: signIn(),
    told: missing,
    sent: 0,
  },
  {
    name: '401 at the list only',
    from: 'start',
    begin: only('tools/list', challenge(401, 'Bearer resource_metadata="http://127.0.0.1:9/x"')),
    end: normal('tools/list'),
    shown: signIn(),
    told: missing,
    sent: 0,
  },
  {
    name: '401, in a session',
    from: 'session',
    begin: every(challenge(401, 'Bearer error="invalid_token"')),
    shown: signIn(),
    told: /does not accept the credential/,
    sent: 1,
  },
  {
    name: '401 at the call only',
    from: 'session',
    begin: only('tools/call', { status: 401 }),
    end: normal('tools/call'),
    shown: signIn(),
    probed: connected,
    told: /does not accept the credential/,
    sent: 1,
  },
  // 9 The scope does not suffice
  {
    name: '403 insufficient_scope, from the start',
    from: 'start',
    begin: every(scope),
    shown: signIn('insufficient_scope'),
    told: missing,
    sent: 0,
  },
  {
    name: '403 insufficient_scope, in a session',
    from: 'session',
    begin: every(scope),
    shown: signIn('insufficient_scope'),
    told: /files:read files:write/,
    sent: 1,
  },
  {
    name: '403 insufficient_scope at the call only',
    from: 'session',
    begin: only('tools/call', scope),
    end: normal('tools/call'),
    shown: signIn('insufficient_scope'),
    probed: connected,
    told: /files:read files:write/,
    sent: 1,
  },
  {
    name: '403 without a word about scopes, in a session',
    from: 'session',
    begin: every(challenge(403, 'Bearer error="invalid_request"')),
    shown: failed('forbidden'),
    told: /HTTP 403/,
    sent: 1,
  },
  // 10, 11 The session is gone
  {
    name: '404: the session is not known',
    sessionEra: true,
    from: 'session',
    begin: (server) => server.forget(),
    shown: connected,
    told: /echo: /,
    sent: 2,
  },
  {
    name: '400: no valid session',
    sessionEra: true,
    from: 'session',
    begin: (server) => {
      server.forget();
      server.on('*', oldSession400);
    },
    shown: connected,
    told: /echo: /,
    sent: 2,
  },
  {
    name: '404 to every session, for good',
    sessionEra: true,
    from: 'session',
    begin: every(({ headers }, server) => {
      if (headers['mcp-session-id'] === undefined) return 'normal';
      server.forget();
      return noSession;
    }),
    shown: failed('session_lost'),
    told: /no longer knows the session/,
    sent: 1,
  },
  // 12 Too many requests
  {
    name: '429 with a short Retry-After at the call',
    from: 'session',
    begin: only('tools/call', [throttled('1'), 'normal']),
    shown: connected,
    told: /echo: /,
    sent: 2,
    config: { max_retry_times: 3 },
  },
  {
    name: '429 with a Retry-After that is too long, at the call',
    from: 'session',
    begin: only('tools/call', throttled('3600')),
    end: normal('tools/call'),
    shown: connected,
    told: /limits the rate/,
    sent: 1,
    config: { max_retry_times: 3 },
  },
  {
    name: '429 from the start',
    from: 'start',
    begin: every(throttled('3600')),
    shown: failed('rate_limited'),
    told: missing,
    sent: 0,
    config: { max_retry_times: 3 },
  },
  {
    name: '429 at the list only',
    from: 'start',
    begin: only('tools/list', throttled('3600')),
    end: normal('tools/list'),
    shown: failed('rate_limited'),
    told: missing,
    sent: 0,
  },
  // 13 Errors of the server
  ...[500, 502, 503, 504, 520].map(
    (status): Fault => ({
      name: `HTTP ${status} to everything, in a session`,
      from: 'session',
      begin: every({ status, body: '<html>secret page</html>' }),
      shown: failed('server_error'),
      told: unknown,
      sent: 1,
    }),
  ),
  {
    name: 'HTTP 503 to everything, from the start',
    from: 'start',
    begin: every({ status: 503 }),
    shown: failed('server_error'),
    told: missing,
    sent: 0,
  },
  {
    name: 'a burst of 503 at the start',
    sessionEra: true,
    from: 'start',
    begin: (server) => {
      server.on('initialize', [{ status: 503 }, { status: 503 }, 'normal']);
    },
    shown: connected,
    told: /echo: /,
    sent: 1,
    config: { max_retry_times: 3, connection_timeout: 5 },
  },
  {
    name: 'HTTP 500 to one call',
    from: 'session',
    begin: only('tools/call', { status: 500 }),
    end: normal('tools/call'),
    shown: connected,
    told: unknown,
    sent: 1,
  },
  // What is there is no MCP server, or not at that path
  {
    name: 'a sign-in page to everything, in a session',
    from: 'session',
    begin: every({ status: 200, headers: { 'Content-Type': 'text/html' }, body: '<html>' }),
    shown: failed('not_mcp'),
    told: unknown,
    sent: 1,
  },
  {
    name: 'a redirect to another origin, in a session',
    from: 'session',
    begin: every({ status: 307, headers: { Location: 'http://127.0.0.1:9/mcp' } }),
    shown: failed('address_refused'),
    told: /redirect/,
    sent: 1,
  },
  {
    name: '404 before there is a session',
    from: 'start',
    begin: every({ status: 404 }),
    shown: failed('wrong_path'),
    told: missing,
    sent: 0,
  },
  {
    name: '405 to everything, in a session',
    from: 'session',
    begin: every({ status: 405 }),
    shown: failed('method_not_allowed'),
    told: /HTTP 405/,
    sent: 1,
  },
  {
    name: 'a version of the protocol nobody knows',
    sessionEra: true,
    from: 'start',
    begin: only('initialize', { patch: { protocolVersion: '1999-01-01' } }),
    end: normal('initialize'),
    shown: failed('version_unsupported'),
    told: missing,
    sent: 0,
  },
  {
    name: 'a list that is none',
    from: 'start',
    begin: only('tools/list', { result: { tools: 'none' } }),
    end: normal('tools/list'),
    shown: failed('tools_invalid'),
    told: missing,
    sent: 0,
  },
  // 19, 20 Results
  {
    name: 'a result of 10 MB',
    from: 'session',
    begin: only('tools/call', { result: { content: [{ type: 'text', text: 'x'.repeat(10_000_000) }] } }),
    end: normal('tools/call'),
    shown: connected,
    told: /larger than 8 MiB.*outcome of the call is unknown/i,
    sent: 1,
  },
  {
    name: 'a result of 10 MB in one event',
    from: 'session',
    begin: only('tools/call', { sse: [RESULT.replace('late', 'x'.repeat(10_000_000))] }),
    end: normal('tools/call'),
    shown: connected,
    told: /larger than 4 MiB/,
    sent: 1,
  },
  {
    name: 'a result of 3 MB',
    from: 'session',
    begin: only('tools/call', { result: { content: [{ type: 'text', text: 'x'.repeat(3_000_000) }] } }),
    end: normal('tools/call'),
    shown: connected,
    told: /cut: \d+ of 3000000/,
    sent: 1,
  },
  {
    name: 'a result that says isError',
    from: 'session',
    begin: only('tools/call', { result: { isError: true, content: [{ type: 'text', text: 'date is past' }] } }),
    end: normal('tools/call'),
    shown: connected,
    told: /date is past/,
    sent: 1,
  },
  {
    name: 'an error of JSON-RPC to one call',
    from: 'session',
    begin: only('tools/call', { error: { code: -32050, message: 'no such city' } }),
    end: normal('tools/call'),
    shown: connected,
    told: /no such city/,
    sent: 1,
  },
];

describe('a server of the session era', () => testFaults(FAULTS));

describe('a server of the stateless era', () =>
  testFaults(
    FAULTS.filter(({ sessionEra }) => sessionEra !== true),
    { modern: true },
  ));
