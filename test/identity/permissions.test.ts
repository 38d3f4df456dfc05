import { describe, expect, it } from 'vitest';
import { BUILT_IN_ROLES } from '../../src/identity/builtin-roles.ts';
import { matchesWildcard, PERMISSIONS, permissionMatcher } from '../../src/identity/permissions.ts';
import { accessOf, createRoleBook, mayGive, roleDefinition } from '../../src/identity/roles.ts';

describe('a pattern', () => {
  it.each([
    ['*', 'anything:at/all', true],
    ['', '', true],
    ['', 'a', false],
    ['agent:*', 'agent:read', true],
    ['agent:*', 'agents:read', false],
    ['*:read', 'connector:read', true],
    ['*:read', 'connector:reads', false],
    ['connector:?ead', 'connector:read', true],
    ['a*b*c', 'a--b--b-c', true],
    ['a*b*c', 'a--b--b-', false],
    ['**', 'x', true],
    ['x*', 'x', true],
    ['agent.read', 'agent:read', false],
  ])('%s fits %s: %s', (pattern, text, fits) => {
    expect(matchesWildcard(pattern, text)).toBe(fits);
  });

  it('made to be slow is not', () => {
    expect(matchesWildcard(`${'*a'.repeat(400)}*b`, 'a'.repeat(2000))).toBe(false);
  });

  it('names a permission as ours, as an action of OpenSearch, or as a group of actions', () => {
    for (const pattern of [
      'connector:create',
      'cluster:admin/opensearch/ml/create_connector',
      'cluster:admin/opensearch/ml/*',
      'cluster_all',
      'unlimited',
    ]) {
      expect(permissionMatcher([pattern])('connector:create'), pattern).toBe(true);
    }
    for (const pattern of [
      'connector:update',
      'cluster_monitor',
      'indices:*',
      'CONNECTOR:CREATE',
      'connector',
      'constructor',
    ]) {
      expect(permissionMatcher([pattern])('connector:create'), pattern).toBe(false);
    }
    expect(permissionMatcher(['cluster_monitor'])('cluster:read')).toBe(true);
    expect(permissionMatcher(['restapi:admin/roles'])('role:update')).toBe(true);
    expect(permissionMatcher(['restapi:admin/roles'])('role_mapping:update')).toBe(false);
  });

  it('of nothing allows only to ask who one is', () => {
    const allowed = Object.keys(PERMISSIONS).filter(permissionMatcher([]));
    expect(allowed).toEqual(['account:read']);
  });
});

describe('built-in roles', () => {
  const allowedTo = (name: string): string[] => {
    const role = BUILT_IN_ROLES.get(name);
    if (role === undefined) throw new Error(`${name} is missing`);
    return Object.keys(PERMISSIONS).filter(accessOf([role]).allows);
  };
  const everyone = ['account:read', 'api_key:create', 'api_key:read', 'api_key:revoke', 'cluster:read', 'root:read'];

  it('all_access is everything, and only it makes an administrator', () => {
    expect(allowedTo('all_access')).toEqual(Object.keys(PERMISSIONS));
    const admins = [...BUILT_IN_ROLES].filter(([, role]) => accessOf([role]).admin).map(([name]) => name);
    expect(admins).toEqual(['all_access']);
  });

  it('ml_full_access is all of the ML API and nothing of administration', () => {
    const not = Object.keys(PERMISSIONS).filter((permission) => !allowedTo('ml_full_access').includes(permission));
    expect(not.map((permission) => permission.split(':')[0])).toEqual(
      expect.arrayContaining(['audit', 'role', 'role_mapping', 'settings', 'user']),
    );
    const administration = /^(audit|metrics|role|role_mapping|user):|^settings:update$/;
    expect(not.filter((permission) => !administration.test(permission))).toEqual([]);
  });

  it('ml_read_access changes nothing but own keys', () => {
    const changing = allowedTo('ml_read_access').filter((permission) => !permission.endsWith(':read'));
    expect(changing).toEqual(['api_key:create', 'api_key:revoke']);
    expect(allowedTo('ml_read_access')).not.toContain('audit:read');
  });

  it('tenon_agent_user runs agents with their connectors and keeps memories', () => {
    const own = ['agent:execute', 'agent:read', 'connector:use', 'events:read', 'task:answer', 'task:read'];
    const memory = ['memory:create', 'memory:delete', 'memory:read', 'memory:update'];
    expect(allowedTo('tenon_agent_user').sort()).toEqual([...everyone, ...own, ...memory].sort());
  });

  it('tenon_operator keeps the platform running and makes no records', () => {
    const allowed = allowedTo('tenon_operator');
    expect(allowed).toEqual(expect.arrayContaining(['settings:update', 'connection:call_tool', 'audit:read']));
    expect(allowed.filter((permission) => /:(create|register|delete|execute|use)$/.test(permission))).toEqual([
      'api_key:create',
    ]);
  });
});

describe('roles of a subject', () => {
  const book = createRoleBook(
    [
      { name: 'callers', body: { cluster_permissions: ['agent:execute'] } },
      { name: 'careful', body: { denied_tools: [{ connector_id: 'c1', tool: 'delete_.*' }, { tool: 'shell' }] } },
      { name: 'all_access', body: { cluster_permissions: [] } },
    ],
    [
      { role: 'callers', users: ['ann', 'team-*'], backendRoles: [] },
      { role: 'careful', users: [], backendRoles: ['staff'] },
      { role: 'gone', users: ['*'], backendRoles: [] },
    ],
  );

  it('come from mappings of its name, of its groups, and from itself', () => {
    expect(book.rolesOf({ name: 'ann', backendRoles: [] })).toEqual(['callers']);
    expect(book.rolesOf({ name: 'team-x', backendRoles: ['staff'], direct: ['ml_read_access', 'nowhere'] })).toEqual([
      'callers',
      'careful',
      'ml_read_access',
    ]);
    expect(book.rolesOf({ backendRoles: ['staffs'] })).toEqual([]);
  });

  it('add up; any of them denies a tool by its whole name', () => {
    const access = book.access(['callers', 'careful', 'all_access']);
    expect(access.allows('agent:execute')).toBe(true);
    expect(access.deniesTool('c1', 'delete_all')).toBe(true);
    expect(access.deniesTool('c2', 'delete_all')).toBe(false);
    expect(access.deniesTool('c1', 'undelete_all')).toBe(false);
    expect(access.deniesTool('c2', 'shell')).toBe(true);
    expect(access.deniesTool('c2', 'shells')).toBe(false);
  });

  it('cannot replace a built-in role, and are narrowed by a scope', () => {
    expect(book.access(['all_access']).admin).toBe(true);
    const scoped = book.access(['all_access'], ['agent:*']);
    expect([scoped.admin, scoped.allows('agent:read'), scoped.allows('connector:read')]).toEqual([false, true, false]);
    expect(book.access(['callers'], ['*']).allows('connector:read')).toBe(false);
  });

  it('can be handed on by who may do as much', () => {
    const access = (...patterns: string[]) => accessOf([roleDefinition({ cluster_permissions: patterns })]);
    const role = (body: object) => roleDefinition(body as Parameters<typeof roleDefinition>[0]);
    const agents = role({ cluster_permissions: ['agent:*'] });
    expect(mayGive(access('agent:*', 'role:update'), agents)).toBe(true);
    expect(mayGive(access('agent:read'), agents)).toBe(false);
    expect(mayGive(access('agent:*'), role({ cluster_permissions: ['*'] }))).toBe(false);
    expect(mayGive(access('agent:*'), role({ denied_tools: [{ tool: 'x' }] }))).toBe(false);
    expect(mayGive(access('*'), role({ cluster_permissions: ['*'], denied_tools: [{ tool: 'x' }] }))).toBe(true);
  });
});
