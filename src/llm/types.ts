import type { JsonObject, JsonValue } from '../json.ts';

/** The neutral language between the agent loop and the wire formats. */
export interface ToolSpec {
  /** Matches `^[a-zA-Z0-9_-]{1,64}$`. */
  readonly name: string;
  readonly description: string;
  /** Root is `type: object` with `properties`. */
  readonly inputSchema: JsonObject;
  readonly strict?: boolean;
}

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** Arguments as the model wrote them: raw text, maybe not valid JSON, digits untouched. */
  readonly arguments: string;
}

export type Message =
  | { readonly role: 'user'; readonly text: string }
  | { readonly role: 'assistant'; readonly text: string; readonly toolCalls: readonly ToolCall[] }
  | {
      readonly role: 'tool';
      readonly toolCallId: string;
      readonly name: string;
      readonly text: string;
      readonly isError: boolean;
    };

export type StopReason = 'stop' | 'tool_calls' | 'length' | 'content_filter' | 'refusal' | 'other';

export interface Usage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly totalTokens: number;
}

/** One whole model answer. */
export interface ModelAnswer {
  readonly text: string;
  readonly toolCalls: readonly ToolCall[];
  readonly stopReason: StopReason;
  /** The provider's own word for it. */
  readonly wireStopReason: string | undefined;
  readonly usage?: Usage;
}

/** A stream, once started, never throws: it ends with exactly one `done` or `error`. */
export type ModelEvent =
  | { readonly type: 'text'; readonly delta: string }
  | { readonly type: 'done'; readonly answer: ModelAnswer }
  | { readonly type: 'error'; readonly error: Error };

export interface ModelRequest {
  readonly system?: string;
  /** Finished turns of the conversation before this one. */
  readonly history: readonly Message[];
  /** The user's question of this turn. */
  readonly question: string;
  /** Assistant and tool messages of this turn so far. */
  readonly interactions: readonly Message[];
  readonly tools: readonly ToolSpec[];
  readonly parallelToolCalls?: boolean;
  /** The agent's `llm.parameters` and the caller's `parameters`, for the connector's template. */
  readonly parameters: Readonly<Record<string, string>>;
}

/** Parameters of a template that a codec fills; a template may have a place for any of them. */
export type TemplateParameter =
  | 'messages'
  | 'prompt'
  | 'question'
  | 'system_prompt'
  | '_chat_history'
  | '_interactions'
  | 'tool_configs';

/** What a codec makes of a request: fragments for templates that have placeholders, members for those that have none. */
export interface EncodedRequest {
  /** `_chat_history`, `_interactions`, `tool_configs`: inserted verbatim. */
  readonly fragments: Readonly<Record<string, string>>;
  /** Ordinary parameters such as `prompt` and `system_prompt`: inserted with escaping. */
  readonly parameters: Readonly<Record<string, string>>;
  /** Puts into a rendered body what its template has no placeholder for; `placed` names the placeholders it has. */
  readonly merge: (body: JsonObject, placed: ReadonlySet<TemplateParameter>) => JsonObject;
}

export interface ModelClient {
  /** `undefined` interface: told from the model's connector. @throws MODEL_NOT_FOUND, INVALID_ARGUMENT before the start. */
  stream(
    modelId: string,
    llmInterface: string | undefined,
    request: ModelRequest,
    signal: AbortSignal | undefined,
  ): Promise<AsyncIterable<ModelEvent>>;
}

/** A wire format. Pure. */
export interface LlmCodec {
  /** The `_llm_interface` value it answers to. */
  readonly name: string;
  encode(request: ModelRequest): EncodedRequest;
  /** @throws ModelAnswerError when the answer has no usable choice; its message names what was there instead. */
  decode(response: JsonValue): ModelAnswer;
}
