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
);
CREATE INDEX tasks_by_state ON tasks (state, run_at);
