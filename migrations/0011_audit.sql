-- What was sent and what came back, where the operator asked for it: capped, without secrets.
ALTER TABLE audit ADD COLUMN arguments TEXT;
ALTER TABLE audit ADD COLUMN result TEXT;

CREATE INDEX audit_by_principal ON audit (principal, time);
