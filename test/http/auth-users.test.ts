import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { startApp, type TestApp } from '../support/build-app.ts';
import { exchange } from '../support/edge.ts';
import { basic } from '../support/identity.ts';

const PASSWORD = 'correct horse';
const ROOT = { authorization: basic('root', PASSWORD) };
const USERS = '/_plugins/_security/api/internalusers';
const apps: TestApp[] = [];
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close();
});

async function start(options: Parameters<typeof startApp>[0] = {}): Promise<TestApp> {
  const app = await startApp(options);
  apps.push(app);
  return app;
}

const withAdmin = () => start({ config: { firstAdmin: { name: 'root', password: PASSWORD } } });

describe('a server in open mode', () => {
  it('asks who is calling from its first user on', async () => {
    const app = await start();
    expect((await app.request('GET', '/_plugins/_ml/connectors/_status')).status).toBe(200);
    const body = { password: PASSWORD, opendistro_security_roles: ['all_access'] };
    const made = await app.request('PUT', `${USERS}/root`, body);
    expect([made.status, made.body]).toEqual([201, { status: 'CREATED', message: "'root' created." }]);
    const refused = await app.request('GET', '/_plugins/_ml/connectors/_status');
    expect(refused.status).toBe(401);
    expect(refused.body).toMatchObject({ error: { type: 'security_exception' }, status: 401 });
    expect(refused.headers.get('www-authenticate')).toBe('Basic realm="tenon", charset="UTF-8", Bearer realm="tenon"');
    expect((await app.request('GET', '/_plugins/_ml/connectors/_status', undefined, ROOT)).status).toBe(200);
    expect((await app.request('GET', '/healthz')).status).toBe(200);
    expect(app.lines.join('')).toContain('leaving open mode');
  });

  it('takes no first user who could not administer it, and makes no key', async () => {
    const app = await start();
    const answer = await app.request('PUT', `${USERS}/ann`, { password: PASSWORD });
    expect([answer.status, answer.body.status]).toEqual([400, 'error']);
    expect(answer.text).toContain('all_access');
    expect((await app.request('POST', '/_plugins/_ml/api_keys', { name: 'x' })).status).toBe(409);
    expect((await app.request('GET', '/')).status).toBe(200);
  });
});

describe('what is refused', () => {
  it('to somebody signed in has a row with the permission, by role and by owner', async () => {
    const app = await withAdmin();
    const ML = '/_plugins/_ml';
    const ann = { authorization: basic('ann', PASSWORD) };
    const body = { password: PASSWORD, opendistro_security_roles: ['ml_full_access'] };
    await app.request('PUT', `${USERS}/ann`, body, ROOT);
    const setting = { 'plugins.ml_commons.connector_access_control_enabled': true };
    await app.request('PUT', '/_cluster/settings', { persistent: setting }, ROOT);
    const connector = {
      connector_id: 'hers',
      name: 'Hers',
      version: 1,
      protocol: 'mcp_streamable_http',
      url: 'https://mcp.example.org',
      credential: {},
      access_mode: 'private',
    };
    expect((await app.request('POST', `${ML}/connectors/_create`, connector, ROOT)).status).toBe(200);
    const { body: memory } = await app.request('POST', `${ML}/memory`, { name: 'of root' }, ROOT);
    expect((await app.request('GET', `${ML}/connectors/hers`, undefined, ann)).status).toBe(403);
    expect((await app.request('GET', `${ML}/memory/${memory.memory_id}`, undefined, ann)).status).toBe(401);
    for (let n = 0; n < 3; n += 1) expect((await app.request('GET', USERS, undefined, ann)).status).toBe(403);
    expect((await app.request('GET', `${ML}/connectors/none`, undefined, ann)).status).toBe(404);

    const query = { bool: { must: [{ term: { action: 'access' } }, { term: { principal: 'user:ann' } }] } };
    const search = { query, sort: { time: 'asc' } };
    const { body: found } = await app.request('POST', `${ML}/audit/_search`, search, ROOT);
    const { hits } = found.hits as unknown as { hits: { _source: Record<string, unknown> }[] };
    const rows = hits.map(({ _source }) => _source);
    expect(rows.find(({ connector_id: id }) => id === 'hers')).toMatchObject({
      outcome: 'refused',
      detail: "connector:read: You don't have permission to access this connector",
    });
    expect(rows.map(({ detail }) => String(detail).split(/[:;] /)[0])).toEqual(
      expect.arrayContaining(['connector:read', 'memory:read', 'user:read']),
    );
    expect(rows.every(({ outcome }) => outcome === 'refused')).toBe(true);
  });
});

describe('a server on another address', () => {
  it('starts when there is a user, and not before', async () => {
    await expect(start({ config: { host: '0.0.0.0' } })).rejects.toThrow(
      /^TENON_HOST is 0\.0\.0\.0, .*TENON_ADMIN_PASSWORD.*TENON_API_KEY.*TENON_OIDC_ISSUER.*tenon users add/,
    );
    const app = await start({ config: { host: '0.0.0.0', firstAdmin: { name: 'root', password: PASSWORD } } });
    const headers = { ...ROOT, 'x-forwarded-for': '203.0.113.7' };
    const answer = await fetch(`http://127.0.0.1:${app.port}/`, { headers });
    expect(answer.status).toBe(200);
    expect((await fetch(`http://127.0.0.1:${app.port}/`)).status).toBe(401);
  });
});

describe('a user', () => {
  it('learns who it is', async () => {
    const app = await withAdmin();
    const { status, body } = await app.request('GET', '/_plugins/_security/authinfo', undefined, ROOT);
    expect(status).toBe(200);
    expect(body).toEqual({
      user: 'User [name=root, backend_roles=[], requestedTenant=null]',
      user_name: 'root',
      user_requested_tenant: null,
      remote_address: '127.0.0.1',
      backend_roles: [],
      custom_attribute_names: [],
      roles: ['all_access'],
      tenants: {},
      principal: 'user:root',
      peer_certificates: '0',
      sso_logout_url: null,
    });
  });

  it('that fails too often has to wait, and is told how long', async () => {
    const app = await withAdmin();
    const wrong = { authorization: basic('root', 'wrong') };
    for (let n = 0; n < 5; n++) expect((await app.request('GET', '/', undefined, wrong)).status).toBe(401);
    const { status, headers, body } = await app.request('GET', '/', undefined, wrong);
    expect([status, headers.get('retry-after')]).toEqual([429, '1']);
    expect(body).toMatchObject({ error: { type: 'security_exception', reason: expect.stringContaining('try again') } });
    expect(headers.get('www-authenticate')).toBeNull();
  });

  it('without the permission is refused before its body is read', async () => {
    const app = await withAdmin();
    await app.request('PUT', `${USERS}/ann`, { password: PASSWORD }, ROOT);
    const head = [
      'POST /_plugins/_ml/connectors/_create HTTP/1.1',
      'Host: x',
      `Authorization: ${basic('ann', PASSWORD)}`,
      'Content-Type: application/json',
      'Content-Length: 99999999',
      'Connection: close',
    ];
    expect(await exchange(app.port, `${head.join('\r\n')}\r\n\r\n`)).toMatch(/^HTTP\/1\.1 403 /);
  });

  it('is still known after a restart, without the variables of the first start', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'tenon-restart-'));
    const first = await startApp({ folder, config: { firstAdmin: { name: 'root', password: PASSWORD } } });
    await first.close();
    const app = await start({ folder, config: { host: '0.0.0.0' } });
    const answers = [{}, ROOT].map((headers) => fetch(`http://127.0.0.1:${app.port}/`, { headers }));
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([401, 200]);
    await app.close();
    apps.length = 0;
    await rm(folder, { recursive: true, force: true });
  });

  it('leaves no secret in the database or the log', async () => {
    const app = await withAdmin();
    await app.request('GET', '/', undefined, ROOT);
    const key = (await app.request('POST', '/_plugins/_ml/api_keys', { name: 'ci' }, ROOT)).body.api_key as string;
    const users = await app.services.database.kysely.selectFrom('users').selectAll().execute();
    const keys = await app.services.database.kysely.selectFrom('api_keys').selectAll().execute();
    const audit = await app.services.database.kysely.selectFrom('audit').selectAll().execute();
    const everything = JSON.stringify([users, keys, audit, app.lines]);
    for (const secret of [PASSWORD, key.slice(-43), ROOT.authorization.slice(6)])
      expect(everything).not.toContain(secret);
    expect(audit.map(({ action, principal }) => [action, principal])).toEqual([
      ['sign_in', 'user:root'],
      ['api_key.create', 'user:root'],
    ]);
  });
});

describe('the security API', () => {
  it('answers as the plugin does', async () => {
    const app = await withAdmin();
    const call = async (method: string, path: string, body?: unknown): Promise<unknown[]> => {
      const answer = await app.request(method, `/_plugins/_security/api/${path}`, body, ROOT);
      return [answer.status, answer.body];
    };
    const ann = { password: PASSWORD, backend_roles: ['staff'], attributes: { desk: '7' } };
    expect(await call('PUT', 'internalusers/ann', ann)).toEqual([
      201,
      { status: 'CREATED', message: "'ann' created." },
    ]);
    expect(await call('PUT', 'internalusers/ann', ann)).toEqual([200, { status: 'OK', message: "'ann' updated." }]);
    expect(await call('GET', 'internalusers/ann')).toEqual([
      200,
      {
        ann: {
          hash: '',
          reserved: false,
          hidden: false,
          backend_roles: ['staff'],
          attributes: { desk: '7' },
          opendistro_security_roles: [],
          static: false,
        },
      },
    ]);
    expect(await call('GET', 'internalusers/bob')).toEqual([
      404,
      { status: 'NOT_FOUND', message: "user 'bob' not found." },
    ]);
    expect(await call('PUT', 'roles/all_access', { cluster_permissions: [] })).toEqual([
      403,
      { status: 'FORBIDDEN', message: "Resource 'all_access' is reserved." },
    ]);
    expect(await call('PUT', 'roles/r', { permissions: [] })).toMatchObject([
      400,
      { status: 'error', invalid_keys: { keys: 'permissions' } },
    ]);
    expect(await call('PUT', 'roles/r', { cluster_permissions: 'x' })).toMatchObject([
      400,
      { status: 'error', cluster_permissions: 'Array expected' },
    ]);
    expect(await call('PUT', 'roles/r')).toMatchObject([
      400,
      { status: 'error', reason: 'Request body required for this action.' },
    ]);
    expect(await call('PUT', 'roles/r', { cluster_permissions: ['agent:*'] })).toMatchObject([201, {}]);
    expect(await call('PUT', 'rolesmapping/r', { users: ['ann'] })).toMatchObject([201, {}]);
    expect(await call('GET', 'rolesmapping')).toMatchObject([200, { r: { users: ['ann'], hosts: [] } }]);
    expect(await call('DELETE', 'rolesmapping/r')).toEqual([200, { status: 'OK', message: "'r' deleted." }]);
    expect(await call('DELETE', 'roles/r')).toMatchObject([200, {}]);
    expect(await call('DELETE', 'internalusers/ann')).toMatchObject([200, {}]);
    expect(await call('GET', 'internalusers/a%2Fb%20%F0%9F%A6%89')).toMatchObject([404, { status: 'NOT_FOUND' }]);
  });

  it('gives nothing of a role of the agent user but running agents and own memory', async () => {
    const app = await withAdmin();
    const body = { password: PASSWORD, opendistro_security_roles: ['tenon_agent_user'] };
    await app.request('PUT', `${USERS}/ann`, body, ROOT);
    const ann = { authorization: basic('ann', PASSWORD) };
    expect((await app.request('POST', '/_plugins/_ml/memory', { name: 'm' }, ann)).status).toBe(200);
    const { body: made } = await app.request(
      'POST',
      '/_plugins/_ml/api_keys',
      { name: 'k', scope: ['memory:read'] },
      ann,
    );
    const held = { authorization: `ApiKey ${made.api_key}` };
    expect((await app.request('GET', '/_plugins/_ml/memory', undefined, held)).status).toBe(200);
    const refused = await app.request('POST', '/_plugins/_ml/memory', { name: 'm' }, held);
    expect(refused.status).toBe(403);
    expect(refused.text).toContain(
      'no permissions for [cluster:admin/opensearch/ml/memory/conversation/create] and User [name=ann, backend_roles=[], requestedTenant=null]',
    );
    const { body: gone } = await app.request('DELETE', `/_plugins/_ml/api_keys/${made.id}`, undefined, ann);
    expect(gone).toEqual({ id: made.id, status: 'REVOKED' });
    expect((await app.request('GET', '/_plugins/_ml/memory', undefined, held)).status).toBe(401);
    const { body: listed } = await app.request('GET', '/_plugins/_ml/api_keys', undefined, ann);
    expect(listed).toMatchObject({ api_keys: [{ id: made.id, revoked_time: expect.any(Number) }] });
  });
});
