import { Type } from 'typebox';

const AdditionalInfo = Type.Optional(Type.Unknown({ description: 'An object, kept and returned as it is.' }));
const text = () => Type.Optional(Type.Unsafe<unknown>({ type: ['string', 'null'] }));

/** The body may be absent. */
export const CreateMemoryRequest = Type.Unsafe<unknown>({
  $id: 'CreateMemoryRequest',
  type: ['object', 'null'],
  properties: { name: text(), application_type: text(), additional_info: Type.Unknown() },
});

export const UpdateMemoryRequest = Type.Object(
  { name: text(), additional_info: AdditionalInfo },
  { $id: 'UpdateMemoryRequest', additionalProperties: true },
);

export const CreateMemoryResponse = Type.Object({ memory_id: Type.String() }, { $id: 'CreateMemoryResponse' });

export const Memory = Type.Object(
  {
    memory_id: Type.String(),
    create_time: Type.String({ description: 'ISO-8601 instant.' }),
    updated_time: Type.String({ description: 'ISO-8601 instant.' }),
    name: Type.Optional(Type.String()),
    user: Type.Optional(Type.String()),
    additional_info: AdditionalInfo,
  },
  { $id: 'Memory' },
);

const NextToken = Type.Optional(Type.Integer({ description: 'Offset of the next page; absent after a short page.' }));

export const MemoryList = Type.Object({ memories: Type.Array(Memory), next_token: NextToken }, { $id: 'MemoryList' });

export const DeleteMemoryResponse = Type.Object({ success: Type.Boolean() }, { $id: 'DeleteMemoryResponse' });

export const CreateMessageRequest = Type.Object(
  {
    input: text(),
    prompt_template: text(),
    response: text(),
    origin: text(),
    additional_info: AdditionalInfo,
    parent_message_id: text(),
    trace_number: Type.Optional(Type.Unsafe<unknown>({ type: ['integer', 'null'] })),
  },
  { $id: 'CreateMessageRequest', additionalProperties: true },
);

export const UpdateMessageRequest = Type.Object(
  { response: text(), additional_info: AdditionalInfo },
  { $id: 'UpdateMessageRequest', additionalProperties: true },
);

export const CreateMessageResponse = Type.Object({ message_id: Type.String() }, { $id: 'CreateMessageResponse' });

export const Message = Type.Object(
  {
    memory_id: Type.String(),
    message_id: Type.String(),
    create_time: Type.String({ description: 'ISO-8601 instant.' }),
    updated_time: Type.Optional(Type.String({ description: 'ISO-8601 instant of the last change, if there was one.' })),
    input: Type.Optional(Type.String()),
    prompt_template: Type.Optional(Type.String()),
    response: Type.Optional(Type.String()),
    origin: Type.Optional(Type.String()),
    additional_info: AdditionalInfo,
    parent_message_id: Type.Optional(Type.String()),
    trace_number: Type.Optional(Type.Integer()),
  },
  { $id: 'Message' },
);

export const MessageList = Type.Object(
  { messages: Type.Array(Message), next_token: NextToken },
  { $id: 'MessageList' },
);

export const TraceList = Type.Object({ traces: Type.Array(Message), next_token: NextToken }, { $id: 'TraceList' });
