import type { JsonObject } from '../json.ts';
import type { WriteOutcome } from './documents.ts';

export interface TaskRow {
  readonly id: string;
  readonly taskType: string;
  readonly state: string;
  /** Members of the API document beside type, state and times. */
  readonly body: JsonObject;
  readonly createTime: number;
  readonly lastUpdateTime: number;
}

export interface TaskStore {
  insert(task: { id: string; taskType: string; state: string; body: JsonObject }): Promise<TaskRow>;
  get(id: string): Promise<TaskRow | undefined>;
  update(id: string, change: (current: TaskRow) => { state?: string; body?: JsonObject }): Promise<TaskRow | undefined>;
  delete(id: string): Promise<WriteOutcome>;
}
