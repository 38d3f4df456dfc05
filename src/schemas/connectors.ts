import { Type } from 'typebox';
import { AccessMembers, EpochMillis, Owner, ParametersOut } from './common.ts';

/** Fields that say who calls this server, in lower case: they go no further, whatever a connector or a caller asks. */
export const CALLER_CREDENTIAL_HEADERS: readonly string[] = [
  'authorization',
  'proxy-authorization',
  'cookie',
  'cookie2',
  'set-cookie',
  'x-api-key',
];

const given = (description: string) => Type.Optional(Type.Unknown({ description }));
const optionalText = Type.Optional(Type.String());

export const ConnectorId = Type.Object({ connector_id: Type.String() });

const members = {
  name: given('String'),
  description: given('String'),
  version: given('String or number'),
  protocol: given('`mcp_streamable_http` or `http`'),
  parameters: given('Object; values that are not strings are stored as their JSON text'),
  credential: given('Object of strings; stored encrypted and never returned'),
  actions: given('Array; protocol http: {action_type, method, url, headers, request_body, …}'),
  url: given('String; protocol mcp_streamable_http: address of the server'),
  headers: given('Object of strings; protocol mcp_streamable_http'),
  client_config: given('Object: connections, timeouts, retries'),
  ...AccessMembers,
  passthrough_headers: given('Array of header names; protocol mcp_streamable_http'),
  auth: given('Object: sign-in by OAuth 2; protocol mcp_streamable_http'),
};

/** Open: the service answers with the documented texts. */
export const CreateConnectorRequest = Type.Object(
  {
    ...members,
    connector_id: given('Id to use in place of a generated one'),
    dry_run: given('Boolean; true validates and stores nothing'),
  },
  { $id: 'CreateConnectorRequest' },
);

export const UpdateConnectorRequest = Type.Object(members, { $id: 'UpdateConnectorRequest' });

export const ConnectorCreated = Type.Object({ connector_id: Type.String() }, { $id: 'ConnectorCreated' });

const Action = Type.Object({
  action_type: Type.String(),
  name: optionalText,
  method: Type.String(),
  url: Type.String(),
  headers: Type.Optional(ParametersOut),
  request_body: optionalText,
  pre_process_function: optionalText,
  post_process_function: optionalText,
  supports_structured_output: Type.Optional(Type.Boolean()),
});

const ClientConfig = Type.Object({
  max_connection: Type.Integer(),
  connection_timeout: Type.Integer({ description: 'Seconds' }),
  read_timeout: Type.Integer({ description: 'Seconds' }),
  retry_backoff_policy: Type.String(),
  max_retry_times: Type.Integer(),
  retry_backoff_millis: Type.Integer(),
  retry_timeout_seconds: Type.Integer(),
  skip_ssl_verification: Type.Boolean(),
  max_total_timeout: Type.Optional(Type.Integer({ description: 'Seconds' })),
  protocol_version: optionalText,
  elicitation: optionalText,
});

const Auth = Type.Object({
  type: Type.String(),
  grant_type: optionalText,
  client_id: optionalText,
  client_secret: optionalText,
  private_key: optionalText,
  signing_algorithm: optionalText,
  token_endpoint_auth_method: optionalText,
  scope: optionalText,
  client_metadata_url: optionalText,
  per_user: Type.Optional(Type.Boolean()),
  allow: Type.Optional(Type.Array(Type.String())),
});

/** Closed: what is not named here, a credential above all, never leaves. */
export const ConnectorDocument = Type.Object(
  {
    name: Type.String(),
    version: Type.String(),
    description: optionalText,
    protocol: Type.String(),
    parameters: Type.Optional(ParametersOut),
    actions: Type.Optional(Type.Array(Action)),
    url: optionalText,
    headers: Type.Optional(ParametersOut),
    passthrough_headers: Type.Optional(Type.Array(Type.String())),
    auth: Type.Optional(Auth),
    backend_roles: Type.Optional(Type.Array(Type.String())),
    owner: Type.Optional(Owner),
    access: optionalText,
    client_config: Type.Optional(ClientConfig),
    origin: Type.Optional(Type.String({ description: '`config`: declared in the configuration file, read-only' })),
    enabled: Type.Optional(Type.Boolean({ description: 'Declared servers: whether it connects at start' })),
    agents: Type.Optional(
      Type.Array(Type.String(), { description: 'Declared servers: agents it joins, by name or id; `*` is all' }),
    ),
    command: Type.Optional(Type.Array(Type.String(), { description: 'Local servers: the program and its arguments' })),
    cwd: Type.Optional(Type.String({ description: 'Local servers' })),
    environment: Type.Optional(
      Type.Array(Type.String(), { description: 'Local servers: names of what is set for them' }),
    ),
    created_time: EpochMillis,
    last_updated_time: EpochMillis,
  },
  { $id: 'ConnectorDocument', additionalProperties: false },
);
