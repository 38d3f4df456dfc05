import { type JsonObject, wellFormed } from '../../json.ts';
import type { EncodedRequest, LlmCodec, Message, ModelRequest, ToolCall, ToolSpec } from '../types.ts';
import { decodeAnswer } from './openai-chat-answer.ts';
import { mergeRequest } from './openai-chat-merge.ts';
import { wellFormedObject } from './well-formed.ts';

/** Longest description the format takes; the rest is cut. */
const MAX_DESCRIPTION = 1024;
const MAX_NAME = 64;

/** Chat completions of OpenAI, as most other vendors speak it too. */
export const openAiChat: LlmCodec = { name: 'openai/v1/chat/completions', encode, decode: decodeAnswer };

function encode(request: ModelRequest): EncodedRequest {
  const question = wellFormed(request.question);
  const system = request.system === undefined ? undefined : wellFormed(request.system);
  const history = request.history.map(toMessage);
  const interactions = request.interactions.map(toMessage);
  const tools = request.tools.map(toTool);
  const prompt = { role: 'user', content: question };
  const messages = [
    ...(system === undefined ? [] : [{ role: 'system', content: system }]),
    ...history,
    prompt,
    ...interactions,
  ];
  const parts = { system, history, prompt, interactions, tools, parallelToolCalls: request.parallelToolCalls };
  return {
    fragments: {
      _chat_history: history.map((message) => `${JSON.stringify(message)}, `).join(''),
      _interactions: interactions.map((message) => `, ${JSON.stringify(message)}`).join(''),
      tool_configs: toolConfigs(tools, request.parallelToolCalls),
    },
    parameters: {
      question,
      ...parameterTexts(request.parameters),
      prompt: question,
      messages: JSON.stringify(messages),
      ...(system === undefined ? {} : { system_prompt: system }),
    },
    merge: (body, placed) => mergeRequest(body, placed, parts),
  };
}

function parameterTexts(parameters: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(parameters).map(([name, text]) => [name, wellFormed(text)]));
}

function toMessage(message: Message): JsonObject {
  if (message.role === 'user') return { role: 'user', content: wellFormed(message.text) };
  if (message.role === 'tool') {
    return { role: 'tool', tool_call_id: wellFormed(message.toolCallId), content: wellFormed(message.text) };
  }
  const text = wellFormed(message.text);
  if (message.toolCalls.length === 0) return { role: 'assistant', content: text };
  const content = text === '' ? null : text;
  return { role: 'assistant', content, tool_calls: message.toolCalls.map(toToolCall) };
}

/** Arguments go back as the model wrote them; a call without any is `{}`, which every vendor takes. */
function toToolCall(call: ToolCall): JsonObject {
  const text = call.arguments.trim() === '' ? '{}' : wellFormed(call.arguments);
  return { id: wellFormed(call.id), type: 'function', function: { name: legalName(call.name), arguments: text } };
}

/** A name the model invented may be one that the provider refuses to read back. */
function legalName(name: string): string {
  return name.replace(/[^a-zA-Z0-9_-]/gu, '_').slice(0, MAX_NAME) || '_';
}

function toTool(spec: ToolSpec): JsonObject {
  return {
    type: 'function',
    function: {
      name: spec.name,
      description: wellFormed(shortened(spec.description)),
      parameters: wellFormedObject(spec.inputSchema),
      ...(spec.strict === undefined ? {} : { strict: spec.strict }),
    },
  };
}

function shortened(description: string): string {
  if (description.length <= MAX_DESCRIPTION) return description;
  return `${description.slice(0, MAX_DESCRIPTION - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

function toolConfigs(tools: readonly JsonObject[], parallelToolCalls: boolean | undefined): string {
  if (tools.length === 0) return '';
  const parallel = parallelToolCalls === undefined ? '' : `, "parallel_tool_calls": ${parallelToolCalls}`;
  return `, "tools":${JSON.stringify(tools)}${parallel}`;
}
