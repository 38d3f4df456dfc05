import type { WriteOutcome } from './documents.ts';

export interface MemoryRow {
  readonly id: string;
  readonly name: string | undefined;
  readonly applicationType: string | undefined;
  /** JSON text. */
  readonly additionalInfo: string | undefined;
  readonly owner: string | undefined;
  readonly createTime: number;
  readonly updatedTime: number;
}

export interface MessageFields {
  readonly input?: string;
  readonly promptTemplate?: string;
  readonly response?: string;
  readonly origin?: string;
  /** JSON text. */
  readonly additionalInfo?: string;
  readonly parentMessageId?: string;
  readonly traceNumber?: number;
}

export interface MessageRow extends MessageFields {
  readonly id: string;
  readonly memoryId: string;
  /** Order inside the memory: 1, 2, … Newest-N is by this number, never by time. */
  readonly seq: number;
  readonly createTime: number;
  readonly updatedTime: number | undefined;
}

export interface Page {
  readonly limit: number;
  readonly offset: number;
}

export interface MemoryStore {
  create(memory: {
    id: string;
    name?: string;
    applicationType?: string;
    additionalInfo?: string;
    owner?: string;
  }): Promise<MemoryRow>;
  get(id: string): Promise<MemoryRow | undefined>;
  /** Newest `updatedTime` first. */
  list(page: Page): Promise<MemoryRow[]>;
  update(id: string, change: { name?: string; additionalInfo?: string }): Promise<WriteOutcome>;
  /** Deletes the messages too. `false` when there was none. */
  delete(id: string): Promise<boolean>;
  any(): Promise<boolean>;
  /** Gives the message the next `seq` and touches the memory's `updatedTime`. `undefined`: no such memory. */
  append(message: MessageFields & { id: string; memoryId: string }): Promise<MessageRow | undefined>;
  message(id: string): Promise<MessageRow | undefined>;
  updateMessage(id: string, change: { response?: string; additionalInfo?: string }): Promise<WriteOutcome>;
  /** Oldest first, without traces (rows with a parent). */
  messages(memoryId: string, page: Page): Promise<MessageRow[]>;
  /** By `traceNumber`. */
  traces(parentMessageId: string, page: Page): Promise<MessageRow[]>;
  /** The newest `limit` messages without parent whose response is not empty, oldest first. */
  latestFinished(memoryId: string, limit: number): Promise<MessageRow[]>;
}
