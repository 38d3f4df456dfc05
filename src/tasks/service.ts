import { TASK_NOT_FOUND, TASK_RUNNING } from '../errors.ts';
import { ownerId } from '../identity/ownership.ts';
import type { Principal } from '../identity/principal.ts';
import { newId } from '../ids.ts';
import { isJsonObject, type JsonObject } from '../json.ts';
import type { Unit } from '../store/database.ts';
import type { WriteOutcome } from '../store/documents.ts';
import type { TaskRow, TaskStore } from '../store/tasks.ts';
import type { Audit } from '../telemetry/audit.ts';

type TaskType = 'REGISTER_MODEL' | 'DEPLOY_MODEL' | 'AGENT_EXECUTION';

type TaskState =
  | 'CREATED'
  | 'RUNNING'
  | 'COMPLETED'
  | 'FAILED'
  | 'CANCELLED'
  | 'COMPLETED_WITH_ERROR'
  | 'CANCELLING'
  | 'EXPIRED'
  | 'UNREACHABLE';

/** What a task record shows beside its type, state and times. Absent members stay absent. */
interface TaskFacts {
  readonly functionName?: string;
  readonly modelId?: string;
  readonly workerNodes?: readonly string[];
  readonly response?: JsonObject;
  readonly error?: string;
}

interface NewTask extends TaskFacts {
  readonly type: TaskType;
  readonly state: TaskState;
  /** Whose task it is, as `ownerId` says. */
  readonly owner?: string;
  /** Someone polls it; default false. */
  readonly isAsync?: boolean;
}

/** What the runs that tasks show want to know from people. */
export interface TaskRequests {
  ofTask(taskId: string, options?: { openOnly?: boolean }): Promise<JsonObject[]>;
  answer(principal: Principal, taskId: string, requestId: string, body: JsonObject): Promise<JsonObject>;
}

export interface Tasks {
  /** Records a task; answers its id. `within`: the transaction it is part of. */
  create(task: NewTask, within?: Unit): Promise<string>;
  /** Moves a task to a final state and adds what is known then. @throws TASK_NOT_FOUND */
  complete(id: string, state: TaskState, facts?: TaskFacts, within?: Unit): Promise<void>;
  /** The document of `GET /tasks/{id}`, with what its run waits for. @throws TASK_NOT_FOUND */
  get(principal: Principal, id: string): Promise<JsonObject>;
  /** All requests of the run, in the order they were made. @throws TASK_NOT_FOUND */
  requests(principal: Principal, id: string): Promise<JsonObject[]>;
  /** Answers one; answers it as it is then. @throws TASK_NOT_FOUND, NOT_FOUND, INVALID_ARGUMENT, CONFLICT */
  answer(principal: Principal, id: string, requestId: string, body: JsonObject): Promise<JsonObject>;
  /** @throws TASK_NOT_FOUND, TASK_RUNNING */
  delete(principal: Principal, id: string): Promise<WriteOutcome>;
}

export interface TasksDeps {
  readonly store: TaskStore;
  readonly requests: TaskRequests;
  readonly audit: Audit;
}

/** Records of what was asked to be done: one document per request, read by polling. */
export function createTasks({ store, requests, audit }: TasksDeps): Tasks {
  // Another's task is answered as if it did not exist: the API documents no refusal here, and which ids there are would
  // tell what others do.
  async function load(principal: Principal, id: string): Promise<TaskRow> {
    const row = await store.get(id);
    if (row === undefined || !(principal.access.admin || row.owner === ownerId(principal))) throw new TASK_NOT_FOUND();
    return row;
  }

  return {
    async create({ type, state, isAsync, owner, ...facts }, within) {
      const body = { ...members(facts), is_async: isAsync ?? false };
      const owned = owner === undefined ? {} : { owner };
      const row = await store.insert({ id: newId(), taskType: type, state, body, ...owned }, joining(within));
      return row.id;
    },
    async complete(id, state, facts = {}, within) {
      const change = ({ body }: TaskRow) => ({ state, body: { ...body, ...members(facts) } });
      const row = await store.update(id, change, joining(within));
      if (row === undefined) throw new TASK_NOT_FOUND();
    },
    async get(principal, id) {
      const { taskType, state, body, createTime, lastUpdateTime } = await load(principal, id);
      const waiting = state === 'RUNNING' && taskType === 'AGENT_EXECUTION';
      const pending = waiting ? await requests.ofTask(id, { openOnly: true }) : [];
      const response = isJsonObject(body.response) ? body.response : {};
      const shown = pending.length === 0 ? {} : { response: { ...response, pending_requests: pending } };
      return {
        ...body,
        ...shown,
        task_type: taskType,
        state,
        create_time: createTime,
        last_update_time: lastUpdateTime,
      };
    },
    async requests(principal, id) {
      await load(principal, id);
      return requests.ofTask(id);
    },
    async answer(principal, id, requestId, body) {
      await load(principal, id);
      return requests.answer(principal, id, requestId, body);
    },
    async delete(principal, id) {
      const { state } = await load(principal, id);
      if (state === 'RUNNING') throw new TASK_RUNNING();
      const outcome = await store.delete(id);
      await audit.record({ principal: principal.id, action: 'task.delete', outcome: 'ok', detail: id });
      return outcome;
    },
  };
}

function joining(within: Unit | undefined): { within?: Unit } {
  return within === undefined ? {} : { within };
}

function members({ functionName, modelId, workerNodes, response, error }: TaskFacts): JsonObject {
  return {
    ...(modelId === undefined ? {} : { model_id: modelId }),
    ...(functionName === undefined ? {} : { function_name: functionName }),
    ...(workerNodes === undefined ? {} : { worker_node: [...workerNodes] }),
    ...(response === undefined ? {} : { response }),
    ...(error === undefined ? {} : { error }),
  };
}
