import type { JsonObject } from '../json.ts';

export type RunState = 'running' | 'completed' | 'failed';

export interface RunRow {
  readonly id: string;
  readonly agentId: string;
  readonly memoryId: string | undefined;
  readonly messageId: string | undefined;
  readonly principal: string;
  readonly state: RunState;
  readonly request: JsonObject;
  readonly createTime: number;
  readonly lastUpdateTime: number;
}

export interface RunStepRow {
  readonly seq: number;
  readonly kind: string;
  readonly body: JsonObject;
  readonly createTime: number;
}

export interface RunStore {
  insert(run: {
    id: string;
    agentId: string;
    memoryId?: string;
    messageId?: string;
    principal: string;
    request: JsonObject;
  }): Promise<void>;
  get(id: string): Promise<RunRow | undefined>;
  /** Appends step `seq`; a `seq` that is taken throws UniqueViolation (two processes must not drive one run). */
  append(
    runId: string,
    step: { seq: number; kind: string; body: JsonObject },
    options: { durable: boolean },
  ): Promise<void>;
  steps(runId: string): Promise<RunStepRow[]>;
  setState(runId: string, state: RunState): Promise<void>;
  ofAgent(agentId: string, limit: number): Promise<RunRow[]>;
}
