import { type Expression, type ExpressionBuilder, type SqlBool, sql } from 'kysely';
import type { AuditBound, AuditFilter } from '../schemas/audit.ts';
import type { Tables } from './tables.ts';

const OPERATORS: Readonly<Record<AuditBound, '>' | '>=' | '<' | '<='>> = { gt: '>', gte: '>=', lt: '<', lte: '<=' };

/**
 * A filter as a condition with bound values. A column without a value fails its clause and is never unknown, so that
 * `not` means the same on every engine as it does in a search engine.
 */
export function auditCondition(build: ExpressionBuilder<Tables, 'audit'>, filter: AuditFilter): Expression<SqlBool> {
  switch (filter.kind) {
    case 'all':
      return sql<SqlBool>`1 = 1`;
    case 'in':
      if (filter.values.length === 0) return sql<SqlBool>`1 = 0`;
      return build.and([build(filter.field, 'is not', null), build(filter.field, 'in', [...filter.values])]);
    case 'range':
      return build.and([
        build(filter.field, 'is not', null),
        ...filter.bounds.map(([bound, value]) => build(filter.field, OPERATORS[bound], value)),
      ]);
    case 'exists':
      return build(filter.field, 'is not', null);
    case 'and':
    case 'or': {
      const conditions = filter.filters.map((inner) => auditCondition(build, inner));
      return filter.kind === 'and' ? build.and(conditions) : build.or(conditions);
    }
    case 'not':
      return build.not(auditCondition(build, filter.filter));
  }
}
