CREATE TABLE api_keys (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  -- SHA-256 of the secret part, hex; the key itself is shown once.
  secret_hash TEXT NOT NULL,
  owner TEXT NOT NULL,
  owner_name TEXT NOT NULL,
  -- Of the owner when the key was made; in force only for owners that are no users of this store.
  backend_roles TEXT NOT NULL,
  -- Names of roles that narrow those of the owner; NULL does not narrow.
  roles TEXT,
  -- Permission patterns that narrow the roles; NULL does not narrow.
  scope TEXT,
  expires_time BIGINT,
  revoked_time BIGINT,
  last_used_time BIGINT,
  create_time BIGINT NOT NULL
);

CREATE INDEX api_keys_by_owner ON api_keys (owner, create_time);

CREATE TABLE audit (
  id TEXT PRIMARY KEY,
  time BIGINT NOT NULL,
  principal TEXT NOT NULL,
  action TEXT NOT NULL,
  outcome TEXT NOT NULL,
  agent_id TEXT,
  connector_id TEXT,
  tool TEXT,
  arguments_hash TEXT,
  duration_ms BIGINT,
  bytes BIGINT,
  detail TEXT
, arguments TEXT, result TEXT);

CREATE INDEX audit_by_connector ON audit (connector_id, time);

CREATE INDEX audit_by_principal ON audit (principal, time);

CREATE INDEX audit_by_time ON audit (time, id);

CREATE TABLE connection_states (
  connector_id TEXT PRIMARY KEY,
  status TEXT NOT NULL,
  body TEXT NOT NULL,
  since BIGINT NOT NULL
);

CREATE TABLE connection_transitions (
  id TEXT PRIMARY KEY,
  connector_id TEXT NOT NULL,
  from_status TEXT NOT NULL,
  to_status TEXT NOT NULL,
  cause TEXT NOT NULL,
  code TEXT,
  message TEXT,
  time BIGINT NOT NULL
);

CREATE INDEX connection_transitions_by_connector ON connection_transitions (connector_id, time, id);

CREATE TABLE credentials (
  owner TEXT PRIMARY KEY,
  sealed TEXT NOT NULL,
  last_updated_time BIGINT NOT NULL
);

CREATE TABLE document_references (
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  target_kind TEXT NOT NULL,
  target_id TEXT NOT NULL,
  PRIMARY KEY (kind, id, target_kind, target_id),
  FOREIGN KEY (kind, id) REFERENCES documents (kind, id) ON DELETE CASCADE
);

CREATE INDEX document_references_by_target ON document_references (target_kind, target_id);

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

CREATE INDEX documents_by_name ON documents (kind, name, created_seq);

CREATE INDEX documents_by_seq_no ON documents (kind, seq_no);

CREATE TABLE master_keys (
  key_id TEXT PRIMARY KEY,
  probe TEXT NOT NULL,
  created_time BIGINT NOT NULL
);

CREATE TABLE mcp_tools (
  connector_id TEXT NOT NULL,
  name TEXT NOT NULL,
  definition TEXT NOT NULL,
  hash TEXT NOT NULL,
  position BIGINT NOT NULL,
  present SMALLINT NOT NULL CHECK (present IN (0, 1)),
  first_seen_time BIGINT NOT NULL,
  last_seen_time BIGINT NOT NULL,
  PRIMARY KEY (connector_id, name)
);

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

CREATE INDEX memories_by_owner ON memories (owner, updated_time, seq_no);

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

CREATE INDEX messages_by_parent ON messages (parent_message_id, trace_number, seq);

CREATE INDEX messages_without_parent ON messages (memory_id, seq) WHERE parent_message_id IS NULL;

CREATE TABLE offered_names (
  agent_id TEXT NOT NULL,
  offered_as TEXT NOT NULL,
  connector_id TEXT NOT NULL,
  tool TEXT NOT NULL,
  create_time BIGINT NOT NULL,
  PRIMARY KEY (agent_id, offered_as),
  UNIQUE (agent_id, connector_id, tool)
);

CREATE TABLE processes (
  id TEXT PRIMARY KEY,
  seen_time BIGINT NOT NULL
);

CREATE TABLE role_mappings (
  role TEXT PRIMARY KEY,
  users TEXT NOT NULL,
  backend_roles TEXT NOT NULL,
  description TEXT,
  last_updated_time BIGINT NOT NULL
);

CREATE TABLE roles (
  name TEXT PRIMARY KEY,
  body TEXT NOT NULL,
  create_time BIGINT NOT NULL,
  last_updated_time BIGINT NOT NULL
);

CREATE TABLE run_requests (
  id TEXT PRIMARY KEY,
  run_id TEXT NOT NULL,
  task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
  owner TEXT NOT NULL,
  kind TEXT NOT NULL,
  body TEXT NOT NULL,
  state TEXT NOT NULL,
  answer TEXT,
  answered_by TEXT,
  create_time BIGINT NOT NULL,
  expires_time BIGINT NOT NULL,
  answer_time BIGINT,
  seq_no BIGINT NOT NULL
);

CREATE INDEX run_requests_by_run ON run_requests (run_id);

CREATE INDEX run_requests_by_task ON run_requests (task_id, seq_no);

CREATE TABLE run_steps (
  run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  seq BIGINT NOT NULL,
  kind TEXT NOT NULL,
  body TEXT NOT NULL,
  create_time BIGINT NOT NULL,
  PRIMARY KEY (run_id, seq)
);

CREATE TABLE runs (
  id TEXT PRIMARY KEY,
  agent_id TEXT NOT NULL,
  memory_id TEXT,
  message_id TEXT,
  principal TEXT NOT NULL,
  state TEXT NOT NULL,
  request TEXT NOT NULL,
  create_time BIGINT NOT NULL,
  last_update_time BIGINT NOT NULL
, process_id TEXT, task_id TEXT);

CREATE INDEX runs_by_agent ON runs (agent_id, create_time);

CREATE INDEX runs_by_state ON runs (state, create_time);

CREATE TABLE schema_checksums (name text primary key, checksum text not null, breaking smallint not null);

CREATE TABLE "schema_migrations" ("name" varchar(255) not null primary key, "timestamp" varchar(255) not null);

CREATE TABLE "schema_migrations_lock" ("id" varchar(255) not null primary key, "is_locked" integer default 0 not null);

CREATE TABLE sequences (
  name TEXT PRIMARY KEY,
  value BIGINT NOT NULL
);

CREATE TABLE settings (
  scope TEXT NOT NULL CHECK (scope IN ('persistent', 'transient')),
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  last_updated_time BIGINT NOT NULL,
  PRIMARY KEY (scope, name)
);

CREATE TABLE sign_in_failures (
  subject TEXT PRIMARY KEY,
  failures BIGINT NOT NULL,
  last_time BIGINT NOT NULL
);

CREATE TABLE tasks (
  id TEXT PRIMARY KEY,
  task_type TEXT NOT NULL,
  state TEXT NOT NULL,
  body TEXT NOT NULL,
  version BIGINT NOT NULL,
  seq_no BIGINT NOT NULL,
  lease_owner TEXT,
  lease_expires_at BIGINT,
  attempts BIGINT NOT NULL DEFAULT 0,
  run_at BIGINT,
  create_time BIGINT NOT NULL,
  last_update_time BIGINT NOT NULL
, owner TEXT);

CREATE INDEX tasks_by_state ON tasks (state, run_at);

CREATE TABLE tool_pins (
  agent_id TEXT NOT NULL,
  connector_id TEXT NOT NULL,
  tool TEXT NOT NULL,
  hash TEXT,
  definition TEXT,
  pinned_time BIGINT,
  approved_by TEXT,
  approved_time BIGINT,
  seen_hash TEXT,
  seen_definition TEXT,
  seen_time BIGINT,
  shown TEXT,
  PRIMARY KEY (agent_id, connector_id, tool)
);

CREATE TABLE users (
  name TEXT PRIMARY KEY,
  -- scrypt, with its parameters and salt; never the password.
  password_hash TEXT NOT NULL,
  backend_roles TEXT NOT NULL,
  -- Roles the user has directly, beside those that mappings give.
  roles TEXT NOT NULL,
  attributes TEXT NOT NULL,
  description TEXT,
  disabled SMALLINT NOT NULL DEFAULT 0 CHECK (disabled IN (0, 1)),
  create_time BIGINT NOT NULL,
  last_updated_time BIGINT NOT NULL
);
