import { type TProperties, Type } from 'typebox';
import { EpochMillis } from './common.ts';

export const EntityName = Type.Object({ name: Type.String() });
export const ApiKeyId = Type.Object({ api_key_id: Type.String() });

const Names = Type.Array(Type.String());
const Anything = Type.Array(Type.Unknown());
const flags = { reserved: Type.Boolean(), hidden: Type.Boolean() };

/** One record for each name. */
function byName($id: string, properties: TProperties) {
  return Type.Record(Type.String(), Type.Object(properties), { $id });
}

/** Open: the service answers with the documented texts. */
export const InternalUserRequest = Type.Object(
  {
    password: Type.Optional(Type.Unknown({ description: 'Required for a new user; 8 to 100 characters' })),
    backend_roles: Type.Optional(Type.Unknown({ description: 'Strings: groups of the user' })),
    opendistro_security_roles: Type.Optional(Type.Unknown({ description: 'Strings: roles given directly' })),
    attributes: Type.Optional(Type.Unknown({ description: 'Map of strings; `"enabled":"false"` locks the user' })),
    description: Type.Optional(Type.Unknown({ description: 'String' })),
  },
  { $id: 'InternalUserRequest' },
);

export const InternalUsers = byName('InternalUsers', {
  hash: Type.String({ description: 'Always empty' }),
  ...flags,
  backend_roles: Names,
  attributes: Type.Record(Type.String(), Type.String()),
  description: Type.Optional(Type.String()),
  opendistro_security_roles: Names,
  static: Type.Boolean(),
});

/** Open: the service answers with the documented texts. */
export const RoleRequest = Type.Object(
  {
    description: Type.Optional(Type.Unknown({ description: 'String' })),
    cluster_permissions: Type.Optional(
      Type.Unknown({ description: 'Patterns: permissions such as `connector:read`, or the actions of OpenSearch' }),
    ),
    index_permissions: Type.Optional(Type.Unknown({ description: 'Kept, without effect' })),
    tenant_permissions: Type.Optional(Type.Unknown({ description: 'Kept, without effect' })),
    denied_tools: Type.Optional(
      Type.Unknown({
        description: '`[{"connector_id"?, "tool": "<regular expression>"}]`: tools nobody with it may use',
      }),
    ),
  },
  { $id: 'RoleRequest' },
);

export const Roles = byName('Roles', {
  ...flags,
  description: Type.Optional(Type.String()),
  cluster_permissions: Names,
  index_permissions: Anything,
  tenant_permissions: Anything,
  denied_tools: Type.Optional(
    Type.Array(Type.Object({ connector_id: Type.Optional(Type.String()), tool: Type.String() })),
  ),
  static: Type.Boolean(),
});

/** Open: the service answers with the documented texts. */
export const RoleMappingRequest = Type.Object(
  {
    users: Type.Optional(Type.Unknown({ description: 'Names of users; `*` stands for any characters' })),
    backend_roles: Type.Optional(Type.Unknown({ description: 'Backend roles; `*` stands for any characters' })),
    description: Type.Optional(Type.Unknown({ description: 'String' })),
  },
  { $id: 'RoleMappingRequest' },
);

export const RoleMappings = byName('RoleMappings', {
  hosts: Names,
  users: Names,
  ...flags,
  backend_roles: Names,
  and_backend_roles: Names,
  description: Type.Optional(Type.String()),
});

export const SecurityAnswer = Type.Object({ status: Type.String(), message: Type.String() }, { $id: 'SecurityAnswer' });

export const AuthInfo = Type.Object(
  {
    user: Type.String(),
    user_name: Type.String(),
    user_requested_tenant: Type.Null(),
    remote_address: Type.Union([Type.String(), Type.Null()]),
    backend_roles: Names,
    custom_attribute_names: Names,
    roles: Names,
    tenants: Type.Object({}),
    principal: Type.String({ description: 'Id in audit rows and of owned records' }),
    peer_certificates: Type.String(),
    sso_logout_url: Type.Null(),
  },
  { $id: 'AuthInfo' },
);

/** Open: the service answers with the documented texts. */
export const ApiKeyRequest = Type.Object(
  {
    name: Type.Optional(Type.Unknown({ description: 'String; required: what the key is for' })),
    scope: Type.Optional(Type.Unknown({ description: 'Permission patterns; absent: all that its roles allow' })),
    roles: Type.Optional(Type.Unknown({ description: 'Roles of the owner; absent: all of them' })),
    expires_time: Type.Optional(Type.Unknown({ description: 'Epoch milliseconds; absent: it does not expire' })),
  },
  { $id: 'ApiKeyRequest' },
);

const keyMembers = {
  id: Type.String(),
  name: Type.String(),
  owner: Type.String(),
  roles: Type.Optional(Names),
  scope: Type.Optional(Names),
  create_time: EpochMillis,
  expires_time: Type.Optional(EpochMillis),
  last_used_time: Type.Optional(EpochMillis),
  revoked_time: Type.Optional(EpochMillis),
};

export const ApiKeyCreated = Type.Object(
  { ...keyMembers, api_key: Type.String({ description: 'The key itself: shown this once' }) },
  { $id: 'ApiKeyCreated' },
);

export const ApiKeyList = Type.Object({ api_keys: Type.Array(Type.Object(keyMembers)) }, { $id: 'ApiKeyList' });

export const ApiKeyRevoked = Type.Object(
  { id: Type.String(), status: Type.Enum(['REVOKED']) },
  { $id: 'ApiKeyRevoked' },
);
