import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { Memory as MemoryService } from '../../memory/service.ts';
import { jsonRef, PageQuery, ref, WriteResponse, writeResponse } from '../../schemas/common.ts';
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

/** The legacy conversation memory (contract section 8), below the prefix of the API. */
export const memoryRoutes: FastifyPluginAsyncTypebox<MemoryRoutesOptions> = async (app, { memory }) => {
  const tags = ['memory'];

  app.post(
    '/memory',
    {
      schema: { tags, response: { 200: jsonRef(CreateMemoryResponse) }, body: jsonRef(CreateMemoryRequest) },
      config: { permission: 'memory:create', emptyBody: 'allowed' },
    },
    ({ principal, body }) => memory.create(principal, body ?? undefined),
  );

  app.get(
    '/memory',
    {
      schema: { tags, querystring: PageQuery, response: { 200: jsonRef(MemoryList) } },
      config: { permission: 'memory:read' },
    },
    ({ principal, query }) => memory.list(principal, query),
  );

  app.get(
    '/memory/:memory_id',
    {
      schema: { tags, params: MemoryId, response: { 200: jsonRef(Memory) } },
      config: { permission: 'memory:read' },
    },
    ({ principal, params }) => memory.get(principal, params.memory_id),
  );

  app.put(
    '/memory/:memory_id',
    {
      schema: { tags, params: MemoryId, body: jsonRef(UpdateMemoryRequest), response: { 200: ref(WriteResponse) } },
      config: { permission: 'memory:update' },
    },
    async ({ principal, params, body }) =>
      writeResponse(MEMORY_INDEX, await memory.update(principal, params.memory_id, body)),
  );

  app.delete(
    '/memory/:memory_id',
    {
      schema: { tags, params: MemoryId, response: { 200: jsonRef(DeleteMemoryResponse) } },
      config: { permission: 'memory:delete' },
    },
    ({ principal, params }) => memory.delete(principal, params.memory_id),
  );

  app.post(
    '/memory/:memory_id/messages',
    {
      schema: {
        tags,
        params: MemoryId,
        body: jsonRef(CreateMessageRequest),
        response: { 200: jsonRef(CreateMessageResponse) },
      },
      config: { permission: 'memory:update' },
    },
    ({ principal, params, body }) => memory.addMessage(principal, params.memory_id, body),
  );

  app.get(
    '/memory/:memory_id/messages',
    {
      schema: { tags, params: MemoryId, querystring: PageQuery, response: { 200: jsonRef(MessageList) } },
      config: { permission: 'memory:read' },
    },
    ({ principal, params, query }) => memory.messages(principal, params.memory_id, query),
  );

  app.get(
    '/memory/message/:message_id',
    {
      schema: { tags, params: MessageId, response: { 200: jsonRef(Message) } },
      config: { permission: 'memory:read' },
    },
    ({ principal, params }) => memory.message(principal, params.message_id),
  );

  app.put(
    '/memory/message/:message_id',
    {
      schema: { tags, params: MessageId, body: jsonRef(UpdateMessageRequest), response: { 200: ref(WriteResponse) } },
      config: { permission: 'memory:update' },
    },
    async ({ principal, params, body }) =>
      writeResponse(MESSAGE_INDEX, await memory.updateMessage(principal, params.message_id, body)),
  );

  app.get(
    '/memory/message/:message_id/traces',
    {
      schema: { tags, params: MessageId, querystring: PageQuery, response: { 200: jsonRef(TraceList) } },
      config: { permission: 'memory:read' },
    },
    ({ principal, params, query }) => memory.traces(principal, params.message_id, query),
  );
};
