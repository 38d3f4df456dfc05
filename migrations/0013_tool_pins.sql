-- The definition of a tool that an agent trusts, as it was when the agent first met it or when somebody approved it. hash is
-- NULL for a tool that came later and was never trusted. seen_*: the newest other definition that was met; shown: which of
-- those each principal has looked at.
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
