import { Type } from 'typebox';

const AsGiven = Type.Object({}, { additionalProperties: true, description: 'As the server gives it' });

export const PromptPath = Type.Object({
  connector_id: Type.String(),
  prompt_name: Type.String({ description: "The server's own name, percent-encoded" }),
});

export const ServerResources = Type.Object({ resources: Type.Array(AsGiven) }, { $id: 'ServerResources' });

export const ReadServerResourceRequest = Type.Unsafe<unknown>({
  $id: 'ReadServerResourceRequest',
  type: ['object', 'null'],
  properties: { uri: Type.Unknown({ description: 'Required text: the address of the resource, as it is listed' }) },
});

export const ServerResourceContents = Type.Object(
  { contents: Type.Array(AsGiven) },
  { $id: 'ServerResourceContents', description: 'Binary contents are base64 in `blob`' },
);

export const ServerPrompts = Type.Object({ prompts: Type.Array(AsGiven) }, { $id: 'ServerPrompts' });

export const GetServerPromptRequest = Type.Unsafe<unknown>({
  $id: 'GetServerPromptRequest',
  type: ['object', 'null'],
  properties: { arguments: Type.Unknown({ description: 'Object of texts; absent means no arguments' }) },
});

export const ServerPromptMessages = Type.Object(
  { description: Type.Optional(Type.String()), messages: Type.Array(AsGiven) },
  { $id: 'ServerPromptMessages' },
);
