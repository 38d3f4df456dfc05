-- Whose task it is: only its owner and administrators see it. NULL: from before there were users.
ALTER TABLE tasks ADD COLUMN owner TEXT;

CREATE INDEX memories_by_owner ON memories (owner, updated_time, seq_no);
