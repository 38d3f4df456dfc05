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

CREATE TABLE roles (
  name TEXT PRIMARY KEY,
  body TEXT NOT NULL,
  create_time BIGINT NOT NULL,
  last_updated_time BIGINT NOT NULL
);

CREATE TABLE role_mappings (
  role TEXT PRIMARY KEY,
  users TEXT NOT NULL,
  backend_roles TEXT NOT NULL,
  description TEXT,
  last_updated_time BIGINT NOT NULL
);

-- Failed sign-ins of known users and by peer, to slow the next ones. A name nobody has is not kept: it may be a password.
CREATE TABLE sign_in_failures (
  subject TEXT PRIMARY KEY,
  failures BIGINT NOT NULL,
  last_time BIGINT NOT NULL
);
