import type { AuditEntry } from '../schemas/audit.ts';

/** Writes one log line and, through its sink, one row. A sink that fails is logged and never fails the caller. */
export interface Audit {
  record(entry: AuditEntry): Promise<void>;
}
