CREATE TABLE processes (
  id TEXT PRIMARY KEY,
  seen_time BIGINT NOT NULL
);

-- The process that drives the run; its row in processes says whether it lives.
ALTER TABLE runs ADD COLUMN process_id TEXT;
