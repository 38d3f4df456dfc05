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
);
CREATE INDEX audit_by_time ON audit (time, id);
CREATE INDEX audit_by_connector ON audit (connector_id, time);
