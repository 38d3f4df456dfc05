import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  AGENT_NOT_FOUND,
  CONFLICT,
  CONNECTOR_NOT_FOUND,
  EMPTY_BODY,
  FEATURE_DISABLED,
  INVALID_ARGUMENT,
  MCP_DISABLED,
  PARSE_FAILED,
  RESOURCE_NOT_FOUND,
  STORE_BUSY,
  THROTTLED,
  UpstreamError,
  WRONG_SHAPE,
} from '../../src/errors.ts';
import { type Edge, startEdge } from '../support/edge.ts';

const SECRET = 'CANARY-s3cr3t-value';
const UPSTREAM = new UpstreamError({
  code: 'auth_required',
  destination: 'connector "weather"',
  message: `Connector "weather" answered 401 to ${SECRET}.`,
  remedy: 'Sign in with _authenticate.',
  statusCode: 409,
  action: 'authenticate',
  retryAfterMs: 1500,
});

const FAULTS: Record<string, () => Error> = {
  missing: () => new CONNECTOR_NOT_FOUND('abc'),
  argument: () => new INVALID_ARGUMENT('Connector name is null'),
  parse: () => new PARSE_FAILED('request body is required'),
  shape: () => new WRONG_SHAPE('not an object'),
  io: () => new EMPTY_BODY('Create Connector request has empty body'),
  state: () => new FEATURE_DISABLED('Agent Framework is currently disabled'),
  base: () => new MCP_DISABLED(),
  memory: () => new RESOURCE_NOT_FOUND('Memory [m] not found'),
  busy: () => new STORE_BUSY('The database is busy'),
  throttled: () => new THROTTLED('too many'),
  agent: () => new AGENT_NOT_FOUND('abc'),
  upstream: () => UPSTREAM,
  caused: () => Object.assign(new CONFLICT('Cannot start'), { cause: UPSTREAM }),
  bug: () =>
    Object.assign(new TypeError(`x of undefined ${SECRET}`), { statusCode: 404, options: { headers: SECRET } }),
};

let edge: Edge;
const failing = (name: string): never => {
  throw FAULTS[name]?.() ?? new Error('no such fault');
};
beforeAll(async () => {
  edge = await startEdge(async (app) => {
    app.get<{ Params: { name: string } }>('/fail/:name', ({ params }) => failing(params.name));
    app.post<{ Params: { name: string } }>(
      '/execute/:name',
      { config: { executeEnvelope: true, queryParameters: ['async'] } },
      ({ params }) => failing(params.name),
    );
    app.get('/unsent', async (_request, reply) => {
      reply.header('x-unsent', '1');
      return { fine: true };
    });
    app.addHook('onSend', async (_request, reply) => {
      if (reply.getHeader('x-unsent') !== undefined) throw new Error(`onSend failed over ${SECRET}`);
    });
    app.get('/unsayable', () => {
      throw Object.defineProperty(new CONFLICT('x'), 'message', {
        get: () => {
          throw new Error(`no message because of ${SECRET}`);
        },
      });
    });
    app.get('/profile', { config: { profileEnvelope: true } }, () => failing('argument'));
  });
  edge.redactor.taint([SECRET]);
});
afterAll(() => edge.close());

async function get(path: string): Promise<{ status: number; headers: Headers; body: Record<string, unknown> }> {
  const response = await fetch(edge.url + path);
  return { status: response.status, headers: response.headers, body: (await response.json()) as never };
}
async function execute(name: string, body: string): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await fetch(`${edge.url}/execute/${name}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  });
  return { status: response.status, body: (await response.json()) as never };
}

describe('the standard envelope', () => {
  it.each([
    ['missing', 404, 'status_exception', 'Failed to find connector with the provided connector id: abc'],
    ['argument', 400, 'illegal_argument_exception', 'Connector name is null'],
    ['parse', 400, 'parse_exception', 'request body is required'],
    ['shape', 400, 'parsing_exception', 'not an object'],
    ['io', 500, 'i_o_exception', 'Create Connector request has empty body'],
    ['state', 500, 'illegal_state_exception', 'Agent Framework is currently disabled'],
    ['base', 500, 'exception', new MCP_DISABLED().message],
    ['memory', 404, 'resource_not_found_exception', 'Memory [m] not found'],
    ['busy', 503, 'status_exception', 'The database is busy'],
    ['throttled', 429, 'rejected_execution_exception', 'too many'],
  ])('%s answers %i %s', async (name, status, type, reason) => {
    const answer = await get(`/fail/${name}`);
    expect(answer.status).toBe(status);
    expect(answer.headers.get('content-type')).toBe('application/json; charset=UTF-8');
    expect(answer.body).toEqual({ error: { root_cause: [{ type, reason }], type, reason }, status });
  });

  it('names when a busy store may be asked again', async () => {
    expect((await get('/fail/busy')).headers.get('retry-after')).toBe('1');
  });

  it('shows a failure of a remote side with remedy, action and wait, without the secret', async () => {
    const answer = await get('/fail/upstream');
    const reason = 'Connector "weather" answered 401 to [redacted]. Sign in with _authenticate. [auth_required]';
    expect(answer.body).toEqual({
      error: {
        root_cause: [{ type: 'status_exception', reason }],
        type: 'status_exception',
        reason,
        action: 'authenticate',
      },
      status: 409,
    });
    expect(answer.headers.get('retry-after')).toBe('2');
  });

  it('shows the cause under error, not inside root_cause', async () => {
    const { error } = (await get('/fail/caused')).body as { error: Record<string, unknown> };
    expect(error['caused_by']).toEqual({
      type: 'status_exception',
      reason: 'Connector "weather" answered 401 to [redacted]. Sign in with _authenticate. [auth_required]',
    });
    expect(error['root_cause']).toEqual([{ type: 'status_exception', reason: 'Cannot start' }]);
  });

  it('adds the stack trace when asked', async () => {
    const asked = (await get('/fail/argument?error_trace=true')).body as { error: { stack_trace?: string } };
    expect(asked.error.stack_trace).toContain('Connector name is null');
    const refused = (await get('/fail/argument?error_trace=false')).body as { error: { stack_trace?: string } };
    expect(refused.error.stack_trace).toBeUndefined();
  });

  it('answers a bug with 500 and no detail, and logs it with its stack but not its options', async () => {
    edge.lines.length = 0;
    const answer = await get('/fail/bug?error_trace=true');
    expect(answer.status).toBe(500);
    expect(JSON.stringify(answer.body)).not.toMatch(/undefined|stack|at /);
    const line = edge.lines.find((text) => text.includes('"level":"error"')) ?? '';
    expect(line).toContain('TypeError');
    expect(line).toContain('envelopes.test.ts');
    expect(line).not.toContain(SECRET);
    expect(line).not.toContain('options');
  });
});

describe('the execute envelope', () => {
  it.each([
    ['agent', 404, 'OpenSearchStatusException', 'System Error', 'Failed to find agent with the provided agent id: abc'],
    ['argument', 400, 'IllegalArgumentException', 'Invalid Request', 'Connector name is null'],
    ['bug', 500, 'OpenSearchException', 'System Error', 'Internal error. The log of the server has the details'],
  ])('is used for %s while it runs', async (name, status, type, reason, details) => {
    const answer = await execute(name, '{"parameters":{}}');
    expect(answer).toEqual({ status, body: { status, error: { type, reason, details } } });
  });

  it('is not used for what is wrong with the request itself', async () => {
    expect(await execute('agent', '{"a":')).toMatchObject({
      status: 400,
      body: { error: { type: 'json_parse_exception' }, status: 400 },
    });
    expect(await execute('agent', '')).toMatchObject({
      status: 400,
      body: { error: { type: 'parse_exception', reason: 'request body is required' } },
    });
    expect(await execute('agent?nope=1', '{}')).toMatchObject({
      status: 400,
      body: { error: { type: 'illegal_argument_exception' } },
    });
    expect(await execute('state', '{}')).toMatchObject({
      status: 500,
      body: { error: { type: 'illegal_state_exception' } },
    });
  });
});

describe('the last resort', () => {
  const reason = 'Internal error. The log of the server has the details';

  it.each(['/unsent', '/unsayable'])('answers %s, whose error cannot be answered either', async (path) => {
    edge.lines.length = 0;
    const answer = await get(path);
    expect(answer.status).toBe(500);
    expect(answer.headers.get('content-type')).toBe('application/json; charset=UTF-8');
    const top = { type: 'exception', reason };
    expect(answer.body).toEqual({ error: { root_cause: [top], ...top }, status: 500 });
    expect(edge.lines.filter((line) => line.includes('GET request could not be answered'))).toHaveLength(1);
    expect(edge.lines.join('')).not.toContain(SECRET);
  });
});

describe('sentences of the platform', () => {
  it('keep words that are somebody’s credential, and lose what cannot be a word', async () => {
    const own = await startEdge(async (app) => {
      app.get('/connectors/:id', ({ params }) => {
        throw new CONNECTOR_NOT_FOUND((params as { id: string }).id);
      });
    });
    own.redactor.taint(['connector', 'provided', 'find', 'CANARY-7f3', '"level":"', 'debug']);
    const body = await (await fetch(`${own.url}/connectors/CANARY-7f3`)).json();
    expect(body).toMatchObject({
      error: { reason: 'Failed to find connector with the provided connector id: [redacted]' },
    });
    const unknown = (await (await fetch(`${own.url}/connector/CANARY-7f3`)).json()) as { error: string };
    expect(unknown.error).toBe('no handler found for uri [/connector/[redacted]] and method [GET]');
    await own.close();
    const levels = own.lines.map((line) => (JSON.parse(line) as { level: string }).level);
    expect(levels).toContain('debug');
    expect(own.lines.join('')).not.toContain('CANARY');
  });
});

it('answers as ever while values of 32 kB and thousands of others are secrets', async () => {
  const own = await startEdge(async (app) => void app.get('/fail', () => failing('upstream')));
  const large = 'CANARY-/+'.repeat(3600);
  own.redactor.taint([large, SECRET, ...Array.from({ length: 5000 }, (_, n) => `CANARY-${n}-value`)]);
  const missing = await (await fetch(`${own.url}/nowhere`)).text();
  expect(missing).toBe('{"error":"no handler found for uri [/nowhere] and method [GET]"}');
  const failed = await (await fetch(`${own.url}/fail`)).json();
  expect(failed).toMatchObject({ error: { reason: expect.stringContaining('answered 401 to [redacted]. Sign in') } });
  await own.close();
  expect(own.lines.join('')).not.toContain('CANARY');
});

it('answers failures of profile routes in their own envelope', async () => {
  const { body } = await get('/profile');
  expect(body).toEqual({ error: 'Connector name is null', exception: 'Connector name is null' });
});
