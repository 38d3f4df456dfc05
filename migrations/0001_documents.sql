-- The last sequence number given out in each family of documents; it never goes back, whatever is deleted.
CREATE TABLE sequences (
  name TEXT PRIMARY KEY,
  value BIGINT NOT NULL
);

-- created_seq is the sequence number of the insert: the order of creation, also within one millisecond.
CREATE TABLE documents (
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  name TEXT,
  body TEXT NOT NULL,
  version BIGINT NOT NULL,
  seq_no BIGINT NOT NULL,
  created_seq BIGINT NOT NULL,
  created_time BIGINT NOT NULL,
  last_updated_time BIGINT NOT NULL,
  PRIMARY KEY (kind, id)
);
CREATE INDEX documents_by_seq_no ON documents (kind, seq_no);
CREATE INDEX documents_by_name ON documents (kind, name, created_seq);

-- Which document points at which other one (a model at its connector, an agent at its model and its connectors).
CREATE TABLE document_references (
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  target_kind TEXT NOT NULL,
  target_id TEXT NOT NULL,
  PRIMARY KEY (kind, id, target_kind, target_id),
  FOREIGN KEY (kind, id) REFERENCES documents (kind, id) ON DELETE CASCADE
);
CREATE INDEX document_references_by_target ON document_references (target_kind, target_id);
