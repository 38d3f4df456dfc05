import { Type } from 'typebox';
import { EpochMillis } from './common.ts';

/** One external tool call, sign-in, refusal or change of a record. Never a secret. */
export interface AuditEntry {
  readonly principal: string;
  readonly action: string;
  readonly outcome: string;
  readonly agentId?: string;
  readonly connectorId?: string;
  readonly tool?: string;
  /** SHA-256 of the canonical arguments, hex. */
  readonly argumentsHash?: string;
  readonly durationMs?: number;
  readonly bytes?: number;
  readonly detail?: string;
  /** JSON text of what was sent and of what came back, only where the operator asked for it. */
  readonly arguments?: string;
  readonly result?: string;
}

export interface AuditRow extends AuditEntry {
  readonly id: string;
  /** Epoch milliseconds. */
  readonly time: number;
}

/** Members of a row as the API names them. */
export type AuditField =
  | 'id'
  | 'time'
  | 'principal'
  | 'action'
  | 'outcome'
  | 'agent_id'
  | 'connector_id'
  | 'tool'
  | 'arguments_hash'
  | 'duration_ms'
  | 'bytes'
  | 'detail';

export type AuditBound = 'gt' | 'gte' | 'lt' | 'lte';

/** Which rows are meant; a row without the field is in no `in` and in no `range`. */
export type AuditFilter =
  | { readonly kind: 'all' }
  | { readonly kind: 'in'; readonly field: AuditField; readonly values: readonly (string | number)[] }
  | { readonly kind: 'range'; readonly field: AuditField; readonly bounds: readonly (readonly [AuditBound, number])[] }
  | { readonly kind: 'exists'; readonly field: AuditField }
  | { readonly kind: 'and' | 'or'; readonly filters: readonly AuditFilter[] }
  | { readonly kind: 'not'; readonly filter: AuditFilter };

export interface AuditQuery {
  readonly filter: AuditFilter;
  readonly from: number;
  readonly size: number;
  readonly newestFirst: boolean;
}

/** Open: the service answers with texts that name the clause. */
export const AuditSearchRequest = Type.Unsafe<unknown>({
  $id: 'AuditSearchRequest',
  type: ['object', 'null'],
  properties: {
    query: Type.Unknown({ description: '`match_all`, `term`, `terms`, `range`, `exists`, `bool`' }),
    size: Type.Unknown({ description: 'Whole number from 0 to 1000; default 10' }),
    from: Type.Unknown({ description: 'Whole number; default 0; with size at most 10000' }),
    sort: Type.Unknown({ description: 'By `time`; default newest first' }),
  },
});

const text = Type.Optional(Type.String());

const AuditSource = Type.Object({
  time: EpochMillis,
  principal: Type.String({ description: 'Id of who did it' }),
  action: Type.String({ description: '`tool_call`, `connector.create`, …' }),
  outcome: Type.String(),
  agent_id: text,
  connector_id: text,
  tool: text,
  arguments_hash: Type.Optional(Type.String({ description: 'SHA-256 of the canonical arguments, hex' })),
  duration_ms: Type.Optional(Type.Integer()),
  bytes: Type.Optional(Type.Integer({ description: 'Of the answer' })),
  detail: text,
  arguments: Type.Optional(Type.String({ description: 'Only with the setting `audit.payloads`' })),
  result: Type.Optional(Type.String({ description: 'Only with the setting `audit.payloads`' })),
});

const score = Type.Union([Type.Number(), Type.Null()]);

export const AuditSearchResponse = Type.Object(
  {
    took: Type.Integer(),
    timed_out: Type.Boolean(),
    _shards: Type.Object({
      total: Type.Integer(),
      successful: Type.Integer(),
      skipped: Type.Integer(),
      failed: Type.Integer(),
    }),
    hits: Type.Object({
      total: Type.Object({ value: Type.Integer(), relation: Type.String() }),
      max_score: score,
      hits: Type.Array(
        Type.Object({
          _index: Type.String(),
          _id: Type.String(),
          _version: Type.Integer(),
          _seq_no: Type.Integer(),
          _primary_term: Type.Integer(),
          _score: score,
          _source: AuditSource,
          sort: Type.Optional(Type.Array(Type.Integer())),
        }),
      ),
    }),
  },
  { $id: 'AuditSearchResponse' },
);

export const AuditExportQuery = Type.Object({
  from: Type.Optional(Type.String({ description: 'First time, epoch milliseconds or ISO 8601; default: the oldest' })),
  to: Type.Optional(Type.String({ description: 'Last time, exclusive; default: now' })),
});

/** A row as the API shows it, without its id. */
export function auditSource(row: AuditRow): Record<string, string | number> {
  const { time, principal, action, outcome } = row;
  return {
    time,
    principal,
    action,
    outcome,
    ...(row.agentId !== undefined && { agent_id: row.agentId }),
    ...(row.connectorId !== undefined && { connector_id: row.connectorId }),
    ...(row.tool !== undefined && { tool: row.tool }),
    ...(row.argumentsHash !== undefined && { arguments_hash: row.argumentsHash }),
    ...(row.durationMs !== undefined && { duration_ms: row.durationMs }),
    ...(row.bytes !== undefined && { bytes: row.bytes }),
    ...(row.detail !== undefined && { detail: row.detail }),
    ...(row.arguments !== undefined && { arguments: row.arguments }),
    ...(row.result !== undefined && { result: row.result }),
  };
}
