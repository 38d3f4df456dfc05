import { Type } from 'typebox';

export const RootInfo = Type.Object(
  {
    name: Type.String(),
    cluster_name: Type.String(),
    cluster_uuid: Type.String(),
    version: Type.Object({
      distribution: Type.String(),
      number: Type.String({ description: 'Version of the API that is spoken, which clients select features by' }),
      build_type: Type.String(),
      build_hash: Type.String(),
      build_date: Type.String(),
      build_snapshot: Type.Boolean(),
      lucene_version: Type.String(),
      minimum_wire_compatibility_version: Type.String(),
      minimum_index_compatibility_version: Type.String(),
    }),
    tagline: Type.String(),
  },
  { $id: 'RootInfo' },
);

export const ClusterHealth = Type.Object(
  {
    cluster_name: Type.String(),
    status: Type.Enum(['green', 'yellow', 'red']),
    timed_out: Type.Boolean(),
    number_of_nodes: Type.Integer(),
  },
  { $id: 'ClusterHealth' },
);

export const ProbeAnswer = Type.Object(
  { status: Type.Enum(['ok', 'ready', 'unavailable']), reason: Type.Optional(Type.String()) },
  { $id: 'ProbeAnswer' },
);
