import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { FastifyInstance, RouteOptions } from 'fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PERMISSIONS } from '../../src/identity/permissions.ts';
import { startApp, type TestAnswer, type TestApp } from '../support/build-app.ts';
import { basic, countingHasher } from '../support/identity.ts';

const STATIC_KEY = 'the-static-key-of-the-operator';
const PASSWORD = 'correct horse';
const NAMES = '/_plugins/_security/api';

/** Who calls, in the order of the marks; a caller without a role signs in all the same. */
const CALLERS = [
  'all_access',
  'ml_full_access',
  'ml_read_access',
  'security_rest_api_access',
  'tenon_operator',
  'tenon_agent_user',
  'without a role',
  'anonymous',
] as const;
type Caller = (typeof CALLERS)[number];

/** `+` may call, `-` is answered 403, `!` is answered 401. */
const TABLE: Readonly<Record<string, string>> = {
  'GET /': '++++++-!',
  'HEAD /': '++++++-!',
  'GET /_cluster/health': '++++++-!',
  'GET /_cluster/settings': '++--+--!',
  'PUT /_cluster/settings': '+---+--!',
  'GET /healthz': '++++++++',
  'GET /readyz': '++++++++',
  'GET /openapi.yaml': '++++++-!',
  'GET /metrics': '+---+--!',
  'GET /_plugins/_ml/events': '+++-++-!',
  'GET /_plugins/_security/authinfo': '+++++++!',
  'GET /_plugins/_security/api/internalusers': '+--+---!',
  'GET /_plugins/_security/api/internalusers/:name': '+--+---!',
  'PUT /_plugins/_security/api/internalusers/:name': '+--+---!',
  'DELETE /_plugins/_security/api/internalusers/:name': '+--+---!',
  'GET /_plugins/_security/api/roles': '+--+---!',
  'GET /_plugins/_security/api/roles/:name': '+--+---!',
  'PUT /_plugins/_security/api/roles/:name': '+--+---!',
  'DELETE /_plugins/_security/api/roles/:name': '+--+---!',
  'GET /_plugins/_security/api/rolesmapping': '+--+---!',
  'GET /_plugins/_security/api/rolesmapping/:name': '+--+---!',
  'PUT /_plugins/_security/api/rolesmapping/:name': '+--+---!',
  'DELETE /_plugins/_security/api/rolesmapping/:name': '+--+---!',
  'POST /_plugins/_ml/api_keys': '++++++-!',
  'GET /_plugins/_ml/api_keys': '++++++-!',
  'DELETE /_plugins/_ml/api_keys/:api_key_id': '++++++-!',
  'GET /_plugins/_ml/audit/_search': '+---+--!',
  'POST /_plugins/_ml/audit/_search': '+---+--!',
  'GET /_plugins/_ml/audit/_export': '+---+--!',
  'POST /_plugins/_ml/connectors/_create': '++-----!',
  'GET /_plugins/_ml/connectors/:connector_id': '+++-+--!',
  'PUT /_plugins/_ml/connectors/:connector_id': '++-----!',
  'DELETE /_plugins/_ml/connectors/:connector_id': '++-----!',
  'GET /_plugins/_ml/connectors/_status': '+++-+--!',
  'GET /_plugins/_ml/connectors/:connector_id/_status': '+++-+--!',
  'GET /_plugins/_ml/connectors/:connector_id/_history': '+++-+--!',
  'GET /_plugins/_ml/connectors/:connector_id/tools': '++--+--!',
  'POST /_plugins/_ml/connectors/:connector_id/_reconnect': '++--+--!',
  'POST /_plugins/_ml/connectors/:connector_id/_disable': '++--+--!',
  'POST /_plugins/_ml/connectors/:connector_id/_enable': '++--+--!',
  'POST /_plugins/_ml/connectors/:connector_id/tools/:tool_name/_execute': '++--+--!',
  'GET /_plugins/_ml/connectors/:connector_id/resources': '++--+--!',
  'POST /_plugins/_ml/connectors/:connector_id/resources/_read': '++--+--!',
  'GET /_plugins/_ml/connectors/:connector_id/prompts': '++--+--!',
  'POST /_plugins/_ml/connectors/:connector_id/prompts/:prompt_name/_get': '++--+--!',
  'POST /_plugins/_ml/models/_register': '++-----!',
  'POST /_plugins/_ml/models/_upload': '++-----!',
  'POST /_plugins/_ml/models/:model_id/:version/_register': '++-----!',
  'GET /_plugins/_ml/models/:model_id': '+++-+--!',
  'PUT /_plugins/_ml/models/:model_id': '++-----!',
  'DELETE /_plugins/_ml/models/:model_id': '++-----!',
  'POST /_plugins/_ml/models/:model_id/_deploy': '++-----!',
  'POST /_plugins/_ml/models/:model_id/_load': '++-----!',
  'POST /_plugins/_ml/models/:model_id/_undeploy': '++-----!',
  'POST /_plugins/_ml/models/:model_id/_unload': '++-----!',
  'POST /_plugins/_ml/models/_undeploy': '++-----!',
  'POST /_plugins/_ml/models/_unload': '++-----!',
  'POST /_plugins/_ml/models/:model_id/_predict': '++-----!',
  'POST /_plugins/_ml/_predict/:algorithm/:model_id': '++-----!',
  'POST /_plugins/_ml/model_groups/_register': '++-----!',
  'GET /_plugins/_ml/model_groups/:model_group_id': '+++-+--!',
  'PUT /_plugins/_ml/model_groups/:model_group_id': '++-----!',
  'DELETE /_plugins/_ml/model_groups/:model_group_id': '++-----!',
  'GET /_plugins/_ml/tasks/:task_id': '+++-++-!',
  'DELETE /_plugins/_ml/tasks/:task_id': '++-----!',
  'GET /_plugins/_ml/tasks/:task_id/_requests': '+++-++-!',
  'POST /_plugins/_ml/tasks/:task_id/_requests/:request_id': '++---+-!',
  'POST /_plugins/_ml/memory': '++---+-!',
  'GET /_plugins/_ml/memory': '+++--+-!',
  'GET /_plugins/_ml/memory/:memory_id': '+++--+-!',
  'PUT /_plugins/_ml/memory/:memory_id': '++---+-!',
  'DELETE /_plugins/_ml/memory/:memory_id': '++---+-!',
  'POST /_plugins/_ml/memory/:memory_id/messages': '++---+-!',
  'GET /_plugins/_ml/memory/:memory_id/messages': '+++--+-!',
  'GET /_plugins/_ml/memory/message/:message_id': '+++--+-!',
  'PUT /_plugins/_ml/memory/message/:message_id': '++---+-!',
  'GET /_plugins/_ml/memory/message/:message_id/traces': '+++--+-!',
  'POST /_plugins/_ml/agents/_register': '++-----!',
  'GET /_plugins/_ml/agents/:agent_id': '+++-++-!',
  'PUT /_plugins/_ml/agents/:agent_id': '++-----!',
  'DELETE /_plugins/_ml/agents/:agent_id': '++-----!',
  'GET /_plugins/_ml/agents/:agent_id/_explain': '+++-++-!',
  'GET /_plugins/_ml/agents/:agent_id/_pins': '+++-++-!',
  'POST /_plugins/_ml/agents/:agent_id/_pins/_approve': '++-----!',
  'POST /_plugins/_ml/agents/:agent_id/_execute': '++---+-!',
  'POST /_plugins/_agent/agents/_register': '++-----!',
  'GET /_plugins/_agent/agents/:agent_id': '+++-++-!',
  'PUT /_plugins/_agent/agents/:agent_id': '++-----!',
  'DELETE /_plugins/_agent/agents/:agent_id': '++-----!',
  'GET /_plugins/_agent/agents/:agent_id/_explain': '+++-++-!',
  'GET /_plugins/_agent/agents/:agent_id/_pins': '+++-++-!',
  'POST /_plugins/_agent/agents/:agent_id/_pins/_approve': '++-----!',
  'POST /_plugins/_agent/agents/:agent_id/_execute': '++---+-!',
};

let app: TestApp;
const routes: RouteOptions[] = [];

beforeAll(async () => {
  const watch = (message: unknown): void => {
    const { fastify } = message as { fastify: FastifyInstance };
    fastify.addHook('onRoute', (route) => void routes.push(route));
  };
  subscribe('fastify.initialization', watch);
  try {
    app = await startApp({ config: { apiKey: STATIC_KEY, logLevel: 'silent' }, hasher: countingHasher() });
  } finally {
    unsubscribe('fastify.initialization', watch);
  }
  for (const caller of CALLERS.slice(0, -1)) {
    const roles = caller === 'without a role' ? [] : [caller];
    const user = { password: PASSWORD, opendistro_security_roles: roles };
    const { status, text } = await operator('PUT', `${NAMES}/internalusers/${userOf(caller)}`, user);
    expect(status, text).toBe(201);
  }
});
afterAll(() => app.close());

function userOf(caller: Caller): string {
  return `one ${caller}`;
}

function operator(method: string, path: string, body?: unknown): Promise<TestAnswer> {
  return app.request(method, path, body, { authorization: `Bearer ${STATIC_KEY}` });
}

function call(caller: Caller, method: string, path: string, body?: string): Promise<TestAnswer> {
  const headers = caller === 'anonymous' ? {} : { authorization: basic(userOf(caller), PASSWORD) };
  return app.request(method, path, body, headers as Record<string, string>);
}

function namesOf({ method, url }: RouteOptions): string[] {
  return [method].flat().map((name) => `${name} ${url}`);
}

/** The name that OpenSearch gives what the route does, or ours. */
function actionOf(name: string): string {
  const { permission = '' } = routes.find((route) => namesOf(route).includes(name))?.config ?? {};
  return PERMISSIONS[permission]?.[0] ?? permission;
}

it('has a row for every route, and a route for every row', () => {
  const rows = Object.keys(TABLE).sort();
  expect([...new Set(routes.flatMap(namesOf))].sort()).toEqual(rows);
  expect(rows.length).toBeGreaterThan(50);
});

it('has a column for every role that is always there', async () => {
  const { body } = await operator('GET', `${NAMES}/roles`);
  const builtIn = Object.entries(body as Record<string, { reserved: boolean }>).filter(([, role]) => role.reserved);
  expect(builtIn.map(([name]) => name)).toEqual([...CALLERS.slice(0, -2)].sort());
  for (const [route, marks] of Object.entries(TABLE)) expect(marks, route).toMatch(/^[+-]{7}[+!]$/);
});

it('has no route that says nothing about who may call it, and no permission that nobody knows', () => {
  const known = Object.keys(PERMISSIONS);
  for (const route of routes) {
    const { permission, public: open } = route.config ?? {};
    if (open) expect(['/healthz', '/readyz'], namesOf(route).join()).toContain(route.url);
    else expect(known, namesOf(route).join()).toContain(permission);
  }
});

describe.each(Object.entries(TABLE))('%s', (route, marks) => {
  const [method = '', pattern = ''] = route.split(' ');
  // What does not end is asked for in a way that is refused, after the permission.
  const endless = pattern.endsWith('/events') ? '?types=none' : '';
  const path = pattern.replaceAll(/:\w+/g, 'nothing-of-that-name') + endless;
  const hasBody = method === 'POST' || method === 'PUT';

  it(`answers ${marks}`, async () => {
    const answered: string[] = [];
    for (const [at, caller] of CALLERS.entries()) {
      const allowed = marks[at] === '+';
      // Whoever is refused is refused before the body is looked at, and learns nothing about it.
      const body = allowed ? '{}' : '{"broken":';
      const { status, text, headers } = await call(caller, method, path, hasBody ? body : undefined);
      const mark = status === 401 ? '!' : status === 403 ? '-' : '+';
      answered.push(mark);
      if (mark !== marks[at]) continue;
      expect(status, `${caller}: ${text}`).toBeLessThan(500);
      if (!allowed && method !== 'HEAD') expect(text, caller).toMatch(/^\{"error":.*"type":"security_exception"/);
      if (mark === '-' && method !== 'HEAD')
        expect(text, caller).toContain(`no permissions for [${actionOf(route)}] and`);
      expect(headers.get('www-authenticate') !== null, caller).toBe(status === 401);
    }
    expect(answered.join('')).toBe(marks);
  });
});

it('answers a path or method that is not there only to somebody it knows', async () => {
  for (const [method, path] of [
    ['GET', '/nowhere'],
    ['GET', '/_plugins/_ml/nowhere'],
    ['DELETE', '/_cluster/health'],
    ['PATCH', `${NAMES}/internalusers/ann`],
  ] as const) {
    expect((await call('anonymous', method, path)).status, `${method} ${path}`).toBe(401);
    expect([400, 405], `${method} ${path}`).toContain((await call('without a role', method, path)).status);
  }
});

it('names the action, the caller and who could help in a refusal', async () => {
  const { body } = await call('tenon_agent_user', 'POST', '/_plugins/_ml/connectors/_create', '{"broken":');
  expect(body).toMatchObject({ status: 403, error: { type: 'security_exception', root_cause: [{}] } });
  const { reason } = (body as { error: { reason: string } }).error;
  expect(reason).toContain('no permissions for [cluster:admin/opensearch/ml/create_connector]');
  expect(reason).toContain('User [name=one tenon_agent_user, backend_roles=[], requestedTenant=null]');
  expect(reason).toMatch(/such as .*ml_full_access/);
  expect(reason).not.toContain('tenon_operator');
});
