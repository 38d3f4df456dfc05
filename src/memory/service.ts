import { FEATURE_DISABLED, INDEX_NOT_FOUND, RESOURCE_NOT_FOUND, UNAUTHORIZED } from '../errors.ts';
import { ownerId } from '../identity/ownership.ts';
import type { Principal } from '../identity/principal.ts';
import { newId } from '../ids.ts';
import type { JsonObject } from '../json.ts';
import type { Settings } from '../settings/types.ts';
import type { WriteOutcome } from '../store/documents.ts';
import type { MemoryRow, MemoryStore, MessageRow } from '../store/memory.ts';
import type { Audit } from '../telemetry/audit.ts';
import {
  additionalInfoOf,
  memoryDocument,
  messageDocument,
  messageFields,
  nextToken,
  type PageRequest,
  pageOf,
  textOf,
} from './fields.ts';

/** Memories and messages as the API manages them. Every call is refused while the feature is switched off. */
export interface Memory {
  create(principal: Principal, body: JsonObject | undefined): Promise<{ memory_id: string }>;
  list(principal: Principal, page: PageRequest): Promise<JsonObject>;
  /** @throws RESOURCE_NOT_FOUND, UNAUTHORIZED (another user's) */
  get(principal: Principal, memoryId: string): Promise<JsonObject>;
  update(principal: Principal, memoryId: string, body: JsonObject): Promise<WriteOutcome>;
  delete(principal: Principal, memoryId: string): Promise<{ success: true }>;
  addMessage(principal: Principal, memoryId: string, body: JsonObject): Promise<{ message_id: string }>;
  messages(principal: Principal, memoryId: string, page: PageRequest): Promise<JsonObject>;
  message(principal: Principal, messageId: string): Promise<JsonObject>;
  updateMessage(principal: Principal, messageId: string, body: JsonObject): Promise<WriteOutcome>;
  traces(principal: Principal, messageId: string, page: PageRequest): Promise<JsonObject>;
}

export interface MemoryDeps {
  readonly store: MemoryStore;
  readonly settings: Pick<Settings, 'flag'>;
  readonly audit: Audit;
}

const SETTING = 'plugins.ml_commons.memory_feature_enabled';

/** @throws FEATURE_DISABLED */
export function requireMemoryFeature(settings: Pick<Settings, 'flag'>): void {
  if (settings.flag(SETTING)) return;
  throw new FEATURE_DISABLED(
    `The Conversation Memory feature is not enabled. To enable, please update the setting ${SETTING}`,
  );
}

/** The owner a new memory gets: whoever holds the one key, and everybody in open mode, owns all. */
export function ownerFor(principal: Principal): { owner?: string } {
  return OPERATORS.has(principal.kind) ? {} : { owner: ownerId(principal) };
}

const OPERATORS: ReadonlySet<Principal['kind']> = new Set(['open', 'static_key', 'system']);

/** @throws RESOURCE_NOT_FOUND, UNAUTHORIZED (another user's) */
export async function ownMemory(
  store: Pick<MemoryStore, 'get'>,
  principal: Principal,
  memoryId: string,
): Promise<MemoryRow> {
  const row = await store.get(memoryId);
  if (row === undefined) throw new RESOURCE_NOT_FOUND(`Memory [${memoryId}] not found`);
  // A memory without owner was written by the operator: it is nobody else's.
  if (!principal.access.admin && row.owner !== ownerId(principal)) {
    throw new UNAUTHORIZED(`User [${principal.name}] does not have access to memory ${memoryId}`);
  }
  return row;
}

/** The legacy conversation memory of the API (contract section 8). */
export function createMemory({ store, settings, audit }: MemoryDeps): Memory {
  async function ownMessage(principal: Principal, messageId: string): Promise<MessageRow> {
    const row = await store.message(messageId);
    if (row === undefined) throw new RESOURCE_NOT_FOUND(`Message [${messageId}] not found`);
    await ownMemory(store, principal, row.memoryId);
    return row;
  }

  const record = ({ id }: Principal, action: string, memoryId: string): Promise<void> =>
    audit.record({ principal: id, action, outcome: 'ok', detail: memoryId });

  const service: Memory = {
    async create(principal, body) {
      const name = textOf(body ?? {}, 'name');
      const applicationType = textOf(body ?? {}, 'application_type');
      const additionalInfo = additionalInfoOf(body ?? {});
      const named = name === undefined ? {} : { name };
      const rest =
        name === undefined
          ? {}
          : {
              ...(applicationType === undefined ? {} : { applicationType }),
              ...(additionalInfo === undefined ? {} : { additionalInfo }),
            };
      const row = await store.create({ id: newId(), ...named, ...rest, ...ownerFor(principal) });
      return { memory_id: row.id };
    },

    async list(principal, request) {
      const page = pageOf(request);
      const rows = await store.list(page, principal.access.admin ? undefined : ownerId(principal));
      return { memories: rows.map(memoryDocument), ...nextToken(page, rows.length) };
    },

    get: async (principal, memoryId) => memoryDocument(await ownMemory(store, principal, memoryId)),

    async update(principal, memoryId, body) {
      const name = textOf(body, 'name');
      const additionalInfo = additionalInfoOf(body);
      if (!(await store.any())) throw new INDEX_NOT_FOUND('.plugins-ml-memory-meta');
      await ownMemory(store, principal, memoryId);
      const outcome = await store.update(memoryId, {
        ...(name === undefined ? {} : { name }),
        ...(additionalInfo === undefined ? {} : { additionalInfo }),
      });
      await record(principal, 'memory.update', memoryId);
      return outcome;
    },

    async delete(principal, memoryId) {
      if (await store.any()) {
        await ownMemory(store, principal, memoryId);
        await store.delete(memoryId);
        await record(principal, 'memory.delete', memoryId);
      }
      return { success: true };
    },

    async addMessage(principal, memoryId, body) {
      const fields = messageFields(body);
      await ownMemory(store, principal, memoryId);
      const row = await store.append({ id: newId(), memoryId, ...fields });
      if (row === undefined) throw new RESOURCE_NOT_FOUND(`Memory [${memoryId}] not found`);
      return { message_id: row.id };
    },

    async messages(principal, memoryId, request) {
      const page = pageOf(request);
      if (await store.any()) await ownMemory(store, principal, memoryId);
      const rows = await store.messages(memoryId, page);
      return { messages: rows.map(messageDocument), ...nextToken(page, rows.length) };
    },

    message: async (principal, messageId) => messageDocument(await ownMessage(principal, messageId)),

    async updateMessage(principal, messageId, body) {
      const response = textOf(body, 'response');
      const additionalInfo = additionalInfoOf(body);
      if (!(await store.any())) throw new INDEX_NOT_FOUND('.plugins-ml-memory-message');
      await ownMessage(principal, messageId);
      return store.updateMessage(messageId, {
        ...(response === undefined ? {} : { response }),
        ...(additionalInfo === undefined ? {} : { additionalInfo }),
      });
    },

    async traces(principal, messageId, request) {
      const page = pageOf(request);
      if (await store.any()) await ownMessage(principal, messageId);
      const rows = await store.traces(messageId, page);
      return { traces: rows.map(messageDocument), ...nextToken(page, rows.length) };
    },
  };
  return guarded(service, settings);
}

function guarded(service: Memory, settings: Pick<Settings, 'flag'>): Memory {
  const wrap =
    <Arguments extends unknown[], Result>(call: (...values: Arguments) => Promise<Result>) =>
    async (...values: Arguments): Promise<Result> => {
      requireMemoryFeature(settings);
      return call(...values);
    };
  return {
    create: wrap(service.create),
    list: wrap(service.list),
    get: wrap(service.get),
    update: wrap(service.update),
    delete: wrap(service.delete),
    addMessage: wrap(service.addMessage),
    messages: wrap(service.messages),
    message: wrap(service.message),
    updateMessage: wrap(service.updateMessage),
    traces: wrap(service.traces),
  };
}
