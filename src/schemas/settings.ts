import { Type } from 'typebox';

const Scope = Type.Object({}, { additionalProperties: true, description: 'Settings by name, flat or nested' });

/** Open: the service answers with the documented texts. */
export const UpdateSettingsRequest = Type.Object(
  {
    persistent: Type.Optional(Type.Unknown({ description: 'Settings to change; `null` resets one' })),
    transient: Type.Optional(Type.Unknown({ description: 'As persistent, until the server stops' })),
  },
  { $id: 'UpdateSettingsRequest' },
);

export const SettingsUpdated = Type.Object(
  { acknowledged: Type.Boolean(), persistent: Scope, transient: Scope },
  { $id: 'SettingsUpdated' },
);

export const ClusterSettings = Type.Object(
  { persistent: Scope, transient: Scope, defaults: Type.Optional(Scope) },
  { $id: 'ClusterSettings' },
);
