import { type Static, type TSchema, Type } from 'typebox';

/** Refers to a named schema: typed as the schema itself, emitted as `$ref` so that OpenAPI gets one component. */
export function ref<T extends TSchema & { $id?: string }>(schema: T): ReturnType<typeof Type.Unsafe<Static<T>>> {
  if (!schema.$id) throw new Error('ref() needs a schema with an $id');
  return Type.Unsafe<Static<T>>({ $ref: schema.$id });
}

/** `parameters` maps: any JSON goes in, the texts come out. */
export const ParametersIn = Type.Record(Type.String(), Type.Unknown(), {
  description: 'Values that are not strings are stored as their JSON text.',
});
export const ParametersOut = Type.Record(Type.String(), Type.String());

export const EpochMillis = Type.Integer({ description: 'Epoch milliseconds' });

export const WriteResponse = Type.Object(
  {
    _index: Type.String(),
    _id: Type.String(),
    _version: Type.Integer(),
    result: Type.Enum(['created', 'updated', 'deleted', 'not_found', 'noop']),
    forced_refresh: Type.Optional(Type.Boolean()),
    _shards: Type.Object({ total: Type.Integer(), successful: Type.Integer(), failed: Type.Integer() }),
    _seq_no: Type.Integer(),
    _primary_term: Type.Integer(),
  },
  { $id: 'WriteResponse' },
);

const ErrorCause = Type.Object({ type: Type.String(), reason: Type.String() });
export const ErrorEnvelope = Type.Object(
  {
    error: Type.Object(
      { root_cause: Type.Array(ErrorCause), type: Type.String(), reason: Type.String() },
      { additionalProperties: true },
    ),
    status: Type.Integer(),
  },
  { $id: 'ErrorEnvelope' },
);

/** The document-write reply of update and delete. */
export function writeResponse(
  index: string,
  outcome: { id: string; version: number; seqNo: number; result: string },
): Static<typeof WriteResponse> {
  return {
    _index: index,
    _id: outcome.id,
    _version: outcome.version,
    result: outcome.result as Static<typeof WriteResponse>['result'],
    forced_refresh: true,
    _shards: { total: 1, successful: 1, failed: 0 },
    _seq_no: outcome.seqNo,
    _primary_term: 1,
  };
}

/** Page controls of the list routes of memory. */
export const PageQuery = Type.Object({
  max_results: Type.Optional(Type.String()),
  next_token: Type.Optional(Type.String()),
});
