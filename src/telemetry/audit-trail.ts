import type { Static } from 'typebox';
import type { JsonObject } from '../json.ts';
import { type AuditQuery, type AuditRow, type AuditSearchResponse, auditSource } from '../schemas/audit.ts';
import { readAuditSearch, readTime } from './audit-query.ts';

export interface AuditTrailDeps {
  readonly store: {
    search(query: AuditQuery): Promise<{ total: number; rows: AuditRow[] }>;
    page(
      range: { from: number; to: number },
      after: { time: number; id: string } | undefined,
      limit: number,
    ): Promise<AuditRow[]>;
  };
  /** Epoch milliseconds. */
  readonly now: () => number;
}

/** What was recorded, for those who may read it. */
export interface AuditTrail {
  /** @throws INVALID_ARGUMENT naming the clause that is not served */
  search(body: JsonObject): Promise<Static<typeof AuditSearchResponse>>;
  /** JSON lines, oldest first, read page by page as they are taken. @throws INVALID_ARGUMENT */
  lines(range: { from?: string | undefined; to?: string | undefined }): AsyncGenerator<string, void, undefined>;
}

const INDEX = '.tenon-audit';
const PAGE = 500;

export function createAuditTrail({ store, now }: AuditTrailDeps): AuditTrail {
  async function* read(range: { from: number; to: number }): AsyncGenerator<string, void, undefined> {
    let after: AuditRow | undefined;
    for (;;) {
      const rows = await store.page(range, after, PAGE);
      if (rows.length > 0) yield rows.map((row) => `${JSON.stringify({ id: row.id, ...auditSource(row) })}\n`).join('');
      after = rows.at(-1);
      if (rows.length < PAGE) return;
    }
  }

  return {
    async search(body) {
      const began = now();
      const { score, ...query } = readAuditSearch(body);
      const { total, rows } = await store.search(query);
      const hits = rows.map((row) => ({
        _index: INDEX,
        _id: row.id,
        _version: 1,
        _seq_no: 0,
        _primary_term: 1,
        _score: score,
        _source: auditSource(row) as Static<typeof AuditSearchResponse>['hits']['hits'][number]['_source'],
        ...(score === null && { sort: [row.time] }),
      }));
      return {
        took: now() - began,
        timed_out: false,
        _shards: { total: 1, successful: 1, skipped: 0, failed: 0 },
        hits: {
          total: { value: total, relation: 'eq' },
          max_score: hits.length === 0 ? null : score,
          hits,
        },
      };
    },
    lines({ from, to }) {
      return read({
        from: from === undefined ? 0 : readTime(from, 'from'),
        to: to === undefined ? now() + 1 : readTime(to, 'to'),
      });
    },
  };
}
