import { type Static, type TSchema, Type } from 'typebox';
import type { JsonObject } from '../json.ts';

/** Refers to a named schema: typed as the schema itself, emitted as `$ref` so that OpenAPI gets one component. */
export function ref<T extends TSchema & { $id?: string }>(schema: T): ReturnType<typeof Type.Unsafe<Static<T>>> {
  if (!schema.$id) throw new Error('ref() needs a schema with an $id');
  return Type.Unsafe<Static<T>>({ $ref: schema.$id });
}

/**
 * `ref` for a document that a room reads or builds member by member: checked and serialised by the schema, typed as JSON.
 */
export function jsonRef(schema: TSchema & { $id?: string }): ReturnType<typeof Type.Unsafe<JsonObject>> {
  if (!schema.$id) throw new Error('jsonRef() needs a schema with an $id');
  return Type.Unsafe<JsonObject>({ $ref: schema.$id });
}

/** `parameters` maps: any JSON goes in, the texts come out. */
export const ParametersIn = Type.Record(Type.String(), Type.Unknown(), {
  description: 'Values that are not strings are stored as their JSON text.',
});
export const ParametersOut = Type.Record(Type.String(), Type.String());

export const EpochMillis = Type.Integer({ description: 'Epoch milliseconds' });

/** How a record is to be shared; only with access control of its noun. */
export const AccessMembers = {
  access_mode: Type.Optional(
    Type.Unknown({ description: '`private` (default), `restricted` to backend roles, `public`' }),
  ),
  backend_roles: Type.Optional(Type.Unknown({ description: 'Array of strings; makes it restricted' })),
  add_all_backend_roles: Type.Optional(
    Type.Unknown({ description: 'Boolean; true restricts to all backend roles of the caller' }),
  ),
};

/** A user as the owner of a record. */
export const Owner = Type.Object({
  name: Type.String(),
  backend_roles: Type.Array(Type.String()),
  roles: Type.Array(Type.String()),
  custom_attribute_names: Type.Array(Type.String()),
});

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
