import type { UpstreamError } from '../../errors.ts';
import { isJsonObject } from '../../json.ts';
import { retryAfterMs } from '../../outbound/retry-after.ts';
import type { OutboundResponse } from '../../outbound/types.ts';
import { failure, httpFailure, listedVersions, parseRefusal, rpcFailure, type Side } from '../failures.ts';
import { type Exchange, noteError, type WireFacts } from '../session/exchange.ts';
import { contentTypeOf, MAX_ANSWER_BYTES, readText } from './http-answer.ts';

/**
 * Why a server refused a request with its HTTP status: a version it does not speak, the JSON-RPC error in the body where
 * the status says no more, else the status. Versions it names are kept in `facts`, the code of its error in `exchange`.
 */
export async function refusalOf(
  side: Side,
  response: OutboundResponse,
  request: { readonly method: string; readonly hadSession: boolean; readonly exchange?: Exchange | undefined },
  { facts, now }: { readonly facts: WireFacts; readonly now: () => number },
): Promise<UpstreamError> {
  const { method, exchange } = request;
  const text = await readText(response, MAX_ANSWER_BYTES, side).catch(() => '');
  const body = parseRefusal(text);
  const error = isJsonObject(body) && isJsonObject(body.error) ? body.error : undefined;
  const { status } = response;
  const versions = listedVersions(error ?? text);
  if (status === 400 && versions.length > 0 && (method === 'initialize' || error?.code === -32022)) {
    facts.supportedVersions = versions;
    return failure(
      side,
      'version_unsupported',
      `answered HTTP ${status} to ${method}, naming the protocol versions ${versions.join(', ')}`,
      {
        upstreamStatus: status,
        delivered: 'no',
      },
    );
  }
  const answer = {
    status,
    contentType: contentTypeOf(response),
    text,
    retryAfterMs: retryAfterMs(response.headers['retry-after'], now()),
    location: response.headers.location,
    challenge: response.headers['www-authenticate'],
  };
  const failed = httpFailure(side, answer, request);
  const plain = failed.code === 'invalid_response' || (failed.code === 'wrong_path' && error?.code === -32601);
  if (!plain || !error) return failed;
  noteError(exchange, error);
  return rpcFailure(side, method, error);
}
