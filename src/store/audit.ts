import type { AuditEntry } from '../schemas/audit.ts';

export interface AuditStore {
  insert(entry: AuditEntry): Promise<void>;
  /** Newest first. */
  list(limit: number): Promise<(AuditEntry & { id: string; time: number })[]>;
}
