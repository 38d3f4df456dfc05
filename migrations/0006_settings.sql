CREATE TABLE settings (
  scope TEXT NOT NULL CHECK (scope IN ('persistent', 'transient')),
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  last_updated_time BIGINT NOT NULL,
  PRIMARY KEY (scope, name)
);
