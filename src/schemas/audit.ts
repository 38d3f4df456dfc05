/** One external tool call, sign-in or change of a record. Never a secret, never arguments or results. */
export interface AuditEntry {
  readonly principal: string;
  readonly action: string;
  readonly outcome: string;
  readonly agentId?: string;
  readonly connectorId?: string;
  readonly tool?: string;
  /** SHA-256 of the canonical arguments, hex. */
  readonly argumentsHash?: string;
  readonly durationMs?: number;
  readonly bytes?: number;
  readonly detail?: string;
}
