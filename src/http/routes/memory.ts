import type { FastifyPluginAsync } from 'fastify';
import { type Static, Type } from 'typebox';
import type { JsonObject } from '../../json.ts';
import type { Memory as MemoryService } from '../../memory/service.ts';
import { PageQuery, ref, WriteResponse, writeResponse } from '../../schemas/common.ts';
import {
  CreateMemoryRequest,
  CreateMemoryResponse,
  CreateMessageRequest,
  CreateMessageResponse,
  DeleteMemoryResponse,
  Memory,
  MemoryList,
  Message,
  MessageList,
  TraceList,
  UpdateMemoryRequest,
  UpdateMessageRequest,
} from '../../schemas/memory.ts';

export interface MemoryRoutesOptions {
  readonly memory: MemoryService;
}

const MEMORY_INDEX = '.plugins-ml-memory-meta';
const MESSAGE_INDEX = '.plugins-ml-memory-message';
const MemoryId = Type.Object({ memory_id: Type.String() });
const MessageId = Type.Object({ message_id: Type.String() });
type Body = { Body: JsonObject };
type Pages = { Querystring: Static<typeof PageQuery> };
type OfMemory = { Params: Static<typeof MemoryId> };
type OfMessage = { Params: Static<typeof MessageId> };

/** The legacy conversation memory (contract section 8), below the prefix of the API. */
export const memoryRoutes: FastifyPluginAsync<MemoryRoutesOptions> = async (app, { memory }) => {
  const tags = ['memory'];

  app.post<{ Body: JsonObject | undefined }>(
    '/memory',
    {
      schema: { tags, response: { 200: ref(CreateMemoryResponse) }, body: ref(CreateMemoryRequest) },
      config: { permission: 'memory:create', emptyBody: 'allowed' },
    },
    ({ principal, body }) => memory.create(principal, body ?? undefined),
  );

  app.get<Pages>(
    '/memory',
    {
      schema: { tags, querystring: PageQuery, response: { 200: ref(MemoryList) } },
      config: { permission: 'memory:read' },
    },
    ({ principal, query }) => memory.list(principal, query),
  );

  app.get<OfMemory>(
    '/memory/:memory_id',
    {
      schema: { tags, params: MemoryId, response: { 200: ref(Memory) } },
      config: { permission: 'memory:read' },
    },
    ({ principal, params }) => memory.get(principal, params.memory_id),
  );

  app.put<OfMemory & Body>(
    '/memory/:memory_id',
    {
      schema: { tags, params: MemoryId, body: ref(UpdateMemoryRequest), response: { 200: ref(WriteResponse) } },
      config: { permission: 'memory:update' },
    },
    async ({ principal, params, body }) =>
      writeResponse(MEMORY_INDEX, await memory.update(principal, params.memory_id, body)),
  );

  app.delete<OfMemory>(
    '/memory/:memory_id',
    {
      schema: { tags, params: MemoryId, response: { 200: ref(DeleteMemoryResponse) } },
      config: { permission: 'memory:delete' },
    },
    ({ principal, params }) => memory.delete(principal, params.memory_id),
  );

  app.post<OfMemory & Body>(
    '/memory/:memory_id/messages',
    {
      schema: {
        tags,
        params: MemoryId,
        body: ref(CreateMessageRequest),
        response: { 200: ref(CreateMessageResponse) },
      },
      config: { permission: 'memory:update' },
    },
    ({ principal, params, body }) => memory.addMessage(principal, params.memory_id, body),
  );

  app.get<OfMemory & Pages>(
    '/memory/:memory_id/messages',
    {
      schema: { tags, params: MemoryId, querystring: PageQuery, response: { 200: ref(MessageList) } },
      config: { permission: 'memory:read' },
    },
    ({ principal, params, query }) => memory.messages(principal, params.memory_id, query),
  );

  app.get<OfMessage>(
    '/memory/message/:message_id',
    {
      schema: { tags, params: MessageId, response: { 200: ref(Message) } },
      config: { permission: 'memory:read' },
    },
    ({ principal, params }) => memory.message(principal, params.message_id),
  );

  app.put<OfMessage & Body>(
    '/memory/message/:message_id',
    {
      schema: { tags, params: MessageId, body: ref(UpdateMessageRequest), response: { 200: ref(WriteResponse) } },
      config: { permission: 'memory:update' },
    },
    async ({ principal, params, body }) =>
      writeResponse(MESSAGE_INDEX, await memory.updateMessage(principal, params.message_id, body)),
  );

  app.get<OfMessage & Pages>(
    '/memory/message/:message_id/traces',
    {
      schema: { tags, params: MessageId, querystring: PageQuery, response: { 200: ref(TraceList) } },
      config: { permission: 'memory:read' },
    },
    ({ principal, params, query }) => memory.traces(principal, params.message_id, query),
  );
};
