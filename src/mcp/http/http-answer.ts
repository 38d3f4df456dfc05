import type { JsonObject } from '../../json.ts';
import type { OutboundResponse } from '../../outbound/types.ts';
import { failure, type Side } from '../failures.ts';

const MIB = 1024 * 1024;
/** Largest JSON answer. */
export const MAX_ANSWER_BYTES = 8 * MIB;
/** Largest event of an SSE answer. */
export const MAX_EVENT_BYTES = 4 * MIB;
/** Everything one call may receive. */
export const MAX_CALL_BYTES = 32 * MIB;

/** The media type without parameters, lower-case; `''` when there is none. */
export function contentTypeOf(response: OutboundResponse): string {
  return (response.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
}

/** The body as text. @throws UpstreamError when it is larger than `limit` octets or breaks off. */
export async function readText(response: OutboundResponse, limit: number, side: Side): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body) {
    size += chunk.byteLength;
    if (size > limit) {
      response.discard();
      throw failure(side, 'invalid_response', `sent an answer larger than ${limit / MIB} MiB`);
    }
    chunks.push(chunk);
  }
  const [only] = chunks;
  const octets = chunks.length === 1 && only ? only : Buffer.concat(chunks);
  return new TextDecoder().decode(octets);
}

/** A finished answer in the shape the SDK reads; a message is handed over as it is, not serialised again. */
export function answered(
  status: number,
  headers: Readonly<Record<string, string>>,
  content: string | JsonObject,
): Response {
  const isMessage = typeof content !== 'string';
  const fields: Readonly<Record<string, string>> = isMessage
    ? { ...headers, 'content-type': 'application/json' }
    : headers;
  const answer = {
    ok: status >= 200 && status < 300,
    status,
    statusText: '',
    type: 'basic',
    url: '',
    body: null,
    headers: {
      get: (name: string) => fields[name.toLowerCase()] ?? null,
      has: (name: string) => fields[name.toLowerCase()] !== undefined,
    },
    text: async () => (isMessage ? JSON.stringify(content) : content),
    json: async () => (isMessage ? content : JSON.parse(content)),
  };
  return answer as unknown as Response;
}
