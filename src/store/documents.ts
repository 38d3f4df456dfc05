import type { JsonObject } from '../json.ts';

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
  readonly name?: string;
  readonly body: JsonObject;
  /** Which other documents this one points at; replaces what was recorded before. */
  readonly references?: readonly Reference[];
  /** Sealed credential of `<kind>/<id>`, written in the same transaction. Absent keeps it, `null` removes it. */
  readonly sealed?: string | null;
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
  sealedCredential(kind: DocumentKind, id: string): Promise<string | undefined>;
  count(kind: DocumentKind): Promise<number>;
}
