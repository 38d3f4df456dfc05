const PREFIX = 'plugins.ml_commons.';

/** What a setting that the platform reads may hold. Settings of no definition are kept as they come. */
export interface SettingDefinition {
  /** `count`: a whole number of at least 0. `choice`: one of `choices`. */
  readonly kind: 'flag' | 'patterns' | 'text' | 'count' | 'choice';
  readonly choices?: readonly string[];
  /** `undefined`: not set at all, which differs from an empty list. */
  readonly default: string | readonly string[] | undefined;
}

const on = { kind: 'flag', default: 'true' } as const;
const off = { kind: 'flag', default: 'false' } as const;
const unlimited = { kind: 'count', default: '0' } as const;

/** Full names. Switches of what is safe to serve start on here; `mcp_server_enabled` does not. */
export const DEFINITIONS: ReadonlyMap<string, SettingDefinition> = new Map(
  Object.entries<SettingDefinition>({
    trusted_connector_endpoints_regex: { kind: 'patterns', default: undefined },
    trusted_connector_private_endpoints_regex: { kind: 'patterns', default: [] },
    'connector.restricted_ip_patterns': { kind: 'patterns', default: [] },
    'connector.private_ip_enabled': off,
    connector_access_control_enabled: off,
    model_access_control_enabled: off,
    'remote_inference.enabled': on,
    agent_framework_enabled: on,
    memory_feature_enabled: on,
    execute_tools_enabled: on,
    agentic_memory_enabled: on,
    controller_enabled: on,
    mcp_connector_enabled: on,
    mcp_server_enabled: off,
    mcp_header_passthrough_enabled: off,
    stream_enabled: on,
    unified_agent_api_enabled: on,
    ag_ui_enabled: off,
    remote_agentic_memory_enabled: off,
    multi_tenancy_enabled: off,
    'memory.retention_enabled': off,
    'model_auto_deploy.enable': on,
    safe_delete_model: off,
    allow_custom_deployment_plan: off,
    only_run_on_ml_node: on,
    jvm_heap_memory_threshold: { kind: 'text', default: '85' },
    tool_permission_default: { kind: 'choice', choices: ['allow', 'ask', 'deny'], default: 'allow' },
    'limits.requests_per_minute': unlimited,
    'limits.concurrent_executions': unlimited,
    'limits.agent_concurrent_executions': unlimited,
    'limits.agent_executions_per_minute': unlimited,
    'audit.payloads': off,
    'audit.retention_days': { kind: 'count', default: '90' },
  }).map(([name, definition]) => [PREFIX + name, definition]),
);

/** Limits of one user or of one role, over the general ones: `limits.user.<name>.…`, `limits.role.<name>.…`. */
const OVERRIDE = /^plugins\.ml_commons\.limits\.(?:user|role)\.[\w.-]+\.(?:requests_per_minute|concurrent_executions)$/;

/** What a setting may hold; `undefined` for one that the platform does not read. */
export function kindOf(name: string): SettingDefinition['kind'] | undefined {
  return DEFINITIONS.get(name)?.kind ?? (OVERRIDE.test(name) ? 'count' : undefined);
}
