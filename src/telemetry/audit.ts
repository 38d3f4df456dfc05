import type { AuditEntry } from '../schemas/audit.ts';
import type { Logger } from './logger.ts';
import type { Redactor } from './redactor.ts';

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
  /** Cuts secrets from the texts of a row. */
  readonly redactor?: Pick<Redactor, 'clean'>;
}

/** Characters of arguments and of a result that are kept. */
const KEPT = 16_384;

/**
 * The audit trail: entries about a connector have `MCP` in their line when they are about a tool. Arguments and results
 * are never logged, and are cut to 16,384 characters in their row.
 */
export function createAudit({ log, sink, redactor = { clean: (text) => text } }: AuditDeps): Audit {
  const clean = (name: 'tool' | 'detail' | 'arguments' | 'result', text: string | undefined, limit = KEPT) =>
    text === undefined ? {} : { [name]: cut(redactor.clean(text.slice(0, 2 * limit)), limit) };

  return {
    async record(entry) {
      const { action, outcome, arguments: sent, result, ...facts } = entry;
      const subject = entry.tool === undefined ? 'audit' : 'MCP audit';
      log.info({ action, outcome, ...facts }, `${subject}: ${action} ${outcome}`);
      const row = {
        ...facts,
        action,
        outcome,
        ...clean('tool', entry.tool),
        ...clean('detail', entry.detail),
        ...clean('arguments', sent),
        ...clean('result', result),
      };
      const stored = sink.insert(row).catch((error: unknown) => {
        log.error({ err: error, action, outcome }, `audit row of ${action} was not stored`);
      });
      if (entry.tool === undefined) await stored;
    },
  };
}

function cut(text: string, limit: number): string {
  return text.length <= limit ? text : `${text.slice(0, limit - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}
