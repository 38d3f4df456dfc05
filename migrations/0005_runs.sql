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
);
CREATE INDEX runs_by_agent ON runs (agent_id, create_time);
CREATE INDEX runs_by_state ON runs (state, create_time);

CREATE TABLE run_steps (
  run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  seq BIGINT NOT NULL,
  kind TEXT NOT NULL,
  body TEXT NOT NULL,
  create_time BIGINT NOT NULL,
  PRIMARY KEY (run_id, seq)
);
