import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { isJsonObject, type JsonObject, type JsonValue, parseJson } from '../../src/json.ts';
import { strictFault } from './fake-llm-strict.ts';

export interface LlmToolCall {
  readonly tool: string;
  /** Raw arguments text; absent means `{}`. `null` goes out as JSON null. */
  readonly args?: string | null;
  /** Absent: generated. `null`: the call carries no id. */
  readonly id?: string | null;
}

interface Timing {
  /** Waits before answering; ends early when the caller goes away. */
  readonly delayMs?: number;
  /** Answers only when this promise settles. */
  readonly hold?: Promise<unknown>;
}

/** One answer of the model: a plain text, one or several tool calls, a choice as it is, or a whole HTTP answer. */
export type LlmReply =
  | string
  | ({ readonly text: string; readonly finish?: string } & Timing)
  | (LlmToolCall & { readonly finish?: string; readonly text?: string } & Timing)
  | ({ readonly calls: readonly LlmToolCall[]; readonly finish?: string; readonly text?: string } & Timing)
  | ({ readonly raw: JsonValue } & Timing)
  | ({
      readonly body: JsonValue;
      readonly status?: number;
      readonly headers?: Readonly<Record<string, string>>;
      /** Sends a `body` that is a string as it is, not as JSON text. */
      readonly verbatim?: boolean;
    } & Timing)
  | ({ readonly destroy: true } & Timing);

export interface LlmRequest {
  readonly time: number;
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** Body as received. */
  readonly text: string;
  /** Parsed body; `{}` when it is not a JSON object. */
  readonly body: JsonObject;
  readonly messages: readonly JsonObject[];
  readonly tools: readonly JsonObject[];
  readonly toolNames: readonly string[];
}

export type LlmScript = LlmReply | ((request: LlmRequest) => LlmReply | Promise<LlmReply>);

export interface FakeLlmOptions {
  readonly replies?: readonly LlmScript[];
  /** Answers 400 to requests a picky provider refuses. */
  readonly strict?: boolean;
  /** Answers 401 unless `Authorization` equals this. */
  readonly authorization?: string;
}

export interface FakeLlmServer {
  /** `http://127.0.0.1:<port>` */
  readonly origin: string;
  readonly port: number;
  /** `<origin>/v1/chat/completions` */
  readonly url: string;
  /** Every request, refused ones too, in order of arrival. */
  readonly requests: readonly LlmRequest[];
  /** Requests refused by strict mode, as texts. */
  readonly faults: readonly string[];
  /** Appends to the queue. The last reply repeats until another one is pushed. */
  push(...replies: LlmScript[]): void;
  /** Replaces the queue and forgets what was recorded. */
  reset(...replies: LlmScript[]): void;
  close(): Promise<void>;
}

/** Starts an OpenAI-shaped model on loopback that answers from a queue; with an empty queue it answers `final`. */
export async function startFakeLlm(options: FakeLlmOptions = {}): Promise<FakeLlmServer> {
  const queue: LlmScript[] = [...(options.replies ?? [])];
  const requests: LlmRequest[] = [];
  const faults: string[] = [];
  let serial = 0;
  let used = 0;

  async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const request = await record(incoming);
    requests.push(request);
    if (options.authorization !== undefined && request.headers.authorization !== options.authorization) {
      sendJson(outgoing, 401, { error: { message: 'Incorrect API key provided.', type: 'invalid_request_error' } });
      return;
    }
    const fault = options.strict ? strictFault(request.text, request.body) : undefined;
    if (fault !== undefined) {
      faults.push(fault);
      sendJson(outgoing, 400, { error: { message: fault, type: 'invalid_request_error' } });
      return;
    }
    const script = queue[Math.min(used, queue.length - 1)] ?? 'final';
    used = Math.min(used + 1, queue.length);
    const reply = typeof script === 'function' ? await script(request) : script;
    await wait(reply, incoming, outgoing);
    if (outgoing.destroyed) return;
    serial += 1;
    send(outgoing, reply, request, serial);
  }

  const server = createServer((incoming, outgoing) => {
    answer(incoming, outgoing).catch(() => outgoing.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const port = (server.address() as AddressInfo).port;
  const origin = `http://127.0.0.1:${port}`;

  return {
    origin,
    port,
    url: `${origin}/v1/chat/completions`,
    requests,
    faults,
    push: (...replies) => {
      queue.push(...replies);
    },
    reset: (...replies) => {
      queue.splice(0, queue.length, ...replies);
      used = 0;
      requests.length = 0;
      faults.length = 0;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function record(incoming: IncomingMessage): Promise<LlmRequest> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString('utf8');
  const parsed = parseJson(text);
  const body = isJsonObject(parsed) ? parsed : {};
  const tools = objects(body.tools);
  return {
    time: Date.now(),
    method: incoming.method ?? '',
    path: incoming.url ?? '',
    headers: incoming.headers,
    text,
    body,
    messages: objects(body.messages),
    tools,
    toolNames: tools.map((tool) => String(isJsonObject(tool.function) ? tool.function.name : undefined)),
  };
}

function objects(value: JsonValue | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

async function wait(reply: LlmReply, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  if (typeof reply === 'string') return;
  if (reply.delayMs !== undefined) {
    const gone = new AbortController();
    outgoing.once('close', () => gone.abort());
    await sleep(reply.delayMs, undefined, { signal: gone.signal }).catch(() => incoming.destroy());
  }
  await reply.hold;
}

function send(outgoing: ServerResponse, reply: LlmReply, request: LlmRequest, serial: number): void {
  if (typeof reply === 'object' && 'destroy' in reply) {
    outgoing.destroy();
    return;
  }
  if (typeof reply === 'object' && 'body' in reply) {
    const text = reply.verbatim && typeof reply.body === 'string' ? reply.body : JSON.stringify(reply.body);
    outgoing.writeHead(reply.status ?? 200, { 'content-type': 'application/json', ...reply.headers });
    outgoing.end(text);
    return;
  }
  sendJson(outgoing, 200, {
    id: `chatcmpl-${serial}`,
    object: 'chat.completion',
    created: 1_700_000_000,
    model: request.body.model ?? 'fake',
    choices: [choiceOf(reply, serial)],
    usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 },
  });
}

function choiceOf(
  reply: Exclude<LlmReply, { readonly body: JsonValue } | { readonly destroy: true }>,
  serial: number,
): JsonValue {
  if (typeof reply === 'string') return textChoice(reply, 'stop');
  if ('raw' in reply) return reply.raw;
  if ('calls' in reply) return callsChoice(reply.calls, reply.finish, reply.text, serial);
  if ('tool' in reply) return callsChoice([reply], reply.finish, reply.text, serial);
  return textChoice(reply.text, reply.finish ?? 'stop');
}

function textChoice(text: string, finish: string): JsonObject {
  return { index: 0, finish_reason: finish, message: { role: 'assistant', content: text, refusal: null } };
}

function callsChoice(
  calls: readonly LlmToolCall[],
  finish: string | undefined,
  text: string | undefined,
  serial: number,
): JsonObject {
  const tool_calls = calls.map((call, index): JsonObject => {
    const id = call.id === undefined ? `call_${serial}_${index}` : call.id;
    return {
      ...(id === null ? {} : { id }),
      type: 'function',
      function: { name: call.tool, arguments: call.args === undefined ? '{}' : call.args },
    };
  });
  return {
    index: 0,
    finish_reason: finish ?? 'tool_calls',
    message: { role: 'assistant', content: text ?? null, refusal: null, tool_calls },
  };
}

function sendJson(outgoing: ServerResponse, status: number, body: JsonObject): void {
  outgoing.writeHead(status, { 'content-type': 'application/json' });
  outgoing.end(JSON.stringify(body));
}
