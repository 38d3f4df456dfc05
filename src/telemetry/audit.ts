import type { AuditEntry } from '../schemas/audit.ts';
import type { Logger } from './logger.ts';

/** Writes one log line and, through its sink, one row. A sink that fails is logged and never fails the caller. */
export interface Audit {
  /**
   * Answers when the row is stored; for a call of a tool as soon as it is on its way, so that it is committed together
   * with what its caller writes about the call.
   */
  record(entry: AuditEntry): Promise<void>;
}

export interface AuditDeps {
  readonly log: Logger;
  readonly sink: { insert(entry: AuditEntry): Promise<void> };
}

/** The audit trail: entries about a connector have `MCP` in their line when they are about a tool. */
export function createAudit({ log, sink }: AuditDeps): Audit {
  return {
    async record(entry) {
      const { action, outcome, ...facts } = entry;
      const subject = entry.tool === undefined ? 'audit' : 'MCP audit';
      log.info({ action, outcome, ...facts }, `${subject}: ${action} ${outcome}`);
      const stored = sink.insert(entry).catch((error: unknown) => {
        log.error({ err: error, action, outcome }, `audit row of ${action} was not stored`);
      });
      if (entry.tool === undefined) await stored;
    },
  };
}
