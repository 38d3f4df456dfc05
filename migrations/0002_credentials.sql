-- owner is '<kind>/<id>' of the document that holds the connector: 'connector/x', or 'model/x' for an inline connector.
CREATE TABLE credentials (
  owner TEXT PRIMARY KEY,
  sealed TEXT NOT NULL,
  last_updated_time BIGINT NOT NULL
);

-- One row for each master key that has been used: a sealed known text shows whether the key at hand is that key.
CREATE TABLE master_keys (
  key_id TEXT PRIMARY KEY,
  probe TEXT NOT NULL,
  created_time BIGINT NOT NULL
);
