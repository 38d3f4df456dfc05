-- A tool of an MCP server, registered when it is first seen; present = 0 once a later list no longer holds it.
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

-- What a tool of a connector is called towards the model of one agent; a row never changes its meaning.
CREATE TABLE offered_names (
  agent_id TEXT NOT NULL,
  offered_as TEXT NOT NULL,
  connector_id TEXT NOT NULL,
  tool TEXT NOT NULL,
  create_time BIGINT NOT NULL,
  PRIMARY KEY (agent_id, offered_as),
  UNIQUE (agent_id, connector_id, tool)
);

-- The last known state of a connection, and the way there.
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
