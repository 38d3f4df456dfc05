import type { JsonObject, JsonValue } from '../../src/json.ts';

/** Form of every generated id. */
export const ID = /^[0-9A-Za-z]{20}$/;

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: JsonObject;
}

/** The REST API below `/_plugins/_ml` (or below the root for paths that begin with `/_`) over a real socket. */
export interface Rest {
  send(method: string, path: string, body?: JsonValue): Promise<Answer>;
  /** The body of a 200. @throws Error with status and body otherwise */
  ok(method: string, path: string, body?: JsonValue): Promise<JsonObject>;
}

export function createRest(url: string): Rest {
  async function send(method: string, path: string, body?: JsonValue): Promise<Answer> {
    const answer = await fetch(`${url}${path.startsWith('/_') ? '' : '/_plugins/_ml'}${path}`, {
      method,
      ...(body !== undefined && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    });
    return { status: answer.status, headers: answer.headers, body: (await answer.json()) as JsonObject };
  }
  return {
    send,
    async ok(method, path, body) {
      const answer = await send(method, path, body);
      if (answer.status !== 200) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
      return answer.body;
    },
  };
}

/** A remote chat model behind a connector without placeholders for tools; resolves with its id. */
export async function registerChatModel(rest: Rest, chatUrl: string): Promise<string> {
  const { model_id: modelId } = await rest.ok('POST', '/models/_register?deploy=true', {
    name: 'chat',
    function_name: 'remote',
    connector: chatConnector(chatUrl),
  });
  return String(modelId);
}

/** A connector to a `chat/completions` provider, in the common form. */
export function chatConnector(chatUrl: string): JsonObject {
  return {
    name: 'chat provider',
    version: 1,
    protocol: 'http',
    parameters: { model: 'test' },
    credential: { openai_key: 'a-model-key' },
    actions: [
      {
        action_type: 'predict',
        method: 'POST',
        url: chatUrl,
        headers: { Authorization: 'Bearer ${credential.openai_key}' },
        request_body: '{"model":"${parameters.model}","messages":[{"role":"user","content":"${parameters.prompt}"}]}',
      },
    ],
  };
}
