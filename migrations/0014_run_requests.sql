-- The task that shows a run which goes on without its caller.
ALTER TABLE runs ADD COLUMN task_id TEXT;

-- What a run wants to know from a person before it goes on.
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
CREATE INDEX run_requests_by_task ON run_requests (task_id, seq_no);
CREATE INDEX run_requests_by_run ON run_requests (run_id);
