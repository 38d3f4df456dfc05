import { randomUUID } from 'node:crypto';
import { INVALID_ARGUMENT } from '../errors.ts';
import { exceedsDepth, isJsonObject, type JsonObject, MAX_REMOTE_DEPTH, parseJson } from '../json.ts';

const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/**
 * Lets `change` work on the object a JSON text holds. Numbers it does not touch keep their digits: those that a double
 * cannot spell back (integers above 2^53, `1.0`) are marked texts while `change` runs.
 * @throws INVALID_ARGUMENT when the text is not one JSON object
 */
export function changeJson(text: string, change: (body: JsonObject) => JsonObject): string {
  const mark = `number:${randomUUID()}:`;
  const marked = text.replace(TOKEN, (token) =>
    token.startsWith('"') || String(Number(token)) === token ? token : JSON.stringify(mark + token),
  );
  const body = parseJson(marked);
  if (!isJsonObject(body)) {
    throw new INVALID_ARGUMENT(
      'The request_body of the connector must render to one JSON object, so that messages and tools can be put into it.',
    );
  }
  if (exceedsDepth(body, MAX_REMOTE_DEPTH)) {
    throw new INVALID_ARGUMENT(
      `The request_body renders to JSON that is nested deeper than ${MAX_REMOTE_DEPTH} levels.`,
    );
  }
  return JSON.stringify(change(body)).replace(new RegExp(`"${mark}([^"]*)"`, 'g'), '$1');
}
