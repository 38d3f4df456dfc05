CREATE TABLE memories (
  id TEXT PRIMARY KEY,
  name TEXT,
  application_type TEXT,
  additional_info TEXT,
  owner TEXT,
  version BIGINT NOT NULL,
  seq_no BIGINT NOT NULL,
  create_time BIGINT NOT NULL,
  updated_time BIGINT NOT NULL
);
CREATE INDEX memories_by_updated_time ON memories (updated_time, seq_no);

CREATE TABLE messages (
  id TEXT PRIMARY KEY,
  memory_id TEXT NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
  seq BIGINT NOT NULL,
  parent_message_id TEXT,
  trace_number BIGINT,
  input TEXT,
  prompt_template TEXT,
  response TEXT,
  origin TEXT,
  additional_info TEXT,
  version BIGINT NOT NULL,
  create_time BIGINT NOT NULL,
  updated_time BIGINT,
  UNIQUE (memory_id, seq)
);
-- The turns of a conversation, without the traces that lie between them.
CREATE INDEX messages_without_parent ON messages (memory_id, seq) WHERE parent_message_id IS NULL;
CREATE INDEX messages_by_parent ON messages (parent_message_id, trace_number, seq);
