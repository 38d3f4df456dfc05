import { createHash } from 'node:crypto';
import type { Connector } from '../../connectors/types.ts';
import { canonicalJson } from '../../json.ts';

/**
 * Tells whether two versions of a connector lead to the same server: equal for equal addresses. `undefined` for a local
 * process, which has none. Nothing can be read from it.
 */
export function addressOf({ url, parameters, declared }: Connector): string | undefined {
  if (url === undefined) return undefined;
  const endpoint = parameters.endpoint ?? '';
  const filled = url.includes('${') || endpoint.includes('${');
  const address = [url, endpoint, declared !== undefined, filled ? { ...parameters } : {}];
  return createHash('sha256').update(canonicalJson(address)).digest('base64url').slice(0, 22);
}
