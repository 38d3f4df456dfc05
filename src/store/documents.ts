import type { Transaction } from 'kysely';
import type { JsonObject } from '../json.ts';
import type { Database } from './database.ts';
import { prepare } from './prepared.ts';
import { createSequences } from './sequences.ts';
import type { Tables } from './tables.ts';

export type DocumentKind = 'connector' | 'model' | 'model_group' | 'agent';

export interface StoredDocument {
  readonly kind: DocumentKind;
  readonly id: string;
  readonly name: string | undefined;
  readonly body: JsonObject;
  readonly version: number;
  readonly seqNo: number;
  readonly createdTime: number;
  readonly lastUpdatedTime: number;
}

/** What a write did, for the document-write reply of the API. */
export interface WriteOutcome {
  readonly id: string;
  readonly version: number;
  readonly seqNo: number;
  readonly result: 'created' | 'updated' | 'deleted' | 'not_found' | 'noop';
}

export interface Reference {
  readonly kind: DocumentKind;
  readonly id: string;
}

export interface DocumentContent {
  /** In an update, absent keeps the name there is. */
  readonly name?: string;
  readonly body: JsonObject;
  /** Which other documents this one points at; replaces what was recorded before; absent keeps it. */
  readonly references?: readonly Reference[];
  /** Sealed credential of `<kind>/<id>`, written in the same transaction. Absent keeps it, `null` removes it. */
  readonly sealed?: string | null;
}

export interface DocumentName {
  readonly id: string;
  readonly name: string;
}

export interface Documents {
  /** @throws UniqueViolation when the id is taken. */
  insert(kind: DocumentKind, id: string, content: DocumentContent): Promise<WriteOutcome>;
  get(kind: DocumentKind, id: string): Promise<StoredDocument | undefined>;
  findByName(kind: DocumentKind, name: string): Promise<StoredDocument | undefined>;
  /**
   * Reads, changes and writes one document in one transaction. `change` is synchronous and may throw to refuse;
   * returning `undefined` leaves the row alone (`noop`).
   */
  update(
    kind: DocumentKind,
    id: string,
    change: (current: StoredDocument) => DocumentContent | undefined,
  ): Promise<WriteOutcome>;
  /** Removes the document, its references and its credential. */
  delete(kind: DocumentKind, id: string): Promise<WriteOutcome>;
  /** Ids of the documents of `kind` that point at the target, in order of creation. */
  referencing(kind: DocumentKind, target: Reference): Promise<string[]>;
  /** Name and id of the documents of `kind` that point at each of the targets, in order of creation. */
  namesReferencing(
    kind: DocumentKind,
    target: { readonly kind: DocumentKind; readonly ids: readonly string[] },
  ): Promise<ReadonlyMap<string, readonly DocumentName[]>>;
  /** Name and id of all documents of a kind, in order of creation. */
  names(kind: DocumentKind): Promise<DocumentName[]>;
  /** All documents of a kind, in order of creation. */
  list(kind: DocumentKind): Promise<StoredDocument[]>;
  sealedCredential(kind: DocumentKind, id: string): Promise<string | undefined>;
  count(kind: DocumentKind): Promise<number>;
}

/** Of more targets than these all references are read, so that a statement has a bounded number of parameters. */
const TARGETS_BY_ID = 100;

/** Connectors, models, model groups and agents: JSON documents with their references and sealed credentials. */
export function createDocuments(database: Database, { now = Date.now }: { now?: () => number } = {}): Documents {
  const { kysely } = database;
  const nextSeqNo = createSequences(database);
  const byId = prepare((p: Reference) =>
    kysely.selectFrom('documents').selectAll().where('kind', '=', p.kind).where('id', '=', p.id),
  );
  const byName = prepare((p: { kind: string; name: string }) =>
    kysely
      .selectFrom('documents')
      .selectAll()
      .where('kind', '=', p.kind)
      .where('name', '=', p.name)
      .orderBy('created_seq')
      .limit(1),
  );
  const credentialOf = prepare((p: { owner: string }) =>
    kysely.selectFrom('credentials').select('sealed').where('owner', '=', p.owner),
  );

  async function writeParts(
    transaction: Transaction<Tables>,
    kind: DocumentKind,
    id: string,
    content: DocumentContent,
  ) {
    if (content.references) {
      await transaction.deleteFrom('document_references').where('kind', '=', kind).where('id', '=', id).execute();
    }
    if (content.references?.length) {
      await transaction
        .insertInto('document_references')
        .values(content.references.map((target) => ({ kind, id, target_kind: target.kind, target_id: target.id })))
        .onConflict((conflict) => conflict.doNothing())
        .execute();
    }
    const owner = ownerOf(kind, id);
    if (content.sealed === null) {
      await transaction.deleteFrom('credentials').where('owner', '=', owner).execute();
    } else if (content.sealed !== undefined) {
      const row = { sealed: content.sealed, last_updated_time: now() };
      await transaction
        .insertInto('credentials')
        .values({ owner, ...row })
        .onConflict((conflict) => conflict.column('owner').doUpdateSet(row))
        .execute();
    }
  }

  return {
    insert(kind, id, content) {
      return database.write(async (transaction) => {
        const seqNo = await nextSeqNo(transaction, kind);
        const time = now();
        await transaction
          .insertInto('documents')
          .values({
            kind,
            id,
            name: content.name ?? null,
            body: JSON.stringify(content.body),
            version: 1,
            seq_no: seqNo,
            created_seq: seqNo,
            created_time: time,
            last_updated_time: time,
          })
          .execute();
        await writeParts(transaction, kind, id, content);
        return { id, version: 1, seqNo, result: 'created' };
      });
    },

    async get(kind, id) {
      const { rows } = await byId(kysely, { kind, id });
      return rows[0] && stored(rows[0]);
    },

    async findByName(kind, name) {
      const { rows } = await byName(kysely, { kind, name });
      return rows[0] && stored(rows[0]);
    },

    update(kind, id, change) {
      return database.write(async (transaction) => {
        const seqNo = await nextSeqNo(transaction, kind);
        const { rows } = await byId(transaction, { kind, id });
        if (!rows[0]) return { id, version: 1, seqNo, result: 'not_found' };
        const current = stored(rows[0]);
        const content = change(current);
        if (!content) return { id, version: current.version, seqNo: current.seqNo, result: 'noop' };
        const version = current.version + 1;
        await transaction
          .updateTable('documents')
          .set({
            ...(content.name !== undefined && { name: content.name }),
            body: JSON.stringify(content.body),
            version,
            seq_no: seqNo,
            last_updated_time: now(),
          })
          .where('kind', '=', kind)
          .where('id', '=', id)
          .execute();
        await writeParts(transaction, kind, id, content);
        return { id, version, seqNo, result: 'updated' };
      });
    },

    delete(kind, id) {
      return database.write(async (transaction) => {
        const seqNo = await nextSeqNo(transaction, kind);
        const removed = await transaction
          .deleteFrom('documents')
          .where('kind', '=', kind)
          .where('id', '=', id)
          .returning('version')
          .executeTakeFirst();
        if (!removed) return { id, version: 1, seqNo, result: 'not_found' };
        await transaction.deleteFrom('credentials').where('owner', '=', ownerOf(kind, id)).execute();
        return { id, version: removed.version + 1, seqNo, result: 'deleted' };
      });
    },

    async list(kind) {
      const rows = await kysely
        .selectFrom('documents')
        .selectAll()
        .where('kind', '=', kind)
        .orderBy('created_seq')
        .execute();
      return rows.map(stored);
    },
    async referencing(kind, target) {
      const rows = await kysely
        .selectFrom('document_references as reference')
        .innerJoin('documents as document', (join) =>
          join.onRef('document.kind', '=', 'reference.kind').onRef('document.id', '=', 'reference.id'),
        )
        .select('document.id')
        .where('reference.kind', '=', kind)
        .where('reference.target_kind', '=', target.kind)
        .where('reference.target_id', '=', target.id)
        .orderBy('document.created_seq')
        .execute();
      return rows.map((row) => row.id);
    },

    async namesReferencing(kind, { kind: targetKind, ids }) {
      const all = kysely
        .selectFrom('document_references as reference')
        .innerJoin('documents as document', (join) =>
          join.onRef('document.kind', '=', 'reference.kind').onRef('document.id', '=', 'reference.id'),
        )
        .select(['reference.target_id', 'document.id', 'document.name'])
        .where('reference.kind', '=', kind)
        .where('reference.target_kind', '=', targetKind);
      const wanted = ids.length > TARGETS_BY_ID ? all : all.where('reference.target_id', 'in', ids);
      const rows = ids.length === 0 ? [] : await wanted.orderBy('document.created_seq').execute();
      const names = new Map<string, DocumentName[]>(ids.map((id) => [id, []]));
      for (const { target_id: target, id, name } of rows) names.get(target)?.push({ id, name: name ?? '' });
      return names;
    },

    async names(kind) {
      const rows = await kysely
        .selectFrom('documents')
        .select(['id', 'name'])
        .where('kind', '=', kind)
        .orderBy('created_seq')
        .execute();
      return rows.map(({ id, name }) => ({ id, name: name ?? '' }));
    },

    async sealedCredential(kind, id) {
      const { rows } = await credentialOf(kysely, { owner: ownerOf(kind, id) });
      return rows[0]?.sealed;
    },

    async count(kind) {
      const row = await kysely
        .selectFrom('documents')
        .select((select) => select.fn.countAll<number>().as('count'))
        .where('kind', '=', kind)
        .executeTakeFirstOrThrow();
      return row.count;
    },
  };
}

function ownerOf(kind: DocumentKind, id: string): string {
  return `${kind}/${id}`;
}

function stored(row: Tables['documents']): StoredDocument {
  return {
    kind: row.kind as DocumentKind,
    id: row.id,
    name: row.name ?? undefined,
    body: JSON.parse(row.body) as JsonObject,
    version: row.version,
    seqNo: row.seq_no,
    createdTime: row.created_time,
    lastUpdatedTime: row.last_updated_time,
  };
}
