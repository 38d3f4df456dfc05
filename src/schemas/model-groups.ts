import { Type } from 'typebox';
import { AccessMembers, EpochMillis, Owner } from './common.ts';

export const ModelGroupId = Type.Object({ model_group_id: Type.String() });

/** Open: the service answers with the documented texts. */
export const ModelGroupRequest = Type.Object(
  {
    name: Type.Optional(Type.Unknown({ description: 'String; required to register, unique' })),
    description: Type.Optional(Type.Unknown({ description: 'String' })),
    model_group_id: Type.Optional(Type.Unknown({ description: 'Id to use in place of a generated one' })),
    ...AccessMembers,
  },
  { $id: 'ModelGroupRequest' },
);

export const ModelGroupRegistered = Type.Object(
  { model_group_id: Type.String(), status: Type.Enum(['CREATED']) },
  { $id: 'ModelGroupRegistered' },
);

export const ModelGroup = Type.Object(
  {
    name: Type.String(),
    latest_version: Type.Integer(),
    description: Type.Optional(Type.String()),
    backend_roles: Type.Optional(Type.Array(Type.String())),
    owner: Type.Optional(Owner),
    access: Type.String(),
    created_time: EpochMillis,
    last_updated_time: EpochMillis,
  },
  { $id: 'ModelGroup' },
);

export const ModelGroupUpdated = Type.Object({ status: Type.Enum(['Updated']) }, { $id: 'ModelGroupUpdated' });
