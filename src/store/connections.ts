import type { JsonObject } from '../json.ts';

export interface ConnectionStateRow {
  readonly connectorId: string;
  readonly status: string;
  readonly body: JsonObject;
  readonly since: number;
}

export interface ConnectionTransition {
  readonly from: string;
  readonly to: string;
  readonly cause: string;
  readonly code?: string;
  readonly message?: string;
  readonly time: number;
}

export interface ConnectionStore {
  /** Writes the state and, when the status changed, its transition, in one transaction. */
  save(state: ConnectionStateRow, transition?: ConnectionTransition): Promise<void>;
  state(connectorId: string): Promise<ConnectionStateRow | undefined>;
  states(): Promise<ConnectionStateRow[]>;
  /** Newest first. */
  history(connectorId: string, limit: number): Promise<ConnectionTransition[]>;
  deleteOf(connectorId: string): Promise<void>;
}
