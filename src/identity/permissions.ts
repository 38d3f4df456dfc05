const ML = 'cluster:admin/opensearch/ml';

/**
 * Every permission of the routes, with the names OpenSearch gives the same action. A role may name either. Those without
 * such a name are ours alone.
 */
export const PERMISSIONS: Readonly<Record<string, readonly string[]>> = {
  'account:read': [],
  'agent:approve_tools': [],
  'agent:create': [`${ML}/agents/register`],
  'agent:delete': [`${ML}/agents/delete`],
  'agent:execute': [`${ML}/execute`],
  'agent:read': [`${ML}/agents/get`],
  'agent:update': [`${ML}/agents/update`],
  'api_key:create': [],
  'api_key:read': [],
  'api_key:revoke': [],
  'audit:export': [],
  'audit:read': [],
  'cluster:read': ['cluster:monitor/health'],
  'connection:call_tool': [`${ML}/connectors/execute`],
  'connection:disable': [],
  'connection:enable': [],
  'connection:get_prompt': [],
  'connection:list_prompts': [],
  'connection:list_resources': [],
  'connection:list_tools': [`${ML}/connectors/tools`],
  'connection:read': [`${ML}/connectors/get`],
  'connection:read_resource': [],
  'connection:reconnect': [],
  'connector:create': [`${ML}/create_connector`],
  'connector:delete': [`${ML}/connectors/delete`],
  'connector:read': [`${ML}/connectors/get`],
  'connector:update': [`${ML}/connectors/update`],
  'connector:use': [`${ML}/connectors/execute`],
  'events:read': [],
  'memory:create': [`${ML}/memory/conversation/create`],
  'memory:delete': [`${ML}/memory/conversation/delete`],
  'memory:read': [`${ML}/memory/conversation/get`],
  'memory:update': [`${ML}/memory/conversation/update`],
  'metrics:read': [],
  'model:delete': [`${ML}/models/delete`],
  'model:deploy': [`${ML}/deploy_model`],
  'model:predict': [`${ML}/predict`],
  'model:read': [`${ML}/models/get`],
  'model:register': [`${ML}/register_model`],
  'model:undeploy': [`${ML}/undeploy_models`],
  'model:update': [`${ML}/models/update`],
  'model_group:delete': [`${ML}/model_groups/delete`],
  'model_group:read': [`${ML}/model_groups/get`],
  'model_group:register': [`${ML}/register_model_group`],
  'model_group:update': [`${ML}/update_model_group`],
  'role:delete': ['restapi:admin/roles'],
  'role:read': ['restapi:admin/roles'],
  'role:update': ['restapi:admin/roles'],
  'role_mapping:delete': ['restapi:admin/rolesmapping'],
  'role_mapping:read': ['restapi:admin/rolesmapping'],
  'role_mapping:update': ['restapi:admin/rolesmapping'],
  'root:read': ['cluster:monitor/main'],
  'settings:read': ['cluster:monitor/state'],
  'settings:update': ['cluster:admin/settings/update'],
  'task:answer': [],
  'task:delete': [`${ML}/tasks/delete`],
  'task:read': [`${ML}/tasks/get`],
  'user:delete': ['restapi:admin/internalusers'],
  'user:read': ['restapi:admin/internalusers'],
  'user:update': ['restapi:admin/internalusers'],
};

/** What every signed-in caller may do, with or without a role. */
const GRANTED_TO_ALL: readonly string[] = ['account:read'];

/** Groups of actions that roles written for OpenSearch name. */
const ACTION_GROUPS: ReadonlyMap<string, string> = new Map([
  ['unlimited', '*'],
  ['cluster_all', 'cluster:*'],
  ['cluster_monitor', 'cluster:monitor/*'],
]);

/**
 * What a list of patterns allows. A pattern is a permission (`connector:read`), an action of OpenSearch
 * (`cluster:admin/opensearch/ml/connectors/get`) or a group of them; `*` stands for any characters, `?` for one.
 */
export function permissionMatcher(patterns: readonly string[]): (permission: string) => boolean {
  const wanted = patterns.map((pattern) => ACTION_GROUPS.get(pattern) ?? pattern);
  const known = new Map<string, boolean>();
  return (permission) => {
    const answer = known.get(permission);
    if (answer !== undefined) return answer;
    const names = [permission, ...(PERMISSIONS[permission] ?? [])];
    const allowed =
      GRANTED_TO_ALL.includes(permission) ||
      wanted.some((pattern) => names.some((name) => matchesWildcard(pattern, name)));
    known.set(permission, allowed);
    return allowed;
  };
}

/** Whether the whole text fits a pattern in which `*` is any characters and `?` one. Takes linear memory, no regex. */
export function matchesWildcard(pattern: string, text: string): boolean {
  let at = 0;
  let from = 0;
  let star = -1;
  let retry = 0;
  while (at < text.length) {
    if (from < pattern.length && pattern[from] === '*') {
      star = from++;
      retry = at;
    } else if (from < pattern.length && (pattern[from] === '?' || pattern[from] === text[at])) {
      at++;
      from++;
    } else if (star >= 0) {
      from = star + 1;
      at = ++retry;
    } else return false;
  }
  while (pattern[from] === '*') from++;
  return from === pattern.length;
}
