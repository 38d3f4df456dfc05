import { createHash } from 'node:crypto';
import type { Connector, Connectors } from '../../connectors/types.ts';
import { canonicalJson, type JsonValue } from '../../json.ts';

/**
 * Tells whether two versions of a connector lead to the same server: equal for equal addresses. `undefined` for a local
 * process, which has none. Nothing can be read from it.
 */
export function addressOf({ url, parameters, declared }: Connector): string | undefined {
  if (url === undefined) return undefined;
  const endpoint = parameters.endpoint ?? '';
  const filled = url.includes('${') || endpoint.includes('${');
  return digest([url, endpoint, declared !== undefined, filled ? { ...parameters } : {}]);
}

/**
 * Tells servers apart beyond the life of this process: equal for the same connector with the same address, or of a local
 * server with the same command, arguments and folder. Nothing can be read from it. @throws UpstreamError (`declared.problem`)
 */
export async function serverKey(
  connector: Connector,
  { localServer }: Pick<Connectors, 'localServer'>,
): Promise<string> {
  const address = addressOf(connector);
  if (address !== undefined) return digest([connector.id, address]);
  const { command, args, cwd } = await localServer(connector);
  return digest([connector.id, command, [...args], cwd]);
}

function digest(parts: JsonValue[]): string {
  return createHash('sha256').update(canonicalJson(parts)).digest('base64url').slice(0, 22);
}
