import type { JsonObject } from '../json.ts';
import type { DeniedTool } from './access.ts';

export interface RoleDefinition {
  readonly permissions: readonly string[];
  readonly deniedTools: readonly DeniedTool[];
  /** Its members as the API takes and shows them. */
  readonly body: JsonObject;
}

/** The role that sees and changes everything. */
export const ADMIN_ROLE = 'all_access';

const EVERYBODY = ['root:read', 'cluster:read', 'api_key:*'];

/** Roles that are always there and that nobody can change: names of the OpenSearch security plugin first, then ours. */
export const BUILT_IN_ROLES: ReadonlyMap<string, RoleDefinition> = new Map(
  Object.entries({
    [ADMIN_ROLE]: role('Everything, whoever owns it', ['*']),
    ml_full_access: role('Everything about connectors, models, agents, memory and tasks', [
      'cluster:admin/opensearch/ml/*',
      'cluster_monitor',
      ...['agent', 'connection', 'connector', 'memory', 'model', 'model_group', 'task'].map((noun) => `${noun}:*`),
      'events:read',
      ...EVERYBODY,
    ]),
    ml_read_access: role('Reads connectors, models, agents, memory and tasks', [
      ...['agent', 'connection', 'connector', 'memory', 'model', 'model_group', 'task'].map((noun) => `${noun}:read`),
      'events:read',
      ...EVERYBODY,
    ]),
    security_rest_api_access: role('Administers users, roles and mappings, and gives no more than it has itself', [
      'user:*',
      'role:*',
      'role_mapping:*',
      ...EVERYBODY,
    ]),
    tenon_operator: role('Keeps the platform running: settings, connections, the audit trail', [
      'settings:*',
      'connection:*',
      'audit:*',
      'events:read',
      'metrics:read',
      ...['agent', 'connector', 'model', 'model_group', 'task'].map((noun) => `${noun}:read`),
      ...EVERYBODY,
    ]),
    tenon_agent_user: role('Runs agents, and keeps own conversations', [
      'agent:read',
      'agent:execute',
      'events:read',
      'connector:use',
      'memory:*',
      'task:read',
      'task:answer',
      ...EVERYBODY,
    ]),
  }),
);

function role(description: string, permissions: readonly string[]): RoleDefinition {
  return { permissions, deniedTools: [], body: { description, cluster_permissions: [...permissions] } };
}
