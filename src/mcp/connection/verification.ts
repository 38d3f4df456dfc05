import { UpstreamError } from '../../errors.ts';
import { BROKEN, DOUBTFUL, SIGN_IN } from '../failure-kinds.ts';
import { METHOD_NOT_FOUND, rpcCode } from '../failures.ts';
import type { Session } from '../session/session.ts';

const VERIFY_MS = 2000;

/**
 * Whether a failed request ends its session, and why: `undefined` when only that request failed. Where the failure may
 * be of either kind, a round trip tells; a server that limits its rate is there.
 */
export async function endOfSession(
  session: Pick<Session, 'ping'>,
  error: UpstreamError,
): Promise<UpstreamError | undefined> {
  if (error.code === 'session_lost' || SIGN_IN.has(error.code) || BROKEN.has(error.code)) return error;
  if (!DOUBTFUL.has(error.code)) return undefined;
  try {
    const answer = await session.ping(VERIFY_MS);
    return answer === 'unknown_method' && rpcCode(error) === METHOD_NOT_FOUND ? error : undefined;
  } catch (failed) {
    if (!(failed instanceof UpstreamError) || failed.code === error.code) return error;
    return failed.code === 'rate_limited' ? undefined : failed;
  }
}
